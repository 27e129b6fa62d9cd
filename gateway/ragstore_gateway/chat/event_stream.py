"""The stream of a `rag/` model: server-sent events are changed one by one, as they arrive."""

from __future__ import annotations

import re
from collections.abc import Generator, Sequence
from itertools import islice
from typing import Annotated, Final

import msgspec
from msgspec import Meta, Raw, Struct

from ragstore_gateway.chat import metrics
from ragstore_gateway.chat.body import UNREADABLE, encode_raw, write_fields
from ragstore_gateway.chat.citations import ResponseCitations
from ragstore_gateway.chat.completion import debug_line, renamed
from ragstore_gateway.chat.event_frames import DONE, EventFrames, is_error
from ragstore_gateway.chat.prompt_passage import PromptPassage
from ragstore_gateway.chat.shown_passage import shown

MAX_DATA_LINES: Final = 64
"""Maximum number of lines of JSON of an event. An event with more is passed on unchanged."""

_DATA: Final = re.compile(rb"^data:[ ]?([^\n]*)", re.MULTILINE)


class _Delta(Struct, frozen=True):
    content: str | None = None


class _Choice(Struct, frozen=True):
    index: Annotated[int, Meta(ge=0, le=2**31)] = 0
    delta: _Delta | None = None
    finish_reason: str | None = None


class _Chunk(Struct, frozen=True):
    choices: list[_Choice] = []


_CHUNK: Final = msgspec.json.Decoder(_Chunk)
_FIELDS: Final = msgspec.json.Decoder(dict[str, Raw])
_COPIED: Final = ("id", "object", "created", "model", "system_fingerprint")


class EventStream:
    """Changes a stream of chunks: the model's name in each, and annotations at the end.

    Args:
        model: the requested name, as JSON.
        passages: the passages in the prompt.
        annotate: whether to add a delta with annotations.
        by_number: whether the annotations are in the order of their numbers; see `annotations_by_number`.
        list_sources: whether to add a delta with a list of the cited sources.
        show_passages: whether the last delta has the passages.
        debug: details of retrieval, sent as a comment before everything else; None for none.

    Attributes:
        complete: whether the end of the response has arrived.
    """

    def __init__(
        self,
        model: Raw,
        passages: Sequence[PromptPassage],
        *,
        annotate: bool,
        debug: dict[str, object] | None,
        by_number: bool = False,
        list_sources: bool = False,
        show_passages: bool = False,
    ) -> None:
        self._model = model
        citations = ResponseCitations(passages, by_number=by_number)
        self._choices = citations if passages or show_passages else None
        self._annotate = annotate
        self._list_sources = list_sources
        self._has_passages = bool(passages)
        self._shown = shown(passages) if show_passages else None
        self._debug = debug
        self._frames = EventFrames()
        self._unchanged = False
        self._template: dict[str, Raw] = {}
        self._invented: list[str] = []
        self.complete = False

    def begin(self) -> bytes:
        """The bytes before the first event."""
        return b"" if self._debug is None else debug_line(self._debug)

    def feed(self, chunk: bytes) -> Generator[bytes, None, None]:
        """Change the events that a chunk completes, one in each step or in several.

        Only the event of the current step is changed: a chunk may have hundreds of events, and each gets larger by the
        requested name.

        Args:
            chunk: the next bytes of the stream.

        Yields:
            After each step the bytes to send now; none where an event needs further steps.
        """
        if self._unchanged:
            yield chunk
            return
        for event, end in self._frames.feed(chunk):
            yield from self._event(event, end)
        if self._frames.is_too_large:
            # What follows is passed on unchanged, so whether the response ends in order is not known from here on.
            self._unchanged = True
            self.complete = True
            yield self._frames.take_rest()

    def finish(self) -> Generator[bytes, None, None]:
        """The bytes after the last one of the upstream, if its stream ended in order."""
        if rest := self._frames.take_rest():
            yield from self._event(rest, b"")

    def _event(self, event: bytes, end: bytes) -> Generator[bytes, None, None]:
        """The bytes for an event, in pieces."""
        lines = list(islice(_DATA.finditer(event), MAX_DATA_LINES + 1))
        if len(lines) > 1:
            joined = _with_one_line(event, lines)
            lines = [] if joined is None else list(_DATA.finditer(joined))
            event = joined or event
        if len(lines) != 1:  # a comment, or several lines that are not JSON
            yield event + end
            return
        start, stop = lines[0].span(1)
        stop -= event.endswith(b"\r", start, stop)
        data = event[start:stop]
        if data.strip() == DONE:
            yield from self._end()
            yield event + end
            return
        changed = renamed(data, self._model)
        own = event[:start] + changed + event[stop:] + end
        try:
            chunk = _CHUNK.decode(data)
            fields = _FIELDS.decode(changed) if chunk.choices and not self._template else {}
        except UNREADABLE:
            yield own
            return
        if is_error(data):
            # The upstream says itself why its stream ends here.
            self.complete = True
        finished = [choice for choice in chunk.choices if choice.finish_reason is not None]
        self.complete = self.complete or bool(finished)
        if self._choices is None:
            yield own
            return
        self._template = self._template or {name: fields[name] for name in _COPIED if name in fields}
        for choice in chunk.choices if self._has_passages else ():
            if choice.delta is not None and choice.delta.content:
                for _ in self._choices.feed(choice.index, choice.delta.content):
                    yield b""
        # The delta with annotations is the last one, so it precedes a chunk that only says why the response ended.
        has_content = any(choice.delta is not None and choice.delta.content for choice in finished)
        if has_content:
            yield own
        for choice in finished:
            yield self._annotations(choice.index)
        if not has_content:
            yield own

    def _end(self) -> Generator[bytes, None, None]:
        """End the choices that have no reason to end, and report the citations of sources that do not exist."""
        self.complete = True
        for index in [] if self._choices is None else self._choices.open:
            yield self._annotations(index)
        if self._invented:
            metrics.INVENTED_CITATIONS.inc(len(self._invented))
            if self._debug is not None:
                yield debug_line({"invented": self._invented})
        self._invented = []

    def _annotations(self, index: int) -> bytes:
        """The chunks at the end of a choice: the list of its sources, its annotations, the passages; empty for none."""
        if self._choices is None:
            return b""
        citations = self._choices.end(index)
        self._invented.extend(citation.label for citation in citations if citation.invented)
        listed = self._choices.source_list(citations) if self._list_sources else ""
        added = self._delta(index, {"content": listed}) if listed else b""
        last: dict[str, object] = {}
        if self._annotate and (annotations := self._choices.annotations(citations)):
            last["annotations"] = annotations
        if self._shown is not None:
            last["passages"] = self._shown
            self._shown = None
        return added + self._delta(index, last) if last else added

    def _delta(self, index: int, delta: dict[str, object]) -> bytes:
        """A chunk of a choice."""
        choice = {"index": index, "delta": delta, "finish_reason": None}
        return b"data: " + write_fields({**self._template, "choices": encode_raw([choice])}) + b"\n\n"


def _with_one_line(event: bytes, lines: Sequence[re.Match[bytes]]) -> bytes | None:
    """An event whose JSON has several `data` lines, with one such line; None if it is another event.

    A line break between two tokens is a space.
    """
    if len(lines) > MAX_DATA_LINES:
        return None
    data = b" ".join(line[1].rstrip(b"\r") for line in lines)
    try:
        _FIELDS.decode(data)
    except UNREADABLE:
        return None
    head, tail = event[: lines[0].start()], event[lines[-1].end() :]
    between = event[lines[0].end() : lines[-1].start()]
    # Other fields between the lines are not repeated: no upstream is known to send some there.
    return None if _DATA.sub(b"", between).strip() else head + b"data: " + data + tail
