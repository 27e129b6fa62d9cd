"""From a hit to its whole section or document in reading order."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest

from client.conftest import Shelf
from client.corpus import CANARY_VALUE, chunk
from client.fake_servers import vector_of
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
from ragstore_client.rag._expansion import passage

SOURCE = (
    "Die Heizung wird im Herbst gewartet. Der Wartungsdienst kommt im Oktober. Er prüft den Druck. Danach entlüftet er."
)
Find = Callable[..., tuple[Retriever, RetrievedPassage]]


@pytest.fixture
def find(shelf: Shelf, settings: RagSettings, cache: EmbeddingCache, name: str) -> Iterator[Find]:
    """Stores documents and finds the best hit on a question among them."""

    def found(documents: list[NewDocument], question: str, layer: str = "chunk") -> tuple[Retriever, RetrievedPassage]:
        shelf.put(name, documents)
        archive = RagArchiveConfig(name="a", collection_name=name, chromadb_url=shelf.url)
        retriever = Retriever(RagConfig(archives=[archive]), settings=settings, cache=cache)
        return retriever, retriever.search(question, layer=layer).hits[0]

    yield found
    shelf.drop(name)


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


def test_a_section_is_whole_and_in_reading_order(find: Find) -> None:
    retriever, hit = find(windows(), "Druck entlüftet prüft")
    section = retriever.gather_section(hit)
    assert section.text == SOURCE
    assert [piece.metadata["chunk_index"] for piece in section.documents] == list(range(len(section.documents)))


def test_a_document_is_all_its_sections(find: Find) -> None:
    retriever, hit = find(windows(), "Druck entlüftet prüft")
    document = retriever.gather_document(hit)
    assert document.text == f"{SOURCE}\n\nEin anderer Abschnitt."
    assert {piece.metadata["layer"] for piece in document.documents} == {"chunk"}


async def test_it_can_be_awaited(find: Find) -> None:
    retriever, hit = find(windows(), "Druck entlüftet prüft")
    assert (await retriever.agather_section(hit)).text == SOURCE
    assert (await retriever.agather_document(hit)).text.startswith(SOURCE)


def test_sibling_gathering_use_case(find: Find) -> None:
    def piece(number: int, kind: str, text: str, section: str = "retention-config") -> NewDocument:
        metadata = {"section_id": section, "doc_type": kind, "layer": "chunk", "organization_id": CANARY_VALUE}
        return NewDocument(id=str(number), text=text, embedding=vector_of(text), metadata=metadata)

    pieces = [
        piece(1, "code", "retention: 30d"),
        piece(2, "paragraph", "Die Aufbewahrung wird in Tagen angegeben."),
        piece(3, "heading", "Aufbewahrung"),
        piece(4, "paragraph", "Etwas anderes.", "other"),
    ]
    retriever, hit = find(pieces, "Die Aufbewahrung wird in Tagen angegeben")
    section = retriever.gather_section(hit)
    assert section.text == "Aufbewahrung\n\nDie Aufbewahrung wird in Tagen angegeben.\n\nretention: 30d"


def test_of_two_sections_with_one_heading_the_hits_own_is_taken(find: Find) -> None:
    pieces = [
        chunk(0, "Allgemeines zum Haus.", heading="Allgemeines"),
        chunk(1, "Mehr dazu.", heading="Allgemeines"),
        chunk(2, "Die Miete.", heading="Miete"),
        chunk(3, "Allgemeines zum Garten.", heading="Allgemeines"),
    ]
    retriever, hit = find(pieces, "Allgemeines zum Garten")
    assert retriever.gather_section(hit).text == "Allgemeines zum Garten."


def test_a_hit_without_a_section_gives_its_document(find: Find) -> None:
    retriever, hit = find([chunk(1, "Zwei."), chunk(0, "Eins.")], "Zwei")
    assert retriever.gather_section(hit).text == "Eins.\n\nZwei."


def test_a_hit_from_nowhere_has_no_siblings(settings: RagSettings) -> None:
    archive = RagArchiveConfig(name="a", collection_name="repo_x", chromadb_url="http://localhost:1")
    retriever = Retriever(RagConfig(archives=[archive]), settings=settings)
    with pytest.raises(InvalidInput):
        retriever.gather_section(RetrievedPassage(archive=archive, id="1", text="x", metadata={"layer": "chunk"}))


def test_a_collection_that_has_gone_is_an_error(shelf: Shelf, settings: RagSettings) -> None:
    archive = RagArchiveConfig(name="a", collection_name="repo_gone", chromadb_url=shelf.url)
    retriever = Retriever(RagConfig(archives=[archive]), settings=settings)
    with pytest.raises(NotFound):
        retriever.gather_section(RetrievedPassage(archive=archive, id="1", text="x", metadata={"document_id": "d"}))


def piece(id_: str, text: str, **metadata: str | int) -> Document:
    stored: StoredMetadata = dict(metadata)
    return Document(id_, text, stored)


def test_texts_that_do_not_overlap_as_their_offsets_say_are_kept_whole() -> None:
    pieces = [piece("a", "abcdef", char_start=0, char_end=6), piece("b", "xyz", char_start=4, char_end=7)]
    assert passage(pieces).text == "abcdef\n\nxyz"


def test_a_piece_within_another_adds_nothing() -> None:
    pieces = [piece("a", "abcdef", char_start=0, char_end=6), piece("b", "cd", char_start=2, char_end=4)]
    assert passage(pieces).text == "abcdef"


def test_pages_and_indices_order_what_has_no_offsets() -> None:
    pieces = [
        piece("c", "c", page_number=2, chunk_index=0),
        piece("b", "b", page_number=1, chunk_index=1),
        piece("a", "a", page_number=1, chunk_index=0),
    ]
    assert passage(pieces).text == "a\n\nb\n\nc"
