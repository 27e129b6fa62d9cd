"""The matches of a filter are cached until their collection changes."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from uuid import uuid4

import pytest

from ragstore.chroma.operations import CountRecords, GetRecords
from ragstore.errors import ChromaTimeout, TooManyMatches
from ragstore.model.documents import EVERYTHING, Selection
from ragstore.operations.list_documents import Cursor, Page, list_page
from ragstore.store import listing_cache
from ragstore.store.layer import StoreLayer
from ragstore.store.listing_cache import ListingCacheStore
from ragstore.store.protocol import Store
from tests.support.factories import add_documents, batch, batch_of, of_ids, of_where, upsert_documents
from tests.support.spies import SpyBackend, SpyStore

pytestmark = pytest.mark.process

FEW = of_where({"few": True})


class CountingStore(StoreLayer):
    """Counts the lists of ids that are read, and the counts."""

    def __init__(self, inner: Store) -> None:
        super().__init__(inner)
        self.lists = 0
        self.counts = 0
        self.started = asyncio.Event()
        self.gate = asyncio.Event()
        self.gate.set()

    async def get_ids(self, name: str, selection: Selection, *, limit: int | None = None, offset: int = 0) -> list[str]:
        self.lists += 1
        self.started.set()
        found = await super().get_ids(name, selection, limit=limit, offset=offset)
        await self.gate.wait()
        return found

    async def count(self, name: str, selection: Selection = EVERYTHING) -> int:
        self.counts += 1
        return await super().count(name, selection)


class LengthsStore(StoreLayer):
    """Records how many ids each list has that is read."""

    def __init__(self, inner: Store) -> None:
        super().__init__(inner)
        self.read: list[int] = []

    async def get_ids(self, name: str, selection: Selection, *, limit: int | None = None, offset: int = 0) -> list[str]:
        found = await super().get_ids(name, selection, limit=limit, offset=offset)
        self.read.append(len(found))
        return found


@pytest.fixture
def counting(inner: SpyStore) -> CountingStore:
    """The innermost store."""
    return CountingStore(inner)


@pytest.fixture
async def points(bare: Store) -> AsyncIterator[str]:
    """100 documents, of which every tenth is one of few."""
    name = f"t-{uuid4().hex}"
    await bare.create_collection(name, {}, "l2")
    await add_documents(bare, name, batch_of([{"few": n % 10 == 0} for n in range(100)]))
    yield name
    await bare.delete_collection(name)


async def test_a_list_is_read_once_until_its_collection_changes(counting: CountingStore, points: str) -> None:
    store = ListingCacheStore(counting, is_exclusive=True)
    for _ in range(3):
        assert await store.count(points, FEW) == 10
        assert await store.get_ids(points, FEW) == [str(n) for n in range(0, 100, 10)]
    assert counting.lists == 1
    await store.delete(points, of_ids("0"))
    assert await store.count(points, FEW) == 9
    await upsert_documents(store, points, batch_of([{"few": True}]))
    assert await store.count(points, FEW) == 10
    assert counting.lists == 3


async def test_lists_of_other_filters_and_collections_are_apart(counting: CountingStore, points: str) -> None:
    store = ListingCacheStore(counting, is_exclusive=True)
    assert await store.count(points, FEW) == 10
    assert await store.count(points, of_where({"few": False})) == 90
    assert await store.count(points) == 100
    assert await store.count(points, of_ids("1", "none")) == 1
    other = f"{points}-other"
    await store.create_collection(other, {}, "l2")
    assert await store.count(other, FEW) == 0
    await store.delete_collection(other)
    assert await store.count(points, FEW) == 10


async def test_a_list_that_was_read_beside_a_change_is_not_kept(counting: CountingStore, points: str) -> None:
    store = ListingCacheStore(counting, is_exclusive=True)
    counting.gate.clear()
    reading = asyncio.create_task(store.count(points, FEW))
    await counting.started.wait()
    await store.delete(points, of_ids("0"))
    counting.gate.set()
    await reading
    assert store.cached_count == 0
    assert await store.count(points, FEW) == 9


async def test_nothing_is_cached_after_a_change_that_failed(
    counting: CountingStore, inner: SpyStore, points: str
) -> None:
    """It may still be applied."""
    store = ListingCacheStore(counting, is_exclusive=True)
    inner.failure = lambda call: ChromaTimeout("too slow") if call.kind == "delete" else None
    with pytest.raises(ChromaTimeout):
        await store.delete(points, of_ids("0"))
    inner.failure = lambda call: None
    for _ in range(2):
        assert await store.count(points, FEW) == 10
    assert counting.lists == 2


async def test_with_other_clients_only_later_pages_use_a_cached_list_for_a_time(
    counting: CountingStore, bare: Store, points: str
) -> None:
    now = [0.0]
    store = ListingCacheStore(counting, is_exclusive=False, clock=lambda: now[0])
    assert await store.count(points, FEW) == 10
    assert await store.count(points, FEW) == 10
    assert counting.lists == 2
    await store.get_ids(points, FEW)
    assert counting.lists == 2
    await bare.delete(points, of_ids("1"))  # another client, without this store
    assert len(await store.get_ids(points, FEW)) == 10
    assert counting.lists == 3
    now[0] += listing_cache.MAX_AGE_SECONDS + 1
    await store.get_ids(points, FEW)
    assert counting.lists == 4


async def test_the_memory_is_bounded(counting: CountingStore, points: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(listing_cache, "MAX_IDS", 150)
    store = ListingCacheStore(counting, is_exclusive=True)
    await store.get_ids(points, EVERYTHING)
    assert store.cached_count == 100
    await store.get_ids(points, of_where({"few": False}))
    assert store.cached_count == 90


# -- pages ----------------------------------------------------------------------------------------


def ids_from(start: int, count: int = 5) -> list[str]:
    """Ids of the points from an index on."""
    return [str(n) for n in range(start, min(start + count, 100))]


@pytest.fixture
def small_blocks(monkeypatch: pytest.MonkeyPatch) -> None:
    """Blocks of 20 ids."""
    monkeypatch.setattr(listing_cache, "BLOCK", 20)


@pytest.mark.usefixtures("small_blocks")
async def test_pages_without_a_filter_are_taken_from_cached_blocks(counting: CountingStore, points: str) -> None:
    store = ListingCacheStore(counting, is_exclusive=False)
    for offset in (45, 50, 41, 55):
        assert await store.get_ids(points, EVERYTHING, limit=5, offset=offset) == ids_from(offset)
    assert (counting.lists, counting.counts) == (1, 0)
    assert await store.get_ids(points, EVERYTHING, limit=50, offset=35) == ids_from(35, 50)
    assert counting.lists == 4  # the blocks of 20 and 60, and the one of 80
    assert await store.get_ids(points, EVERYTHING, limit=5, offset=0) == ids_from(0)
    assert counting.lists == 5  # a first page is read


@pytest.mark.usefixtures("small_blocks")
async def test_a_write_leaves_blocks_in_place_and_a_deletion_does_not(counting: CountingStore, points: str) -> None:
    store = ListingCacheStore(counting, is_exclusive=True)
    await store.get_ids(points, EVERYTHING, limit=5, offset=45)
    await upsert_documents(store, points, batch_of([{"few": True}] * 60))
    assert await store.get_ids(points, EVERYTHING, limit=5, offset=50) == ids_from(50)
    assert counting.lists == 1
    await store.delete(points, of_ids("51"))
    assert await store.get_ids(points, EVERYTHING, limit=5, offset=50) == ["50", *ids_from(52, 4)]
    assert counting.lists == 2


@pytest.mark.usefixtures("small_blocks")
@pytest.mark.parametrize("is_exclusive", [True, False])
async def test_the_end_of_a_list_shows_documents_that_are_written_later(
    counting: CountingStore, bare: Store, points: str, is_exclusive: bool
) -> None:
    store = ListingCacheStore(counting, is_exclusive=is_exclusive)
    await store.delete(points, of_ids("99"))
    for _ in range(2):
        assert await store.get_ids(points, EVERYTHING, limit=5, offset=97) == ["97", "98"]
    assert counting.lists == (1 if is_exclusive else 2)
    await upsert_documents(store if is_exclusive else bare, points, batch("later"))
    assert await store.get_ids(points, EVERYTHING, limit=5, offset=97) == ["97", "98", "later"]


async def test_pages_of_a_filter_are_cut_from_its_list(counting: CountingStore, points: str) -> None:
    store = ListingCacheStore(counting, is_exclusive=False)
    for offset in (2, 4, 6):
        expected = [str(10 * n) for n in range(offset, offset + 3)]
        assert await store.get_ids(points, FEW, limit=3, offset=offset) == expected
    assert (counting.lists, counting.counts) == (1, 1)
    assert await store.get_ids(points, FEW, limit=3, offset=8) == ["80", "90"]
    assert (counting.lists, counting.counts) == (1, 2)  # the end counts only while there are as many documents


async def test_of_a_long_list_the_part_from_the_page_on_is_cached(
    counting: CountingStore, points: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(listing_cache, "MAX_IDS", 50)
    monkeypatch.setattr(listing_cache, "MAX_PART", 20)
    store = ListingCacheStore(counting, is_exclusive=False)
    many = of_where({"few": False})
    whole = await counting.get_ids(points, many)
    for offset in (40, 45):
        assert await store.get_ids(points, many, limit=5, offset=offset) == whole[offset : offset + 5]
    assert (counting.lists, store.cached_count) == (2, 11)
    for offset in (55, 65, 70):
        assert await store.get_ids(points, many, limit=5, offset=offset) == whole[offset : offset + 5]
    assert (counting.lists, store.cached_count) == (3, 20)
    assert await store.get_ids(points, many, limit=5, offset=30) == whole[30:35]
    assert await store.get_ids(points, many) == whole
    assert counting.lists == 5


async def test_no_page_reads_all_ids_of_a_long_list(
    inner: SpyStore, points: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(listing_cache, "MAX_IDS", 50)
    monkeypatch.setattr(listing_cache, "MAX_PART", 20)
    lengths = LengthsStore(inner)
    store = ListingCacheStore(lengths, is_exclusive=True)
    many = of_where({"few": False})
    whole = await inner.get_ids(points, many)
    for offset in (80, 60, 10, 85):
        assert await store.get_ids(points, many, limit=5, offset=offset) == whole[offset : offset + 5]
    assert lengths.read == [51, 10, 20, 20, 5]  # the first read shows that the list is long


@pytest.mark.parametrize("is_exclusive", [True, False])
@pytest.mark.parametrize("offset", [1, 30, 49, 50, 51, 90, 1000])
async def test_a_page_by_offset_of_too_many_matches_is_rejected_and_names_the_cursor(
    inner: SpyStore, points: str, monkeypatch: pytest.MonkeyPatch, offset: int, is_exclusive: bool
) -> None:
    monkeypatch.setattr(listing_cache, "MAX_IDS", 50)
    monkeypatch.setattr("ragstore.operations.list_documents.MAX_MATCHES", 50)
    lengths = LengthsStore(inner)
    store = ListingCacheStore(lengths, is_exclusive=is_exclusive)
    page = Page(5, offset, with_embeddings=False, with_total=True)
    for _ in range(2):
        with pytest.raises(TooManyMatches, match="'after'"):
            await list_page(store, points, of_where({"few": False}), page)
    assert max(lengths.read) <= 51


@pytest.mark.parametrize("is_exclusive", [True, False])
async def test_such_a_page_is_listed_after_a_cursor_or_without_a_total(
    bare: Store, points: str, monkeypatch: pytest.MonkeyPatch, is_exclusive: bool
) -> None:
    monkeypatch.setattr(listing_cache, "MAX_IDS", 50)
    monkeypatch.setattr(listing_cache, "MAX_PART", 20)
    monkeypatch.setattr("ragstore.operations.list_documents.MAX_MATCHES", 50)
    store = ListingCacheStore(bare, is_exclusive=is_exclusive)
    many = of_where({"few": False})
    whole = await bare.get_ids(points, many)
    listed: list[str] = []
    after: Cursor | None = None
    while True:
        page = await list_page(store, points, many, Page(7, 0, with_embeddings=False, with_total=True, after=after))
        listed += [document.id for document in page.documents]
        assert page.total == 90
        if not isinstance(page.next, str):
            break
        after = Cursor.decode(page.next)
    assert listed == whole
    without_total = await list_page(store, points, many, Page(5, 80, with_embeddings=False, with_total=False))
    assert [document.id for document in without_total.documents] == whole[80:85]


@pytest.mark.parametrize("is_exclusive", [True, False])
@pytest.mark.parametrize("offset", [1, 88, 89, 90, 91, 1000])
async def test_a_page_by_offset_has_the_total_of_as_many_matches_as_are_cached(
    bare: Store, points: str, monkeypatch: pytest.MonkeyPatch, offset: int, is_exclusive: bool
) -> None:
    monkeypatch.setattr(listing_cache, "MAX_IDS", 90)
    monkeypatch.setattr("ragstore.operations.list_documents.MAX_MATCHES", 90)
    store = ListingCacheStore(bare, is_exclusive=is_exclusive)
    many = of_where({"few": False})
    whole = await bare.get_ids(points, many)
    for _ in range(2):
        page = await list_page(store, points, many, Page(5, offset, with_embeddings=False, with_total=True))
        assert ([document.id for document in page.documents], page.total) == (whole[offset : offset + 5], 90)


def _after(number: int) -> Page:
    return Page(5, 0, with_embeddings=False, with_total=True, after=Cursor(number, str(number - 1), 100))


@pytest.mark.usefixtures("small_blocks")
async def test_a_deep_page_after_a_cursor_is_one_read_by_ids(spy_backend: SpyBackend, bare: Store, points: str) -> None:
    store = ListingCacheStore(bare, is_exclusive=False)
    await list_page(store, points, EVERYTHING, _after(65))
    spy_backend.operations.clear()
    found = await list_page(store, points, EVERYTHING, _after(70))
    assert ([document.id for document in found.documents], found.total) == (ids_from(70), 100)
    (read,) = spy_backend.operations
    assert isinstance(read, GetRecords)
    assert read.ids == ids_from(70)


@pytest.mark.usefixtures("small_blocks")
async def test_a_page_after_a_cursor_has_no_gap_where_another_client_deleted_documents(
    bare: Store, points: str
) -> None:
    store = ListingCacheStore(bare, is_exclusive=False)
    await list_page(store, points, EVERYTHING, _after(65))
    await bare.delete(points, of_ids("3", "71"))
    found = await list_page(store, points, EVERYTHING, _after(70))
    assert [document.id for document in found.documents] == ["70", *ids_from(72, 4)]
    assert isinstance(found.next, str)
    assert Cursor.decode(found.next) == Cursor(74, "75", 100)


async def test_a_cursor_is_found_before_its_position_without_all_ids(
    spy_backend: SpyBackend, bare: Store, points: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Clients delete what they have listed."""
    monkeypatch.setattr("ragstore.operations.list_documents.MAX_SHIFT", 10)
    monkeypatch.setattr(listing_cache, "BLOCK", 20)
    store = ListingCacheStore(bare, is_exclusive=False)
    await store.delete(points, of_ids("60", "61", "62"))
    spy_backend.operations.clear()
    found = await list_page(store, points, EVERYTHING, _after(70))
    assert [document.id for document in found.documents] == ids_from(70)
    reads = [read for read in spy_backend.operations if isinstance(read, GetRecords)]
    assert [read.limit for read in reads if read.ids is None] == [20, 20]
    assert not any(isinstance(operation, CountRecords) for operation in spy_backend.operations)
