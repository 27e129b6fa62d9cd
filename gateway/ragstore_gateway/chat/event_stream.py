"""The stream of a `rag/` model: server-sent events are changed one by one, as they arrive."""

from __future__ import annotations

import re
from collections.abc import Generator, Sequence
from itertools import islice
from typing import Annotated, Final

import msgspec
from msgspec import Meta, Raw, Struct

from ragstore_client.context import ContextPassage
from ragstore_gateway.chat import metrics
from ragstore_gateway.chat.body import UNREADABLE, encode_raw, write_fields
from ragstore_gateway.chat.citations import ResponseCitations
from ragstore_gateway.chat.completion import debug_line, renamed

MAX_EVENT_BYTES: Final = 4 * 1024 * 1024
"""Maximum size of an event that is held until its end. What follows a larger one is passed on unchanged."""

DONE: Final = b"[DONE]"

_END: Final = re.compile(rb"\r?\n\r?\n|\r\r")
_END_BYTES: Final = 4
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
        debug: details of retrieval, sent as a comment before everything else; None for none.

    Attributes:
        complete: whether the end of the response has arrived.
    """

    def __init__(
        self, model: Raw, passages: Sequence[ContextPassage], *, annotate: bool, debug: dict[str, object] | None
    ) -> None:
        self._model = model
        self._choices = ResponseCitations(passages) if passages else None
        self._annotate = annotate
        self._debug = debug
        self._buffer = bytearray()
        self._searched = 0
        self._unchanged = False
        self._template: dict[str, Raw] = {}
        self._invented: list[str] = []
        self.complete = False

    def begin(self) -> bytes:
        """The bytes before the first event."""
        return b"" if self._debug is None else debug_line(self._debug)

    def feed(self, chunk: bytes) -> Generator[None, None, bytes]:
        """Change the events that a chunk completes, one in each step or in several.

        Args:
            chunk: the next bytes of the stream.

        Returns:
            The bytes to send now.
        """
        if self._unchanged:
            return chunk
        self._buffer += chunk
        pieces: list[bytes] = []
        start = 0
        while match := _END.search(self._buffer, max(start, self._searched)):
            event = bytes(self._buffer[start : match.start()])
            yield from self._event(event, match[0], pieces)
            start = match.end()
            yield
        del self._buffer[:start]
        # The next search begins where an end may have begun.
        self._searched = max(0, len(self._buffer) - _END_BYTES)
        if len(self._buffer) > MAX_EVENT_BYTES:
            self._unchanged = True
            # Whether the response ends in order is not known from here on.
            self.complete = True
            pieces.append(bytes(self._buffer))
            self._buffer.clear()
        return b"".join(pieces)

    def finish(self) -> Generator[None, None, bytes]:
        """The bytes after the last one of the upstream, if its stream ended in order."""
        pieces: list[bytes] = []
        if self._buffer:
            yield from self._event(bytes(self._buffer), b"", pieces)
            self._buffer.clear()
        return b"".join(pieces)

    def _event(self, event: bytes, end: bytes, pieces: list[bytes]) -> Generator[None, None, None]:
        """Add the bytes for an event."""
        lines = list(islice(_DATA.finditer(event), 2))
        if len(lines) != 1:  # a comment, or JSON over several lines, which no upstream is known to send
            pieces.append(event + end)
            return
        start, stop = lines[0].span(1)
        stop -= event.endswith(b"\r", start, stop)
        data = event[start:stop]
        if data.strip() == DONE:
            pieces.extend(self._end())
            pieces.append(event + end)
            return
        changed = renamed(data, self._model)
        own = event[:start] + changed + event[stop:] + end
        try:
            chunk = _CHUNK.decode(data)
            fields = _FIELDS.decode(changed) if chunk.choices and not self._template else {}
        except UNREADABLE:
            pieces.append(own)
            return
        finished = [choice for choice in chunk.choices if choice.finish_reason is not None]
        self.complete = self.complete or bool(finished)
        if self._choices is None:
            pieces.append(own)
            return
        self._template = self._template or {name: fields[name] for name in _COPIED if name in fields}
        for choice in chunk.choices:
            if choice.delta is not None and choice.delta.content:
                yield from self._choices.feed(choice.index, choice.delta.content)
        added = [self._annotations(choice.index) for choice in finished]
        # The delta with annotations is the last one, so it precedes a chunk that only says why the response ended.
        has_content = any(choice.delta is not None and choice.delta.content for choice in finished)
        pieces.extend([own, *added] if has_content else [*added, own])

    def _end(self) -> list[bytes]:
        """End the choices that have no reason to end, and report the citations of sources that do not exist."""
        self.complete = True
        pieces = [] if self._choices is None else [self._annotations(index) for index in self._choices.open]
        if self._invented:
            metrics.INVENTED_CITATIONS.inc(len(self._invented))
            if self._debug is not None:
                pieces.append(debug_line({"invented": self._invented}))
        self._invented = []
        return pieces

    def _annotations(self, index: int) -> bytes:
        """A chunk with the annotations of a choice; empty if there are none."""
        if self._choices is None:
            return b""
        citations = self._choices.end(index)
        self._invented.extend(citation.label for citation in citations if citation.invented)
        annotations = self._choices.annotations(citations) if self._annotate else []
        if not annotations:
            return b""
        choice = {"index": index, "delta": {"annotations": annotations}, "finish_reason": None}
        return b"data: " + write_fields({**self._template, "choices": encode_raw([choice])}) + b"\n\n"
