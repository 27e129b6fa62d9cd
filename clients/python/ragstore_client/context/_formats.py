r"""Formats passages for a model, in the styles of four projects.

Each style has a context, which is the text that the passages add, and places it in a prompt or in chat messages. A
passage cannot end its block or begin another one: lines that look like the style's structure get a backslash, and
control, bidirectional and hidden characters are written as `\u{202e}`. `Style.unescape` restores a passage's text.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import ClassVar, Final, Protocol

import msgspec

from ragstore_client.context._escape import (
    clean_name,
    escape_controls,
    escape_lines,
    escape_quotes,
    skeleton,
    unescape_controls,
    unescape_lines,
    unescape_quotes,
)
from ragstore_client.context._messages import Message, add_to_system, split_question, user_message
from ragstore_client.context._passages import ContextPassage
from ragstore_client.rag._formatting import SEPARATOR, TEXTS, texts

SECTIONS_SYSTEM: Final = (
    "You are an AI assistant. Base your reply on the context and cite its passages as [filename.pdf#chunk_id]."
)
NUMBERED_SYSTEM: Final = (
    "You are a precise assistant. Use ONLY the provided context for facts. Cite as [n] and list sources."
)


class Style(Protocol):
    """A format of contexts."""

    @property
    def name(self) -> str:
        """Its name in settings."""
        ...

    def context(self, passages: Sequence[ContextPassage]) -> str:
        """The text that passages add to a prompt, with headings and separators; empty without passages."""
        ...

    def parts(self, passage: ContextPassage) -> list[str]:
        """The pieces of `context` that one passage adds, with its separators."""
        ...

    @property
    def frame(self) -> list[str]:
        """The pieces of `context` that do not depend on the passages."""
        ...

    def text(self, question: str, passages: Sequence[ContextPassage]) -> str:
        """A prompt: the context and the question."""
        ...

    def messages(
        self, question: str, passages: Sequence[ContextPassage], history: Sequence[Message] = ()
    ) -> list[dict[str, object]]:
        """Chat messages: the history, the context and the question.

        Args:
            question: the question, unchanged in a user message or in its part of one.
            passages: the passages; without any, nothing but the question is added.
            history: the earlier messages. A last user message whose text is the question is replaced, and its other
                parts, such as images, are kept.
        """
        ...

    def escape(self, text: str) -> str:
        """The text of a passage as it is written in the context."""
        ...

    def unescape(self, text: str) -> str:
        """Undo `escape`."""
        ...


_SECTIONS: Final = re.compile(r"\[\s*(?:system|context|user|assistant)\s*\]|-\s*from\b.*:")
_NUMBERED: Final = re.compile(r"source\s*\[|(?:sources|context|question)\s*:|-\s*\[\s*\d+\s*\]")
_HEADINGS: Final = re.compile(r"#+\s*(?:source\b|relevant context|search results)")
_MARKDOWN: Final = re.compile(
    r" {0,3}(?:#{1,3}(?:[ \t]|\r?$)|(?:=+|-+)[ \t]*\r?$|`{3}|~{3}"
    r"|<(?:script|pre|style|textarea)(?:[\s>]|$)|<[!?])",
    re.IGNORECASE,
)
_ARCHIVES: Final = re.compile(
    r"-{3,}$|\[\s*\d+\s*\]\s*archive?\b|"
    + "|".join(re.escape(language.context_heading.lower()) for language in TEXTS.values())
)


class _Format(msgspec.Struct, frozen=True, kw_only=True):
    """Base of the styles: their names, and the lines that look like their structure."""

    name: ClassVar[str]
    _structure: ClassVar[re.Pattern[str]]

    def escape(self, text: str) -> str:
        """Escape lines that look like the style's structure."""
        return escape_lines(escape_controls(text), self._is_structure)

    def unescape(self, text: str) -> str:
        """Undo `escape`."""
        return unescape_controls(unescape_lines(text, self._is_structure))

    def _is_structure(self, line: str) -> bool:
        return self._structure.match(skeleton(line)) is not None


class Sections(_Format, frozen=True, kw_only=True):
    """`[System]`, `[Context]` with a quoted passage per line, `[User]`.

    Attributes:
        system: the system sentence.
    """

    name = "sections"
    _structure = _SECTIONS
    system: str = SECTIONS_SYSTEM

    @property
    def frame(self) -> list[str]:
        """The heading of the context."""
        return ["[Context]"]

    def parts(self, passage: ContextPassage) -> list[str]:
        """One list item: the citation and the quoted text."""
        citation = escape_quotes(clean_name(passage.citation))
        return [f'\n- From {citation}: "{self.escape(passage.text)}"']

    def context(self, passages: Sequence[ContextPassage]) -> str:
        """`[Context]` and one list item per passage."""
        return _join(self, passages)

    def text(self, question: str, passages: Sequence[ContextPassage]) -> str:
        """`[System]`, `[Context]` and `[User]`."""
        context = f"{self.context(passages)}\n" if passages else ""
        return f"[System] {self.system}\n{context}[User] {question}"

    def messages(
        self, question: str, passages: Sequence[ContextPassage], history: Sequence[Message] = ()
    ) -> list[dict[str, object]]:
        """The system sentence as system message; `[Context]` and `[User]` in the user message."""
        earlier, parts = split_question(history, question)
        if not passages:
            return [*earlier, user_message(question, parts)]
        content = f"{self.context(passages)}\n[User] {question}"
        return [*add_to_system(earlier, self.system), user_message(content, parts)]

    def escape(self, text: str) -> str:
        """Escape quotes, and lines such as `[User]` and `- From`."""
        return escape_lines(escape_quotes(escape_controls(text)), self._is_structure)

    def unescape(self, text: str) -> str:
        """Undo `escape`."""
        return unescape_controls(unescape_quotes(unescape_lines(text, self._is_structure)))


class Numbered(_Format, frozen=True, kw_only=True):
    """Numbered sources in the user message, and a list of them at its end.

    A source is named by its `url`, or by its citation if it has none.

    Attributes:
        system: the system sentence.
    """

    name = "numbered"
    _structure = _NUMBERED
    system: str = NUMBERED_SYSTEM

    @property
    def frame(self) -> list[str]:
        """The headings of the passages and of the list."""
        return ["Context:\n", "Sources:\n", "\n"]

    def parts(self, passage: ContextPassage) -> list[str]:
        """A block with the number, the URL and the text, and an item of the list."""
        source = f"[{passage.number}] {_url(passage)}"
        return [f"Source {source}\n{self.escape(passage.text)}\n\n", f"- {source}\n"]

    def context(self, passages: Sequence[ContextPassage]) -> str:
        """`Context:`, the blocks, `Sources:`, and the list."""
        if not passages:
            return ""
        blocks, items = zip(*map(self.parts, passages), strict=True)
        heading, list_heading, end = self.frame
        return "".join((heading, *blocks, list_heading, *items, end))

    def text(self, question: str, passages: Sequence[ContextPassage]) -> str:
        """The content of the user message."""
        return f"Question: {question}\n\n{self.context(passages)}" if passages else question

    def messages(
        self, question: str, passages: Sequence[ContextPassage], history: Sequence[Message] = ()
    ) -> list[dict[str, object]]:
        """The system sentence as system message; question, context and sources in the user message."""
        earlier, parts = split_question(history, question)
        if passages:
            earlier = add_to_system(earlier, self.system)
        return [*earlier, user_message(self.text(question, passages), parts)]


class Headings(_Format, frozen=True, kw_only=True):
    """Markdown appended to the system message: `## Relevant Context`, and `### Source: NAME` for each passage.

    Attributes:
        heading: the heading of the context.
        names: names of sources by collection. Without one, a passage is named by its citation.
    """

    name = "headings"
    _structure = _HEADINGS
    heading: str = "## Relevant Context"
    names: Mapping[str, str] = {}

    @property
    def frame(self) -> list[str]:
        """The heading of the context."""
        return [self.heading]

    def parts(self, passage: ContextPassage) -> list[str]:
        """The heading of a passage and its text."""
        name = clean_name(self.names.get(passage.collection or "", passage.citation))
        return [f"\n\n### Source: {name}\n\n{self.escape(passage.text)}"]

    def context(self, passages: Sequence[ContextPassage]) -> str:
        """The heading, and each passage under a heading of its own."""
        return _join(self, passages)

    def text(self, question: str, passages: Sequence[ContextPassage]) -> str:
        """The context and the question, separated by a blank line."""
        return f"{self.context(passages)}\n\n{question}" if passages else question

    def messages(
        self, question: str, passages: Sequence[ContextPassage], history: Sequence[Message] = ()
    ) -> list[dict[str, object]]:
        """The context at the end of the system message; the question as user message."""
        earlier, parts = split_question(history, question)
        if passages:
            earlier = add_to_system(earlier, self.context(passages))
        return [*earlier, user_message(question, parts)]

    def _is_structure(self, line: str) -> bool:
        return _MARKDOWN.match(line) is not None or super()._is_structure(line)


class Archives(_Format, frozen=True, kw_only=True):
    """The format of the search tool for archives, in German or English, as a system message after the question.

    Attributes:
        language: `de` or `en`.
        names: names of archives by collection. Without one, the collection's name is used, else the citation.
    """

    name = "archives"
    _structure = _ARCHIVES
    language: str = "de"
    names: Mapping[str, str] = {}

    @property
    def frame(self) -> list[str]:
        """The heading of the context."""
        return [f"{texts(self.language).context_heading}\n\n"]

    def parts(self, passage: ContextPassage) -> list[str]:
        """A separator, the number, archive, layer, page and section of a passage, and its text."""
        return [SEPARATOR, f"{self._heading(passage)}\n{self.escape(passage.text)}"]

    def context(self, passages: Sequence[ContextPassage]) -> str:
        """The heading, and the passages separated by rules."""
        if not passages:
            return ""
        return self.frame[0] + SEPARATOR.join(self.parts(passage)[1] for passage in passages)

    def text(self, question: str, passages: Sequence[ContextPassage]) -> str:
        """The context and the question, separated by a blank line."""
        return f"{self.context(passages)}\n\n{question}" if passages else question

    def messages(
        self, question: str, passages: Sequence[ContextPassage], history: Sequence[Message] = ()
    ) -> list[dict[str, object]]:
        """The question as user message, and the context as a system message after it."""
        earlier, parts = split_question(history, question)
        messages = [*earlier, user_message(question, parts)]
        if passages:
            messages.append({"role": "system", "content": self.context(passages)})
        return messages

    def _heading(self, passage: ContextPassage) -> str:
        labels = texts(self.language)
        name = passage.collection and self.names.get(passage.collection, passage.collection)
        fields = ((labels.layer, "layer"), (labels.page, "page_number"), (labels.section, "section_heading"))
        facts = [f"{label}: {passage.metadata[key]}" for label, key in fields if passage.metadata.get(key)]
        source = f" ({', '.join(facts)})" if facts else ""
        return f"[{passage.number}] " + clean_name(f"{labels.archive}: {name or passage.citation}{source}")


STYLES: Final[Mapping[str, Style]] = {style.name: style for style in (Sections(), Numbered(), Headings(), Archives())}
"""The styles by name, with their default texts."""


def _join(style: Style, passages: Sequence[ContextPassage]) -> str:
    """The frame and the parts, one after the other."""
    if not passages:
        return ""
    return "".join((*style.frame, *(part for passage in passages for part in style.parts(passage))))


def _url(passage: ContextPassage) -> str:
    url = passage.metadata.get("url")
    return clean_name(url if isinstance(url, str) and url else passage.citation)
