"""The share of documents that their own embedding does not find is measured, sampled, and lower after a rebuild."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path

import numpy as np
import pytest
from prometheus_client import REGISTRY
from structlog.testing import capture_logs

from chroma_repair.index_repair import repair
from ragstore.model.collections import HnswParameters
from ragstore.model.documents import Batch
from ragstore.model.index_check import PAGE, check_index
from ragstore.model.queries import Query
from ragstore.model.vectors import Matrix
from ragstore.store.index_sampling import IndexSamplingStore
from ragstore.store.protocol import Store
from tests.support.factories import add_documents, upsert_documents
from tests.support.servers import running, start_chroma
from tests.support.stores import embedded_backend, exact, http_backend

pytestmark = pytest.mark.process

DIMENSION = 256


def directions(count: int, seed: int, spread: float = 0.0) -> Matrix:
    """Random directions, with lengths that vary."""
    generator = np.random.default_rng(seed)
    rows = generator.normal(size=(count, DIMENSION))
    rows /= np.linalg.norm(rows, axis=1, keepdims=True)
    return (rows * generator.lognormal(0, spread, (count, 1))).astype(np.float32)


def documents_of(rows: Matrix) -> Batch:
    """Documents with these embeddings."""
    ids = [str(row) for row in range(len(rows))]
    return Batch(ids, ids, [{} for _ in ids], rows)


async def test_a_check_counts_the_documents_that_their_own_embedding_does_not_find(
    store: Store, store_collection: str, request: pytest.FixtureRequest
) -> None:
    """The whole stack finds what the index of a small collection has lost."""
    await add_documents(store, store_collection, documents_of(directions(250, 1, spread=0.3)))
    checked = await check_index(store, store_collection, 1000)
    assert checked.sampled == 250
    is_whole_stack = request.node.callspec.params["store"] not in ("embedded", "remote")
    assert (checked.lost == 0) if is_whole_stack else (checked.lost > 10)


async def test_equal_embeddings_count_as_found(store: Store, store_collection: str) -> None:
    await add_documents(store, store_collection, documents_of(np.tile(directions(1, 2), (60, 1))))
    assert (await check_index(store, store_collection, 1000)) == (60, 0)


async def test_a_check_looks_for_no_more_documents_than_wanted(store: Store, store_collection: str) -> None:
    await add_documents(store, store_collection, documents_of(directions(100, 3)))
    assert (await check_index(store, store_collection, PAGE)).sampled == PAGE


async def write_replaced(store: Store) -> None:
    """Replace embeddings of varying lengths by normalised ones, which loses most of them.

    The graph keeps the links of the embeddings before: about 400 of 500 are lost, and none after a rebuild.
    """
    await store.create_collection("replaced", {}, "l2")
    for seed, spread in enumerate([0.3] * 7 + [0.0]):
        await upsert_documents(store, "replaced", documents_of(directions(500, seed, spread)))


@contextmanager
def embedded_in(folder: Path) -> Iterator[Store]:
    """A store over embedded Chroma, whose folder is free afterwards."""
    yield exact(embedded_backend(folder / "chroma"))


@contextmanager
def served_from(folder: Path) -> Iterator[Store]:
    """A store over a Chroma server, whose folder is free afterwards."""
    with running(start_chroma(folder)) as chroma:
        yield exact(http_backend(chroma.url, "default_database"))


@pytest.mark.process
@pytest.mark.parametrize("over", [embedded_in, served_from], ids=["embedded", "server"])
async def test_a_rebuild_lowers_the_share(
    tmp_path: Path, over: Callable[[Path], AbstractContextManager[Store]]
) -> None:
    with over(tmp_path) as store:
        await store.start()
        await write_replaced(store)
        before = await check_index(store, "replaced", 500)
        await store.close()
    assert [found.problem for found in repair(tmp_path / "chroma", ["replaced"])] == [""]
    with over(tmp_path) as store:
        await store.start()
        after = await check_index(store, "replaced", 500)
        await store.close()
    assert before.sampled == after.sampled == 500
    assert after.lost < before.lost


async def test_more_neighbours_lose_fewer_documents(bare: Store) -> None:
    rows = documents_of(directions(500, 4, spread=0.3))
    lost = []
    for parameters in (HnswParameters(), HnswParameters(max_neighbors=64, ef_construction=400, ef_search=400)):
        await bare.create_collection("parameters", {}, "l2", parameters)
        await add_documents(bare, "parameters", rows)
        lost.append((await check_index(bare, "parameters", 500)).lost)
        await bare.delete_collection("parameters")
    assert lost[1] < lost[0]


def _samples() -> float:
    values = (
        REGISTRY.get_sample_value("ragstore_index_samples_total", {"result": result}) for result in ("found", "lost")
    )
    return sum(value or 0.0 for value in values)


async def test_some_documents_are_looked_for_after_every_so_many_queries(bare: Store) -> None:
    await bare.create_collection("sampled", {}, "cosine")
    rows = directions(60, 5)
    await add_documents(bare, "sampled", documents_of(rows))
    store = IndexSamplingStore(bare, 4)
    before = _samples()
    for _ in range(3):
        await store.query("sampled", [Query(rows[0], 1)])
    assert store.sampling is None
    await store.query("sampled", [Query(rows[0], 1)])
    assert store.sampling is not None
    await store.sampling
    assert _samples() - before == PAGE
    await bare.delete_collection("sampled")


async def test_first_embeddings_that_are_not_normalised_are_logged(bare: Store) -> None:
    logged: dict[str, int] = {}
    for distance, spread in (("l2", 0.3), ("ip", 0.3), ("l2", 0.0), ("cosine", 0.3)):
        with capture_logs() as lines:
            await bare.create_collection("lengths", {}, distance)  # type: ignore[arg-type]  # a distance
            await add_documents(bare, "lengths", documents_of(directions(5, 6, spread)))
            await add_documents(bare, "lengths", Batch(["more"], ["more"], [{}], directions(1, 7, 0.5)))
        await bare.delete_collection("lengths")
        logged[f"{distance} {spread}"] = sum(line["event"] == "embeddings are not normalised" for line in lines)
    assert logged == {"l2 0.3": 1, "ip 0.3": 1, "l2 0.0": 0, "cosine 0.3": 0}
