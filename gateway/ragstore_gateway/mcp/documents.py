"""`VisibleDocuments`: the documents that exist for a caller, and their texts."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

import msgspec

from ragstore.filters import where as language
from ragstore.kit.errors import InvalidRequest
from ragstore_gateway.configurations.configuration import Configuration
from ragstore_gateway.configurations.configurations import Configurations
from ragstore_gateway.configurations.hidden_bases import is_visible
from ragstore_gateway.configurations.knowledge_base import KnowledgeBase
from ragstore_gateway.configurations.where_template import joined
from ragstore_gateway.engines.engine_collection import DOCUMENT_KEY, DOCUMENT_NAME_KEY, MetadataValue
from ragstore_gateway.errors import ConfigurationNotFound, DocumentNotFound
from ragstore_gateway.extraction.extracted import Extracted
from ragstore_gateway.ingestion.documents import Document, Documents
from ragstore_gateway.mcp.caller import McpCaller

PAGE: Final = 100
"""Maximum number of documents on a page."""

MAX_CHARACTERS: Final = 50_000
"""Maximum number of characters of the text in one result: about 12,000 tokens, half of what desktop programs accept."""

MAX_RESOURCE_CHARACTERS: Final = 1_000_000
"""Maximum number of characters of a document that is read as a resource."""


@dataclass(frozen=True, slots=True)
class TextPart:
    """A part of the text of a document.

    Attributes:
        start: index of its first character in the whole text.
        length: number of characters of the whole text.
    """

    text: str
    start: int
    length: int

    @property
    def end(self) -> int:
        """Index after its last character in the whole text."""
        return self.start + len(self.text)


class VisibleDocuments:
    """Finds knowledge bases and documents. A base or a document that is hidden from a caller is treated as absent.

    Documents that the filter of a knowledge base excludes, such as documents of other sessions, are hidden, too.

    Args:
        bases: the knowledge bases.
        documents: the documents of all of them.
    """

    def __init__(self, bases: Configurations[KnowledgeBase], documents: Documents) -> None:
        self._bases = bases
        self._documents = documents

    async def base(self, name: str, caller: McpCaller) -> Configuration[KnowledgeBase]:
        """A knowledge base by its name.

        Raises:
            ConfigurationNotFound: there is none for the caller.
            DatabaseUnavailable: the database cannot be used.
        """
        return (await self.bases([name], caller))[0]

    async def bases(self, names: Sequence[str], caller: McpCaller) -> list[Configuration[KnowledgeBase]]:
        """Knowledge bases by their names, each once.

        Raises:
            ConfigurationNotFound: one of them does not exist for the caller.
            DatabaseUnavailable: the database cannot be used.
        """
        wanted = list(dict.fromkeys(names))
        found = await self._bases.find_all_by_name(wanted)
        for name in wanted:
            if name not in found or not is_visible(found[name].id, name, caller.visible):
                raise ConfigurationNotFound(f"There is no knowledge base with the name {name!r}")
        return [found[name] for name in wanted]

    async def base_by_id(self, id: str, caller: McpCaller) -> Configuration[KnowledgeBase] | None:
        """A knowledge base by its id; None if there is none for the caller.

        Raises:
            DatabaseUnavailable: the database cannot be used.
        """
        try:
            base = await self._bases.read(id)
        except ConfigurationNotFound:
            return None
        return base if is_visible(id, base.body.name, caller.visible) else None

    async def page(
        self, base: Configuration[KnowledgeBase], index: int, caller: McpCaller
    ) -> tuple[list[Document], int]:
        """A page of the documents of a knowledge base, without hidden ones.

        Args:
            index: index of the page, from 0.

        Returns:
            The documents, and the number of all documents of the base.

        Raises:
            DatabaseUnavailable: the database cannot be used.
        """
        page = await self._documents.documents(base.id, index, PAGE)
        return [each for each in page.documents if permits(base, _metadata(each), caller)], page.total

    async def find(self, base: Configuration[KnowledgeBase], name: str, caller: McpCaller) -> Document:
        """A document by its name.

        Raises:
            DatabaseUnavailable: the database cannot be used.
            DocumentNotFound: there is none for the caller.
        """
        try:
            found = await self._documents.find(base.id, name)
        except DocumentNotFound:
            found = None
        if found is None or not permits(base, _metadata(found), caller):
            raise DocumentNotFound(
                f"The knowledge base {base.body.name!r} has no document with the name {name[:100]!r}"
            )
        return found

    async def whole_text(self, base: Configuration[KnowledgeBase], document: Document) -> str:
        """The text of a document.

        Raises:
            DatabaseUnavailable: the database cannot be used.
            DocumentNotFound: the document has gone, or no revision of it is complete.
            InvalidRequest: the text is too long for one result.
            Overloaded: there was no room for it in the budget of bytes in flight.
        """
        found = await self._read(base, document)
        if len(found) > MAX_RESOURCE_CHARACTERS:
            raise InvalidRequest(
                f"The document has {len(found):,} characters, more than the {MAX_RESOURCE_CHARACTERS:,} of one result: "
                "search its knowledge base, and fetch passages"
            )
        return found

    async def text_around(
        self, base: Configuration[KnowledgeBase], document: Document, span: tuple[int, int], margin: int | None
    ) -> TextPart:
        """The text of a document around a passage, with at most `MAX_CHARACTERS`.

        Args:
            span: where the passage begins and ends in the text.
            margin: number of characters before and after the passage; None for the whole text.

        Raises:
            DatabaseUnavailable: the database cannot be used.
            DocumentNotFound: the document has gone, or no revision of it is complete.
            Overloaded: there was no room for it in the budget of bytes in flight.
        """
        return part_around(await self._read(base, document), span, margin)

    async def _read(self, base: Configuration[KnowledgeBase], document: Document) -> str:
        kept = await self._documents.kept_text(base.id, document.name)
        # In a thread: a text may have millions of characters.
        return (await asyncio.to_thread(msgspec.msgpack.decode, kept, type=Extracted)).text


def permits(base: Configuration[KnowledgeBase], metadata: Mapping[str, MetadataValue], caller: McpCaller) -> bool:
    """Whether the filter of a knowledge base permits a caller to read something with this metadata."""
    own = joined([base.body.where], caller.variables)
    return own is not None and language.matches(language.parse(own), metadata)


def part_around(text: str, span: tuple[int, int], margin: int | None) -> TextPart:
    """A part of a text, with at most `MAX_CHARACTERS`. If they are not enough, the middle of a passage is its middle.

    Args:
        span: where the passage begins and ends in the text.
        margin: number of characters before and after the passage; None for the whole text.
    """
    first, last = 0, len(text)
    if margin is not None:
        first, last = max(0, span[0] - margin), min(last, span[1] + margin)
    if last - first > MAX_CHARACTERS:
        middle = (span[0] + span[1]) // 2
        first = min(max(first, middle - MAX_CHARACTERS // 2), last - MAX_CHARACTERS)
        last = first + MAX_CHARACTERS
    return TextPart(text[first:last], first, len(text))


def _metadata(document: Document) -> dict[str, MetadataValue]:
    return {**document.metadata, DOCUMENT_KEY: document.id, DOCUMENT_NAME_KEY: document.name}
