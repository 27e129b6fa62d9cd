"""The model of knowledge bases: for each document, the contents that a search may find at a moment."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Literal, TypeAlias

State: TypeAlias = Literal["open", "completed", "ended"]
"""State of an ingestion as it was read: `ended` is failed or cancelled."""


@dataclass(frozen=True, slots=True)
class Configuration:
    """The part of a base's configuration that its vectors depend on.

    Attributes:
        lines: number of lines of a chunk.
        dimensions: of the model.
    """

    lines: int
    dimensions: int


@dataclass(frozen=True, slots=True)
class Content:
    """A content of a document. Each line has 99 characters, and none is in another content."""

    lines: tuple[str, ...]

    @property
    def text(self) -> str:
        """The text that is sent."""
        return "\n".join(self.lines)

    def chunks(self, configuration: Configuration) -> list[str]:
        """The texts of its chunks."""
        step = configuration.lines
        return ["\n".join(self.lines[start : start + step]) for start in range(0, len(self.lines), step)]


@dataclass
class Ingestion:
    """An ingestion of a document.

    Attributes:
        id: its id; empty until it is accepted.
        state: its state as far as it was read.
    """

    content: Content
    id: str = ""
    state: State = "open"


@dataclass
class Document:
    """A document.

    Attributes:
        ingestions: those since the last deletion, in the order in which they were accepted.
        is_deleting: whether a deletion is in flight.
        changes: number of changes, to notice one during a read.
        history: all that happened to it, for a report.
    """

    ingestions: list[Ingestion] = field(default_factory=list)
    is_deleting: bool = False
    changes: int = 0
    history: list[str] = field(default_factory=list)

    @property
    def visible(self) -> set[Content | None]:
        """The contents that a search may find now; None for no content.

        A content is visible until a later one is. A failed or cancelled ingestion changes nothing.
        """
        found: set[Content | None] = {None}
        for ingestion in self.ingestions:
            if ingestion.state == "completed":
                found = {ingestion.content}
            elif ingestion.state == "open":
                found.add(ingestion.content)
        return found | {None} if self.is_deleting else found

    @property
    def open(self) -> list[Ingestion]:
        """Accepted ingestions whose end was not read yet."""
        return [each for each in self.ingestions if each.state == "open" and each.id]


@dataclass(eq=False)
class Allowed:
    """The results that are right for a search: all that were possible at a moment between its begin and its end.

    Attributes:
        contents: the contents of each document, and None if it may be absent.
        configurations: the configurations of the collection that is searched.
    """

    contents: dict[str, set[Content | None]]
    configurations: set[Configuration]


class Base:
    """A knowledge base.

    Args:
        index: its index in the round.
        owner: name of the key that it belongs to.
    """

    def __init__(self, index: int, id: str, name: str, owner: str, configuration: Configuration) -> None:
        self.index = index
        self.id = id
        self.name = name
        self.owner = owner
        self.configuration = configuration
        self.configurations = {configuration}
        self.documents: dict[str, Document] = {}
        self._searches: list[Allowed] = []

    def document(self, name: str) -> Document:
        """A document, which may not exist yet."""
        return self.documents.setdefault(name, Document())

    def changed(self, name: str, event: str) -> None:
        """Note a change of a document, for all searches in flight.

        Args:
            name: the document.
            event: what happened.
        """
        document = self.document(name)
        document.changes += 1
        document.history.append(event)
        for search in self._searches:
            search.contents.setdefault(name, {None}).update(document.visible)

    def configured(self, configuration: Configuration) -> None:
        """Note that a change of the configuration has begun."""
        self.configurations.add(configuration)
        for search in self._searches:
            search.configurations.add(configuration)

    @contextmanager
    def searching(self) -> Iterator[Allowed]:
        """The results that are right for a search that runs within."""
        allowed = Allowed({name: each.visible for name, each in self.documents.items()}, set(self.configurations))
        self._searches.append(allowed)
        try:
            yield allowed
        finally:
            self._searches.remove(allowed)


@dataclass(frozen=True, slots=True)
class Found:
    """A chunk that a search has found.

    Attributes:
        name: name of its document.
        revision: the revision of the document.
        index: its index in the document.
    """

    name: str
    revision: str
    index: int
    text: str


def differences(allowed: Allowed, found: Sequence[Found], *, is_complete: bool) -> list[str]:
    """The documents that a search found wrongly, or did not find.

    A search reads one collection, so one configuration explains all documents that it found.

    Args:
        allowed: the results that are right for it.
        found: the chunks that it found.
        is_complete: whether it returns all chunks of the base, so that each document must be there as a whole.
    """
    each = [_differences(allowed, configuration, found, is_complete) for configuration in allowed.configurations]
    return min(each, key=len)


def _differences(
    allowed: Allowed, configuration: Configuration, found: Sequence[Found], is_complete: bool
) -> list[str]:
    wrong = []
    by_name: dict[str, list[Found]] = {}
    for chunk in found:
        by_name.setdefault(chunk.name, []).append(chunk)
    for name in sorted(by_name.keys() | allowed.contents.keys()):
        own = sorted(by_name.get(name, []), key=lambda chunk: chunk.index)
        contents = allowed.contents.get(name, {None})
        if not own:
            if is_complete and None not in contents:
                wrong.append(f"{name}: not found, with {configuration}")
        elif len({chunk.revision for chunk in own}) > 1:
            wrong.append(f"{name}: chunks of several revisions")
        elif not any(content and _fits(own, content.chunks(configuration), is_complete) for content in contents):
            wrong.append(f"{name}: {len(own)} chunks that are no allowed content, from {own[0].text[:40]!r}")
    return wrong


def _fits(own: Sequence[Found], chunks: Sequence[str], is_complete: bool) -> bool:
    if len({chunk.index for chunk in own}) < len(own) or (is_complete and len(own) != len(chunks)):
        return False
    return all(chunk.index < len(chunks) and chunk.text.strip() == chunks[chunk.index] for chunk in own)
