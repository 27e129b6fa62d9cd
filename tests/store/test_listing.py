"""A page with its total makes as few calls to a store as are needed for both."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path
from uuid import uuid4

import pytest

from ragstore.model.documents import EVERYTHING, Documents, Selection
from ragstore.operations.list_documents import Page, list_page
from ragstore.store.layer import StoreLayer
from tests.support.factories import add_documents, batch_of, of_where
from tests.support.stores import embedded_backend, exact

pytestmark = pytest.mark.process


COUNT = 10


class Recording(StoreLayer):
    """Records the calls to the store that it wraps."""

    calls: list[str]

    async def get(
        self,
        name: str,
        selection: Selection,
        *,
        limit: int | None = None,
        offset: int = 0,
        with_embeddings: bool = False,
    ) -> Documents:
        self.calls.append("page by ids" if selection.ids else "page")
        return await super().get(name, selection, limit=limit, offset=offset, with_embeddings=with_embeddings)

    async def get_ids(self, name: str, selection: Selection, *, limit: int | None = None, offset: int = 0) -> list[str]:
        self.calls.append("ids")
        return await super().get_ids(name, selection, limit=limit, offset=offset)

    async def count(self, name: str, selection: Selection = EVERYTHING) -> int:
        self.calls.append("count" if selection.is_everything else "count of matches")
        return await super().count(name, selection)


@pytest.fixture(scope="module")
async def recording(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Recording]:
    folder: Path = tmp_path_factory.mktemp("listing")
    store = Recording(exact(embedded_backend(folder)))
    await store.start()
    yield store
    await store.close()


@pytest.fixture
async def ten_documents(recording: Recording) -> str:
    """A collection of ten documents, half of them even."""
    made = f"t-{uuid4().hex}"
    await recording.create_collection(made, {}, "l2")
    await add_documents(recording, made, batch_of([{"n": index, "even": index % 2 == 0} for index in range(COUNT)]))
    recording.calls = []
    return made


EVEN = of_where({"even": True})


def page(limit: int, offset: int = 0, *, total: bool = True) -> Page:
    return Page(limit, offset, with_embeddings=False, with_total=total)


async def test_a_first_page_that_is_not_full_shows_the_total_itself(recording: Recording, ten_documents: str) -> None:
    listed = await list_page(recording, ten_documents, EVERYTHING, page(100))
    assert (listed.count, listed.total) == (COUNT, COUNT)
    assert recording.calls == ["page"]


async def test_so_does_one_of_a_filter(recording: Recording, ten_documents: str) -> None:
    listed = await list_page(recording, ten_documents, EVEN, page(100))
    assert (listed.count, listed.total) == (5, 5)
    assert recording.calls == ["page"]


async def test_without_a_filter_the_total_is_counted(recording: Recording, ten_documents: str) -> None:
    listed = await list_page(recording, ten_documents, EVERYTHING, page(3, 3))
    assert ([document.id for document in listed.documents], listed.total) == (["3", "4", "5"], COUNT)
    assert sorted(recording.calls) == ["count", "page"]


async def test_a_full_first_page_of_a_filter_counts_the_matches(recording: Recording, ten_documents: str) -> None:
    listed = await list_page(recording, ten_documents, EVEN, page(2))
    assert ([document.id for document in listed.documents], listed.total) == (["0", "2"], 5)
    assert recording.calls == ["page", "count of matches"]


async def test_a_later_page_of_a_filter_is_cut_from_the_ids_alone(recording: Recording, ten_documents: str) -> None:
    listed = await list_page(recording, ten_documents, EVEN, page(2, 2))
    assert ([document.id for document in listed.documents], listed.total) == (["4", "6"], 5)
    assert recording.calls == ["ids", "page by ids"]


async def test_a_page_beyond_the_end_needs_only_ids(recording: Recording, ten_documents: str) -> None:
    listed = await list_page(recording, ten_documents, EVEN, page(2, 20))
    assert (listed.documents, listed.total) == ([], 5)
    # The ids from its offset on, of which there are none, and then the ids of all matches.
    assert recording.calls == ["ids", "ids"]


async def test_no_total_is_asked_for_when_none_is_wanted(recording: Recording, ten_documents: str) -> None:
    listed = await list_page(recording, ten_documents, EVEN, page(2, 2, total=False))
    assert (listed.count, listed.total) == (2, None)
    assert recording.calls == ["page"]
