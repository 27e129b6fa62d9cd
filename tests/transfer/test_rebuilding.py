"""A new index for a collection in place: over HTTP, and by `ragstore rebuild`."""

from __future__ import annotations

import re
import sqlite3
import threading
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.support.keyed_services import eventually, keyed_service
from tests.support.problems import problem_of
from tests.support.servers import Served, start_service
from tests.support.transfers import Store, ragstore

SAMPLED = re.compile(r"lost ([0-9]+) of ([0-9]+) sampled documents before, ([0-9]+) after")


def ended(store: Store, name: str) -> dict[str, Any]:
    """The state of a rebuild after its end."""

    def state() -> dict[str, Any] | None:
        found: dict[str, Any] = store.http.get(f"/collections/{name}/rebuild").raise_for_status().json()
        return found if found["status"] != "running" else None

    found: dict[str, Any] = eventually(state, 120)
    return found


def damage(store: Store, name: str, count: int = 500) -> None:
    """Replace documents again and again, which damages an index of the distance `l2`."""
    store.create(name, "l2")
    for seed in range(6):
        generator = np.random.default_rng(seed)
        rows = generator.normal(size=(count, 128)) / 11 * generator.lognormal(0, 0.1, (count, 1))
        embeddings = rows.astype(np.float32).tolist()
        store.put(name, *({"id": str(row), "text": "t", "embedding": embeddings[row]} for row in range(count)))


def test_a_new_index_finds_documents_that_the_old_one_lost(embedded: Store, name: str) -> None:
    damage(embedded, name)
    listed = embedded.listed(name)
    run = ragstore("rebuild", name, "--url", embedded.url, "--max-neighbors", "48")
    assert run.exit_code == 0, run.output
    assert f"{name}: rebuilt the index of 500 documents\n" in run.stdout
    found = SAMPLED.search(run.stdout)
    assert found, run.stdout
    before, sampled, after = map(int, found.groups())
    assert sampled == 500
    assert after < before
    assert embedded.listed(name) == listed
    assert embedded.http.get(f"/collections/{name}").json()["hnsw"] == {"max_neighbors": 48}


def test_a_rebuild_has_a_state_that_can_be_read(embedded: Store, filled: str) -> None:
    listed, collection = embedded.listed(filled), embedded.http.get(f"/collections/{filled}").json()
    problem = problem_of(embedded.http.get(f"/collections/{filled}/rebuild"), 404)
    assert problem["code"] == "rebuild_not_found"
    started = embedded.http.post(f"/collections/{filled}/rebuild", params={"sample": 50, "ef_search": 150})
    assert started.status_code == 202
    assert (started.json()["collection"], started.json()["status"]) == (filled, "running")
    assert ended(embedded, filled) == {
        "collection": filled,
        "status": "completed",
        "done": 50,
        "total": 50,
        "before": {"sampled": 50, "lost": 0},
        "after": {"sampled": 50, "lost": 0},
    }
    assert embedded.listed(filled) == listed
    assert embedded.http.get(f"/collections/{filled}").json() == {**collection, "hnsw": {"ef_search": 150}}


@pytest.mark.parametrize(
    "query", [{"max_neighbors": 1}, {"ef_construction": 5}, {"ef_search": 10_001}, {"sample": 10_001}]
)
def test_parameters_beyond_their_bounds_are_rejected(embedded: Store, filled: str, query: dict[str, int]) -> None:
    problem_of(embedded.http.post(f"/collections/{filled}/rebuild", params=query), 400)
    problem_of(embedded.http.get(f"/collections/{filled}/rebuild"), 404)


def test_a_second_rebuild_is_rejected_while_one_runs(embedded: Store, name: str) -> None:
    embedded.fill(name, 1500, 64, "l2")
    path = f"/collections/{name}/rebuild"
    embedded.http.post(path, params={"sample": 1500}).raise_for_status()
    assert problem_of(embedded.http.post(path), 409)["code"] == "rebuild_running"
    run = ragstore("rebuild", name, "--url", embedded.url)
    assert run.exit_code == 1
    assert f"The index of collection '{name}' is being rebuilt (409)" in run.stderr
    assert ended(embedded, name)["status"] == "completed"


def test_a_collection_that_does_not_exist_is_reported_in_one_line(embedded: Store, name: str) -> None:
    problem_of(embedded.http.post(f"/collections/{name}/rebuild"), 404)
    run = ragstore("rebuild", name, "--url", embedded.url)
    assert run.exit_code == 1
    assert run.stderr == f"Error: {embedded.url}: Collection '{name}' not found (404)\n"


def test_over_a_chroma_server_a_rebuild_names_the_copy_instead(remote: Store, name: str) -> None:
    remote.fill(name, 5, 4, "l2")
    problem = problem_of(remote.http.post(f"/collections/{name}/rebuild"), 409)
    assert problem["code"] == "rebuild_unsupported"
    run = ragstore("rebuild", name, "--url", remote.url)
    assert run.exit_code == 1
    assert "`ragstore copy --into NAME` builds a new index there" in run.stderr


def test_a_rebuild_requires_an_admin_and_is_audited(tmp_path: Path) -> None:
    with keyed_service(tmp_path, {"writer": {"role": "writer"}, "admin": {"role": "admin"}}) as service:
        with service.client("writer") as http:
            http.post("/collections", json={"name": "notes"}).raise_for_status()
            problem_of(http.post("/collections/notes/rebuild"), 403)
        run = ragstore("rebuild", "notes", "--url", service.served.url, RAGSTORE_API_KEY=service.keys["admin"])
        assert run.exit_code == 0, run.output
        with service.client("admin") as http:
            request_id = http.post("/collections/notes/rebuild").headers["X-Request-ID"]
            line = service.audit_line(request_id)
            assert (line["who"], line["operation"], line["collection"]) == ("admin", "startRebuild", "notes")


def test_readers_and_writers_over_http_are_served_during_a_rebuild(embedded: Store, name: str) -> None:
    embedded.fill(name, 800, 32, "cosine")
    written: list[str] = []
    deleted: list[str] = []
    is_done = threading.Event()
    failures: list[object] = []

    def read() -> None:
        while not is_done.is_set():
            known = set(written)
            gone = set(deleted)
            listed = [found["id"] for found in embedded.listed(name)]
            if not known <= set(listed) or gone & set(listed):
                failures.append((sorted(known - set(listed)), sorted(gone & set(listed))))
            found = embedded.http.post(f"/collections/{name}/query", json={"query_embedding": [1.0] * 32, "top_k": 5})
            if found.status_code != 200 or found.json()["count"] != 5:
                failures.append(found.text)

    def write() -> None:
        while not is_done.is_set() and len(written) < 190:
            key = f"new-{len(written)}"
            embedded.put(name, {"id": key, "text": "new", "embedding": [float(len(written) + 1)] * 32})
            written.append(key)
            target = f"handbook:{len(deleted)}/ü"
            embedded.http.post(f"/collections/{name}/documents/delete", json={"ids": [target]}).raise_for_status()
            deleted.append(target)

    threads = [threading.Thread(target=read), threading.Thread(target=write)]
    for thread in threads:
        thread.start()
    try:
        embedded.http.post(f"/collections/{name}/rebuild", params={"sample": 100}).raise_for_status()
        state = ended(embedded, name)
    finally:
        is_done.set()
        for thread in threads:
            thread.join()
    assert state["status"] == "completed"
    assert not failures
    assert written
    kept = [f"handbook:{number}/ü" for number in range(len(deleted), 800)]
    assert [found["id"] for found in embedded.listed(name)] == kept + written


@pytest.fixture
def killed(tmp_path: Path, name: str) -> Iterator[Served]:
    """A service that was killed in the middle of a rebuild and started again; the collection has 3,000 documents."""
    with Store.of(start_service(tmp_path)) as store:
        store.fill(name, 3000, 64, "l2")
        store.http.post(f"/collections/{name}/rebuild", params={"sample": 0}).raise_for_status()
        eventually(lambda: store.http.get(f"/collections/{name}/rebuild").json()["done"], 60)
        store.served.process.kill()
        store.served.process.wait()
    served = start_service(tmp_path)
    yield served
    served.stop()


def test_a_kill_during_a_rebuild_leaves_the_collection_and_the_copy_is_removed_later(
    killed: Served, name: str, tmp_path: Path
) -> None:
    with Store.of(killed) as store:
        assert store.count(name) == 3000
        assert store.listed(name)[0]["id"] == "handbook:0/ü"
        assert store.http.get("/health").json()["collections_count"] == 1
        problem_of(store.http.get(f"/collections/{name}/rebuild"), 404)
        store.http.post(f"/collections/{name}/rebuild", params={"sample": 0}).raise_for_status()
        assert ended(store, name)["status"] == "completed"
        assert store.count(name) == 3000
    killed.stop()
    assert collections_in(tmp_path / "data") == [name]


def collections_in(folder: Path) -> list[str]:
    """The names of all collections in a folder, hidden ones included."""
    with closing(sqlite3.connect(folder / "chroma.sqlite3")) as database:
        return [row[0] for row in database.execute("SELECT name FROM collections")]
