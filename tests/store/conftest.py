"""Fixtures of the store tests: every kind of store, with a collection in it."""

from __future__ import annotations

import os
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import ExitStack
from typing import Final
from uuid import uuid4

import pytest

from ragstore.store.protocol import Store
from tests.support.process_fixtures import starts_process
from tests.support.quota_proxy import Form, quota_proxy
from tests.support.servers import Served
from tests.support.spies import SpyBackend, SpyStore
from tests.support.stores import STORES, TENANT, StoreLocation, exact, stack


@pytest.fixture(scope="package")
def location(chroma: Served, tmp_path_factory: pytest.TempPathFactory) -> StoreLocation:
    """Where the stores keep their documents."""
    return StoreLocation(tmp_path_factory.mktemp("stores"), chroma.url, "store_tests")


QUOTA_STORES: Final[dict[str, Form]] = {"refusing": "refusing", "truncating": "truncating"}
"""Stores behind a proxy with quotas: they take the place of all others if the variable `QUOTA_STORES` is set."""


BEYOND_QUOTAS: Final = (
    "test_queries_that_leave_together_may_want_more_results_than_chroma_gives_in_a_call",
    "test_texts_come_back_as_they_were[refusing-text5]",
    "test_texts_come_back_as_they_were[truncating-text5]",
    "test_ids_may_be_any_text[refusing-name7]",
    "test_ids_may_be_any_text[truncating-name7]",
    "test_a_batch_of_the_largest_size_is_written",
    "test_a_large_write_is_sent_in_blocks_and_stored_as_it_is",
    "test_large_packed_texts_are_sent_in_blocks_and_stored_as_they_are",
    "test_a_larger_batch_is_refused_and_nothing_is_written",
    "test_more_documents_than_one_write_takes_are_deleted",
    "test_matches_agrees_with_the_store_on_whole_filters",
    "test_a_filter_may_be_as_deep_as_its_bound",
    "test_a_filter_and_ids_may_be_as_long_as_their_bounds_together",
    "test_a_filter_selects_what_a_plain_reading_of_it_selects",
)
"""Tests whose batches, texts, ids or filters are larger than the quotas allow."""


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Deselect what exceeds the quotas, and what does not use the stores, if the stores have quotas."""
    if not os.environ.get("QUOTA_STORES"):
        return
    chosen = [
        item
        for item in items
        if any(f"[{form}" in item.name for form in QUOTA_STORES) and not item.name.startswith(BEYOND_QUOTAS)
    ]
    config.hook.pytest_deselected(items=[item for item in items if item not in chosen])
    items[:] = chosen


@pytest.fixture(scope="package")
async def started(location: StoreLocation) -> AsyncIterator[Callable[[str], Awaitable[Store]]]:
    """Starts a store of a kind, once for all files of a worker."""
    stores: dict[str, Store] = {}
    with ExitStack() as proxies:

        async def start(kind: str) -> Store:
            if kind not in stores:
                if kind in STORES:
                    stores[kind] = STORES[kind](location)
                else:
                    url, _ = proxies.enter_context(quota_proxy(location.chroma_url, QUOTA_STORES[kind]))
                    stores[kind] = stack(location, url, connections=5)
                await stores[kind].start()
            return stores[kind]

        yield start
        for store in stores.values():
            await store.close()


@pytest.fixture(scope="package", params=QUOTA_STORES if os.environ.get("QUOTA_STORES") else STORES)
async def store(request: pytest.FixtureRequest, started: Callable[[str], Awaitable[Store]]) -> Store:
    """A running store, of every kind."""
    return await started(request.param)


@pytest.fixture(scope="package")
@starts_process
def spy_backend(tmp_path_factory: pytest.TempPathFactory) -> SpyBackend:
    """Embedded Chroma for the tests of store layers; `bare` starts it."""
    return SpyBackend(str(tmp_path_factory.mktemp("bare")), TENANT, "store_tests", 30.0)


@pytest.fixture(scope="package")
async def bare(spy_backend: SpyBackend) -> AsyncIterator[Store]:
    """The innermost store alone."""
    store = exact(spy_backend)
    await store.start()
    yield store
    await store.close()


@pytest.fixture
def inner(bare: Store) -> SpyStore:
    """The innermost store, which records the calls of the store that wraps it."""
    return SpyStore(bare)


@pytest.fixture
async def store_collection(store: Store) -> AsyncIterator[str]:
    """A new, empty collection with the distance l2. A test may delete it."""
    name = f"t-{uuid4().hex}"
    await store.create_collection(name, {}, "l2")
    yield name
    if name in {found.name for found in await store.list_collections(None, 0)}:
        await store.delete_collection(name)
