"""The chunks of a document, and of a text, as they are stored or as another chunking makes them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

import pytest

from tests.gateway.extraction.documents import FILES
from tests.gateway.ingestion.conftest import new_base
from tests.gateway.ingestion.test_reindexing import changed
from tests.support.ingestion import Base, EmbeddingServer, text_of, until
from tests.support.problems import assert_problem

pytestmark = pytest.mark.process

MARKDOWN: Final = "# Tea\n\n" + "Tea is brewed in the kitchen. " * 8 + "\n\n## Pots\n\n" + "A pot holds two cups. " * 8


async def split(base: Base, **body: object) -> Mapping[str, Any]:
    """Split a text."""
    response = await base.client.post(base.path + "/split", json=body)
    assert response.status_code == 200, response.text
    found: Mapping[str, Any] = response.json()
    return found


async def stored(base: Base) -> list[tuple[int, int, int]]:
    """The spans and the numbers of tokens of the chunks that searches find, in order."""
    found = [each["metadata"] for each in await base.query("tea")]
    return sorted((each["char_start"], each["char_end"], each["token_count"]) for each in found)


async def test_without_another_chunking_the_chunks_are_the_stored_ones(base: Base) -> None:
    status = await base.completed("tea.md", MARKDOWN, "text/markdown")
    found = await split(base, documentName="tea.md")
    spans = [(each["start"], each["end"], each["tokens"]) for each in found["chunks"]]
    assert spans == await stored(base)
    assert found["total"] == status["chunks"] == len(spans)
    assert [each["index"] for each in found["chunks"]] == list(range(len(spans)))
    assert {each.get("heading") for each in found["chunks"]} == {"Tea", "Pots"}


async def test_another_chunking_stores_nothing(base: Base, server: EmbeddingServer) -> None:
    await base.completed("tea.md", MARKDOWN, "text/markdown")
    before, embedded = await stored(base), server.texts.total()
    larger = await split(base, documentName="tea.md", chunkSize=400, chunkOverlap=50, chunkStrategy="sentence")
    assert 0 < larger["total"] < len(before)
    tokens = await split(base, documentName="tea.md", chunkSize=20, chunkUnit="tokens")
    assert all(each["tokens"] <= 20 for each in tokens["chunks"])
    assert server.texts.total() == embedded
    assert await stored(base) == before


async def test_a_given_text_is_split(base: Base) -> None:
    text = "😀 e\u0301 " * 40 + "\r\n" + "tea " * 40
    found = await split(base, text=text)
    assert found["total"] > 1
    pieces = [text[each["start"] : each["end"]] for each in found["chunks"]]
    assert all(1 <= len(piece) <= 100 for piece in pieces)
    assert "".join("".join(pieces).split()) == "".join(text.split())
    assert await base.documents() == []


async def test_a_page_of_the_chunks_has_the_number_of_all(base: Base) -> None:
    text = text_of("page", 7)
    whole = await split(base, text=text)
    assert whole["total"] == 7
    second = await split(base, text=text, index=1, limit=3)
    assert second == {"chunks": whole["chunks"][3:6], "total": 7}
    assert await split(base, text=text, index=9, limit=3) == {"chunks": [], "total": 7}


async def test_a_text_of_whitespace_has_no_chunks(base: Base) -> None:
    assert await split(base, text=" \n ") == {"chunks": [], "total": 0}


async def test_the_chunks_of_a_pdf_file_have_pages(base: Base) -> None:
    await base.completed("manual.pdf", (FILES / "manual.pdf").read_bytes(), "application/pdf")
    assert 1 in {each.get("page") for each in (await split(base, documentName="manual.pdf"))["chunks"]}


async def test_layers_are_named(base: Base) -> None:
    await base.completed("tea.md", MARKDOWN, "text/markdown")
    found = await split(base, documentName="tea.md", chunkStrategy="layers")
    assert {each["layer"] for each in found["chunks"]} == {"document", "section", "chunk"}
    assert {*found["chunks"][0]} <= {"index", "start", "end", "tokens", "page", "heading", "layer"}


async def test_while_a_base_is_reindexed_the_chunks_are_the_new_ones(base: Base, server: EmbeddingServer) -> None:
    await base.completed("a", text_of("reindexed", 4))
    server.held = "reindexed 0"
    try:
        await changed(base, chunkSize=200)
        await until(lambda: server.waiting > 0)
        entry = (await base.documents())[0]
        assert (entry["chunks"], (await split(base, documentName="a"))["total"]) == (4, 2)
    finally:
        server.held = "\0"


@pytest.mark.parametrize(
    ("body", "path"),
    [
        ({}, "$"),
        ({"documentName": "a", "text": "tea"}, "$"),
        ({"text": ""}, "$.text"),
        ({"text": "tea", "chunkSize": 0}, "$.chunkSize"),
        ({"text": "tea", "chunkSize": 50, "chunkOverlap": 50}, "$.chunkOverlap"),
        ({"text": "tea", "chunkStrategy": "pages"}, "$.chunkStrategy"),
        ({"text": "tea", "limit": 10_001}, "$.limit"),
        ({"text": "tea", "chunksize": 5}, "$.chunksize"),
    ],
)
async def test_a_fault_has_its_path(base: Base, body: dict[str, object], path: str) -> None:
    response = await base.client.post(base.path + "/split", json=body)
    assert [each["path"] for each in assert_problem(response, 400, "invalid_request")["errors"]] == [path]


async def test_a_document_without_a_text_is_404(base: Base) -> None:
    response = await base.client.post(base.path + "/split", json={"documentName": "nowhere\0"})
    assert_problem(response, 404, "document_not_found")


async def test_too_many_chunks_are_422(base: Base) -> None:
    # The gateway of these tests allows 500.
    response = await base.client.post(
        base.path + "/split", json={"text": "tea " * 400, "chunkSize": 2, "chunkOverlap": 0}
    )
    assert_problem(response, 422, "too_many_chunks")


async def test_a_lone_surrogate_is_no_error_of_the_gateway(base: Base) -> None:
    content = b'{"text": "tea \\ud800 tea"}'
    response = await base.client.post(base.path + "/split", content=content)
    assert response.status_code in (200, 400)


async def test_a_base_without_documents_splits_texts(base: Base, server: EmbeddingServer) -> None:
    other = await new_base(base.client, server, chunkSize=10)
    assert (await split(other, text="tea and pots")).get("total") == 2
