"""Section expansion: from a passage to its whole section or document, in reading order."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest

from ragstore_client import (
    Document,
    EmbeddingCache,
    InvalidInput,
    NewDocument,
    NotFound,
    RagArchiveConfig,
    RagConfig,
    RagSettings,
    RetrievedPassage,
    Retriever,
)
from ragstore_client._models import StoredMetadata
from ragstore_client.rag._expansion import assemble
from tests.client.archive_stores import ArchiveStore
from tests.client.corpus import CANARY_VALUE, chunk
from tests.client.fake_servers import vector_of

SOURCE = (
    "Die Heizung wird im Herbst gewartet. Der Wartungsdienst kommt im Oktober. Er prüft den Druck. Danach entlüftet er."
)
PassageFinder = Callable[..., tuple[Retriever, RetrievedPassage]]


@pytest.fixture
def find_passage(
    archive_store: ArchiveStore, settings: RagSettings, cache: EmbeddingCache, archive_name: str
) -> Iterator[PassageFinder]:
    """Stores documents and finds the best passage for a question among them."""

    def found(documents: list[NewDocument], question: str, layer: str = "chunk") -> tuple[Retriever, RetrievedPassage]:
        archive_store.create(archive_name, documents)
        archive = RagArchiveConfig(name="a", collection_name=archive_name, chromadb_url=archive_store.url)
        retriever = Retriever(RagConfig(archives=[archive]), settings=settings, cache=cache)
        return retriever, retriever.search(question, layer=layer).passages[0]

    yield found
    archive_store.delete(archive_name)


def windows() -> list[NewDocument]:
    """SOURCE in overlapping windows, as the platform cuts, stored out of order, among other things."""
    cut = [
        chunk(number, SOURCE[start : start + 50], heading="Heizung", start=start)
        for number, start in enumerate(range(0, len(SOURCE), 30))
    ]
    other = [
        chunk(50, "Ein anderer Abschnitt.", heading="Aufzug", start=5000),
        chunk(0, "Die Heizung eines anderen Hauses.", heading="Heizung", document="doc-2"),
        chunk(0, SOURCE, heading="Heizung", layer="section"),
    ]
    return [*reversed(cut), *other]


def test_a_section_is_whole_and_in_reading_order(find_passage: PassageFinder) -> None:
    retriever, passage = find_passage(windows(), "Druck entlüftet prüft")
    section = retriever.gather_section(passage)
    assert section.text == SOURCE
    assert [stored.metadata["chunk_index"] for stored in section.documents] == list(range(len(section.documents)))


def test_a_document_has_all_its_sections(find_passage: PassageFinder) -> None:
    retriever, passage = find_passage(windows(), "Druck entlüftet prüft")
    document = retriever.gather_document(passage)
    assert document.text == f"{SOURCE}\n\nEin anderer Abschnitt."
    assert {stored.metadata["layer"] for stored in document.documents} == {"chunk"}


async def test_expansion_can_be_awaited(find_passage: PassageFinder) -> None:
    retriever, passage = find_passage(windows(), "Druck entlüftet prüft")
    assert (await retriever.agather_section(passage)).text == SOURCE
    assert (await retriever.agather_document(passage)).text.startswith(SOURCE)


def test_sibling_gathering_use_case(find_passage: PassageFinder) -> None:
    def section_chunk(number: int, kind: str, text: str, section: str = "retention-config") -> NewDocument:
        metadata = {"section_id": section, "doc_type": kind, "layer": "chunk", "organization_id": CANARY_VALUE}
        return NewDocument(id=str(number), text=text, embedding=vector_of(text), metadata=metadata)

    chunks = [
        section_chunk(1, "code", "retention: 30d"),
        section_chunk(2, "paragraph", "Die Aufbewahrung wird in Tagen angegeben."),
        section_chunk(3, "heading", "Aufbewahrung"),
        section_chunk(4, "paragraph", "Etwas anderes.", "other"),
    ]
    retriever, passage = find_passage(chunks, "Die Aufbewahrung wird in Tagen angegeben")
    section = retriever.gather_section(passage)
    assert section.text == "Aufbewahrung\n\nDie Aufbewahrung wird in Tagen angegeben.\n\nretention: 30d"


def test_of_two_sections_with_one_heading_the_passages_own_is_returned(find_passage: PassageFinder) -> None:
    chunks = [
        chunk(0, "Allgemeines zum Haus.", heading="Allgemeines"),
        chunk(1, "Mehr dazu.", heading="Allgemeines"),
        chunk(2, "Die Miete.", heading="Miete"),
        chunk(3, "Allgemeines zum Garten.", heading="Allgemeines"),
    ]
    retriever, passage = find_passage(chunks, "Allgemeines zum Garten")
    assert retriever.gather_section(passage).text == "Allgemeines zum Garten."


def test_a_passage_without_a_section_is_expanded_to_its_document(find_passage: PassageFinder) -> None:
    retriever, passage = find_passage([chunk(1, "Zwei."), chunk(0, "Eins.")], "Zwei")
    assert retriever.gather_section(passage).text == "Eins.\n\nZwei."


def test_a_passage_without_section_or_document_cannot_be_expanded(settings: RagSettings) -> None:
    archive = RagArchiveConfig(name="a", collection_name="repo_x", chromadb_url="http://localhost:1")
    retriever = Retriever(RagConfig(archives=[archive]), settings=settings)
    with pytest.raises(InvalidInput):
        retriever.gather_section(RetrievedPassage(archive=archive, id="1", text="x", metadata={"layer": "chunk"}))


def test_a_deleted_collection_is_an_error(archive_store: ArchiveStore, settings: RagSettings) -> None:
    archive = RagArchiveConfig(name="a", collection_name="repo_gone", chromadb_url=archive_store.url)
    retriever = Retriever(RagConfig(archives=[archive]), settings=settings)
    with pytest.raises(NotFound):
        retriever.gather_section(RetrievedPassage(archive=archive, id="1", text="x", metadata={"document_id": "d"}))


def stored_chunk(id_: str, text: str, **metadata: str | int) -> Document:
    stored: StoredMetadata = dict(metadata)
    return Document(id_, text, stored)


def test_texts_that_do_not_overlap_as_their_offsets_say_are_kept_whole() -> None:
    chunks = [stored_chunk("a", "abcdef", char_start=0, char_end=6), stored_chunk("b", "xyz", char_start=4, char_end=7)]
    assert assemble(chunks).text == "abcdef\n\nxyz"


def test_a_chunk_within_another_adds_nothing() -> None:
    chunks = [stored_chunk("a", "abcdef", char_start=0, char_end=6), stored_chunk("b", "cd", char_start=2, char_end=4)]
    assert assemble(chunks).text == "abcdef"


def test_pages_and_indices_order_what_has_no_offsets() -> None:
    chunks = [
        stored_chunk("c", "c", page_number=2, chunk_index=0),
        stored_chunk("b", "b", page_number=1, chunk_index=1),
        stored_chunk("a", "a", page_number=1, chunk_index=0),
    ]
    assert assemble(chunks).text == "a\n\nb\n\nc"
