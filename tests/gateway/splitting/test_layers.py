"""`layers` from end to end: a handbook in a knowledge base, found by the retriever of the agent runtime."""

from __future__ import annotations

import httpx
import pytest

from ragstore_client import Client, RagArchiveConfig, RagConfig, RagSettings, RetrievedPassage, Retriever
from tests.gateway.splitting.handbook import handbook
from tests.support.ingestion import Base
from tests.support.pages import ROOT
from tests.support.servers import Served

pytestmark = pytest.mark.process

QUESTIONS = [line.split("\t") for line in (ROOT / "examples/handbook/questions.tsv").read_text().splitlines()]


@pytest.fixture(scope="module")
async def retriever(gateway: Served) -> Retriever:
    """The retriever over the collection of a knowledge base with the handbook, embedded by the built-in model."""
    with Client(gateway.url) as store:
        before = {collection.name for collection in store.list_collections().collections}
        async with httpx.AsyncClient(base_url=gateway.url) as client:
            base = await Base.create(
                client, name="layers", chunkStrategy="layers", chunkSize=128, chunkOverlap=16, chunkUnit="tokens"
            )
            await base.completed("handbook.md", handbook().text, "text/markdown")
        (name,) = {collection.name for collection in store.list_collections().collections} - before
    archive = RagArchiveConfig(name="Handbook", collection_name=name, chromadb_url=gateway.url)
    settings = RagSettings(embeddings_url=f"{gateway.url}/embed")
    return Retriever(RagConfig(archives=[archive]), settings=settings)


async def nearest(retriever: Retriever, question: str, layer: str) -> list[RetrievedPassage]:
    """The nearest passages of a layer."""
    passages = list(await retriever.asearch(question, 3, layer=layer))
    assert {passage.metadata["layer"] for passage in passages} == {layer}
    return passages


async def test_questions_find_the_section_and_the_chunk_with_the_information(retriever: Retriever) -> None:
    found = 0
    for question, heading in QUESTIONS:
        for layer in ("section", "chunk"):
            found += any(
                passage.metadata["section_heading"] == heading for passage in await nearest(retriever, question, layer)
            )
    assert found >= 20  # of 24; the built-in model has no attention


async def test_a_chunk_leads_to_its_whole_section_and_to_its_document(retriever: Retriever) -> None:
    text = handbook().text
    (chunk, *_) = await nearest(retriever, "How often is an elevator tested?", "chunk")
    assert chunk.metadata["section_heading"] == "Elevators"
    section = next(
        passage
        for passage in await nearest(retriever, "How often is an elevator tested?", "section")
        if passage.metadata["section_heading"] == "Elevators"
    )
    assert section.span is not None
    assert section.text == text[section.span[1] : section.span[2]]

    gathered = await retriever.agather_section(chunk)

    assert gathered.text.split() == section.text.split()
    whole = await retriever.agather_document(chunk)
    assert whole.text.split() == text.split()


async def test_the_document_is_found_with_its_whole_text(retriever: Retriever) -> None:
    (first, *_) = await nearest(retriever, "a handbook for caretakers", "document")
    assert "page_number" not in first.metadata
    assert "section_heading" not in first.metadata
    assert (await retriever.agather_document(first)).text.split() == handbook().text.split()
