"""The context of a question: what a model is given, and why."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from numbers import Integral
from typing import Literal, TypeAlias

import msgspec

from ragstore_client.context._formats import Style
from ragstore_client.context._messages import Message
from ragstore_client.context._passages import ContextPassage
from ragstore_client.context._retrieve import StepFailure

Reason: TypeAlias = Literal["short_question", "no_match", "timeout", "failed", "disabled", "no_sources"]

_TEXT_FIELDS = frozenset({"text", "text_preview", "content", "document"})
_MAX_TITLE = 80
"""Maximum length of metadata that may also occur in a passage's text, such as a heading."""


class Timings(msgspec.Struct, frozen=True, kw_only=True):
    """Durations in seconds; 0 for a step that was not needed.

    Attributes:
        search_seconds: embedding and search of all scopes.
        rerank_seconds: the reranker.
        select_seconds: everything from the threshold to the selection, without the reranker.
        total_seconds: all of `build`.
    """

    search_seconds: float = 0.0
    rerank_seconds: float = 0.0
    select_seconds: float = 0.0
    total_seconds: float = 0.0


class ChatContext(msgspec.Struct, frozen=True, kw_only=True):
    """The context of one question.

    Attributes:
        query: the text that was searched for: the question, or the topic.
        used: whether there are passages.
        reason: why there are none: `short_question`, `no_match`, `timeout`, `failed`, `disabled`, `no_sources`; None if
            there are some.
        passages: the passages, the best one first.
        tokens: tokens of the formatted context.
        failures: scopes and steps that failed or were too slow; the context does without them.
        cached: whether the passages are from the cache.
        timings: durations.
        style: the format.
        debug_enabled: whether `debug_line` returns a line.
    """

    question: str
    query: str
    used: bool
    reason: Reason | None
    style: Style
    passages: list[ContextPassage] = []
    tokens: int = 0
    failures: list[StepFailure] = []
    cached: bool = False
    timings: Timings = Timings()
    debug_enabled: bool = False

    @property
    def citations(self) -> list[str]:
        """The passages' citations without brackets, each once: `manual.pdf#3`."""
        return list(dict.fromkeys(passage.citation for passage in self.passages))

    def messages(self, history: Sequence[Message] = ()) -> list[dict[str, object]]:
        """The chat messages for a model.

        Args:
            history: the earlier messages, with or without the question as the last one.

        Returns:
            The history, the context and the question; without passages, the history and the question.
        """
        return self.style.messages(self.question, self.passages, history)

    def text(self) -> str:
        """The prompt for a model that completes a text: the context and the question."""
        return self.style.text(self.question, self.passages)

    def debug(self) -> dict[str, object]:
        """How the context came about: ids, metadata and scores, without the passages' texts.

        Metadata that repeats a passage's text, such as `text_preview`, is left out.
        """
        chunks = [
            {
                "id": passage.id,
                "metadata": _without_text(passage.metadata, passage.text),
                "score": _json(passage.similarity, ""),
            }
            for passage in self.passages
        ]
        return {
            "used": self.used,
            "citations": self.citations,
            "chunks": chunks,
            "tokens": self.tokens,
            "reason": self.reason,
            "cached": self.cached,
            "ms": round(self.timings.total_seconds * 1000, 1),
        }

    def debug_line(self) -> str:
        """`debug()` as a comment for a stream of server-sent events: one line, and the empty line that ends it.

        Returns:
            `: RAG_DEBUG {...}` and two line feeds; an empty string unless the setting `debug` is on.
        """
        # ASCII only, so that neither a line separator nor a lone surrogate of a metadata value is in the stream.
        return f": RAG_DEBUG {json.dumps(self.debug(), allow_nan=False)}\n\n" if self.debug_enabled else ""


def _without_text(metadata: Mapping[str, object], text: str) -> dict[str, object]:
    """Metadata as JSON, without what repeats the text of the passage."""
    return {
        str(name): _json(value, text)
        for name, value in metadata.items()
        if str(name) not in _TEXT_FIELDS and not _repeats(value, text)
    }


def _repeats(value: object, text: str) -> bool:
    if isinstance(value, list | tuple):
        return any(_repeats(item, text) for item in value)
    return isinstance(value, str) and len(value) > _MAX_TITLE and value[:_MAX_TITLE] in text


def _json(value: object, text: str) -> object:
    """A value that JSON can represent. A source may have metadata that the service does not have, such as dates."""
    match value:
        case None | bool() | int() | str():
            return value
        case float():
            return value if math.isfinite(value) else None
        case Mapping():
            return _without_text(value, text)
        case list() | tuple():
            return [_json(item, text) for item in value]
        case Integral():
            return int(value)
        case _:
            return type(value).__name__
