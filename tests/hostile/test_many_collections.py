"""Many collections: limits of their number, and what Chroma keeps of them."""

from __future__ import annotations

import asyncio
import json
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest

from chroma_repair.orphans import remove_orphans
from ragstore.chroma.embedded.backend import EmbeddedBackend
from ragstore.chroma.embedded.process_memory import MemoryWatch, resident_bytes
from ragstore.chroma.operations import CountCollections, GetStatus
from ragstore.errors import ChromaUnavailable
from ragstore.kit.container_memory import container_limit_bytes
from tests.support.damaged_index import run_repair
from tests.support.documents import add, document, documents
from tests.support.factories import add_documents, batch
from tests.support.keyed_services import keyed_service
from tests.support.problems import problem_of
from tests.support.servers import Served, free_port, running, start_process, start_service
from tests.support.stores import TENANT, embedded_backend, exact

FILES = 150
"""Open files of an embedded Chroma with a low limit: 32 indexes need all of them."""


def limited_files(count: int, *command: str) -> list[str]:
    """A command that runs with a maximum number of open files."""
    return ["bash", "-c", f'ulimit -n {count} && exec "$@"', "limited", *command]


def indexes_in(folder: Path) -> set[str]:
    """The folders of indexes in Chroma's data folder."""
    return {entry.name for entry in folder.iterdir() if entry.is_dir()}


# -- limits -----------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def two_collections(tmp_path_factory: pytest.TempPathFactory) -> Iterator[httpx.Client]:
    """A service that accepts two collections and has them: `one` and `two`."""
    with (
        running(start_service(tmp_path_factory.mktemp("limited"), {"RAGSTORE_MAX_COLLECTIONS": "2"})) as service,
        httpx.Client(base_url=service.url, timeout=30) as client,
    ):
        for name in ("one", "two"):
            client.post("/collections", json={"name": name}).raise_for_status()
        yield client


def test_a_database_has_a_maximum_number_of_collections(two_collections: httpx.Client) -> None:
    problem = problem_of(two_collections.post("/collections", json={"name": "three"}), 403)
    assert problem["code"] == "too_many_collections"
    assert two_collections.get("/collections").json()["total"] == 2


def test_existing_collections_are_found_at_the_maximum(two_collections: httpx.Client) -> None:
    assert two_collections.post("/collections", json={"name": "two", "get_or_create": True}).status_code == 200
    assert problem_of(two_collections.post("/collections", json={"name": "two"}), 409)["code"] == "collection_exists"


async def test_a_deleted_collection_makes_room_for_one_other(two_collections: httpx.Client) -> None:
    async with httpx.AsyncClient(base_url=two_collections.base_url, timeout=30) as client:
        (await client.delete("/collections/two")).raise_for_status()
        creations = [client.post("/collections", json={"name": f"race-{number}"}) for number in range(8)]
        responses = await asyncio.gather(*creations)
        assert sorted(response.status_code for response in responses) == [201] + [403] * 7
        (created,) = [response.json()["name"] for response in responses if response.status_code == 201]
        (await client.delete(f"/collections/{created}")).raise_for_status()
        (await client.post("/collections", json={"name": "two"})).raise_for_status()


def test_a_key_has_a_maximum_of_its_own_among_the_collections_that_it_sees(tmp_path: Path) -> None:
    keys = {
        "admin": {"role": "admin"},
        "team": {"role": "writer", "collections": ("team-*",), "max_collections": 1},
    }
    with (
        keyed_service(tmp_path, keys) as service,  # type: ignore[arg-type]  # KeySpec
        service.client("admin") as admin,
        service.client("team") as team,
    ):
        assert admin.post("/collections", json={"name": "other"}).status_code == 201
        assert team.post("/collections", json={"name": "team-1"}).status_code == 201
        assert problem_of(team.post("/collections", json={"name": "team-2"}), 403)["code"] == "too_many_collections"
        hidden = [problem_of(team.post("/collections", json={"name": name}), 403) for name in ("other", "none")]
        assert [problem["code"] for problem in hidden] == ["too_many_collections"] * 2
        assert admin.post("/collections", json={"name": "team-2"}).status_code == 201


# -- memory and files of embedded Chroma ------------------------------------------------------


def test_more_collections_than_embedded_chroma_has_indexes_in_memory_can_be_queried(tmp_path: Path) -> None:
    with (
        running(start_service(tmp_path, prefix=limited_files(FILES))) as service,
        httpx.Client(base_url=service.url, timeout=30) as client,
    ):
        # Their indexes have 240 files. Chroma evicts some of them, but not by the number of files.
        names = [f"col-{number}" for number in range(60)]
        for name in names:
            client.post("/collections", json={"name": name}).raise_for_status()
            add(client, name, document("a"))
        for name in names:
            found = client.post(f"/collections/{name}/query", json={"query_embedding": [1, 0]})
            assert found.status_code == 200, found.text
            assert [each["id"] for each in found.json()["results"]] == ["a"]


def test_a_collection_whose_index_was_evicted_before_it_was_saved_can_be_queried(tmp_path: Path) -> None:
    # With 400 files, Chroma has room for 80 indexes, one or two in each of 64 shards, and no file is scarce.
    with (
        running(start_service(tmp_path, prefix=limited_files(400))) as service,
        httpx.Client(base_url=service.url, timeout=30) as client,
    ):
        names = [f"col-{number}" for number in range(90)]
        for name in names:
            client.post("/collections", json={"name": name}).raise_for_status()
            add(client, name, document("a"))
        for name in names:
            found = client.post(f"/collections/{name}/query", json={"query_embedding": [1, 0]})
            assert found.status_code == 200, found.text
            assert [each["id"] for each in found.json()["results"]] == ["a"]
        assert "chroma process" not in service.log.read_text()


def test_concurrent_writes_to_many_collections_do_not_use_up_the_files_of_embedded_chroma(tmp_path: Path) -> None:
    async def write_concurrently(url: str) -> list[int]:
        async with httpx.AsyncClient(base_url=url, timeout=60) as client:
            names = [f"col-{number}" for number in range(60)]
            created = await asyncio.gather(*(client.post("/collections", json={"name": name}) for name in names))
            body = {"documents": [document("a")]}
            paths = [f"/collections/{name}/documents" for name in names]
            written = await asyncio.gather(*(client.post(path, json=body) for path in paths))
            found = await asyncio.gather(*(client.get(path) for path in paths))
        assert [page.json()["total"] for page in found] == [1] * 60
        return [response.status_code for response in (*created, *written)]

    with running(start_service(tmp_path, prefix=limited_files(FILES))) as service:
        assert asyncio.run(write_concurrently(service.url)) == [201] * 120


def test_after_a_kill_many_collections_are_checked_without_using_up_the_files(tmp_path: Path) -> None:
    names = [f"col-{number}" for number in range(60)]
    with (
        running(start_service(tmp_path, prefix=limited_files(FILES))) as service,
        httpx.Client(base_url=service.url, timeout=60) as client,
    ):
        for name in names:
            client.post("/collections", json={"name": name}).raise_for_status()
            add(client, name, document("a"))
        service.process.kill()
    with (
        running(start_service(tmp_path, prefix=limited_files(FILES))) as service,
        httpx.Client(base_url=service.url, timeout=60) as client,
    ):
        assert [client.get(f"/collections/{name}").json()["count"] for name in names] == [1] * 60
        client.post("/collections", json={"name": "another"}).raise_for_status()
        # An index whose files could not be opened would count as damaged, and end Chroma's process.
        log = service.log.read_text()
        assert "unclean shutdown" in log
        assert "chroma process ended" not in log
        assert "index repaired" not in log


def test_open_files_are_counted_only_below_a_limit_that_chroma_may_reach() -> None:
    # In a process of its own: that of the tests may have more open files than the limit up to which they are counted.
    code = """
from ragstore.chroma.embedded.process_files import SPARE_FILES, SUFFICIENT_FILES, FileWatch, open_files
files = open_files()
assert 0 < files < SUFFICIENT_FILES - SPARE_FILES
limits = (files, files + SPARE_FILES - 1, files + SPARE_FILES, SUFFICIENT_FILES, -1)
print([FileWatch(limit).is_exceeded() for limit in limits])
"""
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert run.stdout.strip() == "[True, True, False, False, False]"


async def test_embedded_chroma_is_restarted_when_it_takes_too_much_memory(tmp_path: Path) -> None:
    memory = MemoryWatch(1, min_lifetime=3600.0)
    backend = EmbeddedBackend(str(tmp_path), TENANT, "hostile", 30.0, memory=memory)
    store = exact(backend)
    await store.start()
    created = await store.create_collection("col", {}, "l2")
    await add_documents(store, "col", batch("a"))
    watched = backend._watched
    assert watched is not None
    before = watched.process_id
    memory._next_check = 0.0
    counts = await asyncio.gather(*(backend.call(CountCollections()) for _ in range(20)))
    assert set(counts) == {1}
    if backend._restart is not None:
        await backend._restart
    assert (await store.get_collection("col")).id == created.id
    assert await store.count("col") == 1
    assert backend._watched is not None
    assert backend._watched.process_id != before
    await store.close()


def test_memory_is_checked_now_and_then_and_a_restart_is_not_repeated_for_a_while() -> None:
    now = [100.0]
    memory = MemoryWatch(1, lambda: now[0], 60.0)
    assert memory.is_exceeded(os.getpid())
    now[0] += 59
    assert not memory.is_exceeded(os.getpid())
    now[0] += 2
    assert memory.is_exceeded(os.getpid())
    assert not MemoryWatch(2**50, lambda: now[0]).is_exceeded(os.getpid())


def test_the_memory_of_a_process_is_known() -> None:
    assert resident_bytes(os.getpid()) > 2**20
    assert resident_bytes(2**30) == 0


def test_the_limit_of_a_container_is_read_from_its_control_group(tmp_path: Path) -> None:
    file = tmp_path / "memory.max"
    assert container_limit_bytes((str(file),)) is None
    for text, limit in (("1073741824\n", 2**30), ("max\n", None), ("9223372036854771712\n", None)):
        file.write_text(text)
        assert container_limit_bytes((str(tmp_path / "absent"), str(file))) == limit


# -- folders of deleted collections -----------------------------------------------------------


async def test_embedded_chroma_removes_the_index_folders_of_deleted_collections_when_it_starts(tmp_path: Path) -> None:
    store = exact(EmbeddedBackend(str(tmp_path), TENANT, "hostile", 30.0, sync_threshold=3))
    await store.start()
    for name in ("kept", "deleted"):
        await store.create_collection(name, {}, "l2")
        for number in range(10):
            await add_documents(store, name, batch(str(number)))
    both = indexes_in(tmp_path)
    await store.delete_collection("deleted")
    await store.close()
    assert len(both) == 2
    assert indexes_in(tmp_path) == both
    store = exact(embedded_backend(tmp_path))
    await store.start()
    await store.status()
    assert len(indexes_in(tmp_path)) == 1
    await store.close()
    store = exact(EmbeddedBackend(str(tmp_path), TENANT, "hostile", 30.0))
    await store.start()
    assert await store.count("kept") == 10
    await store.close()


def test_folders_of_others_and_those_of_an_unreadable_database_stay(tmp_path: Path) -> None:
    name = "0a1b2c3d-0000-4000-8000-000000000000"
    for folder in (name, "backup", f"{name}.damaged"):
        (tmp_path / folder).mkdir()
    assert remove_orphans(tmp_path) == 0
    (tmp_path / "chroma.sqlite3").write_bytes(b"no database")
    assert remove_orphans(tmp_path) == 0
    assert indexes_in(tmp_path) == {name, "backup", f"{name}.damaged"}


async def test_the_command_removes_them_from_the_folder_of_a_stopped_server(tmp_path: Path) -> None:
    store = exact(embedded_backend(tmp_path))
    await store.start()
    await store.status()
    await store.close()
    orphan = tmp_path / "0a1b2c3d-0000-4000-8000-000000000000"
    orphan.mkdir()
    assert run_repair(str(tmp_path))[0] == 0
    assert orphan.exists()
    code, printed = run_repair(str(tmp_path), "--reclaim")
    assert (code, orphan.exists()) == (0, False)
    assert "Removed the index folders of 1 deleted collections" in printed


# -- health and full file tables --------------------------------------------------------------


def test_health_does_not_walk_the_data_folder(tmp_path: Path) -> None:
    with running(start_service(tmp_path)) as service:
        folder = tmp_path / "data" / "0a1b2c3d-0000-4000-8000-000000000000"
        folder.mkdir()
        (folder / "large").write_bytes(b"x" * 10**7)
        details = httpx.get(f"{service.url}/health", timeout=30).json()["details"]
        assert details["storage_bytes"] == (tmp_path / "data" / "chroma.sqlite3").stat().st_size


async def test_a_service_without_its_data_folder_is_not_ready(tmp_path: Path) -> None:
    backend = embedded_backend(tmp_path / "data")
    await backend.start()
    assert (await backend.call(GetStatus())).storage_bytes
    shutil.rmtree(tmp_path / "data")
    with pytest.raises(ChromaUnavailable, match="The data folder is gone"):
        await backend.call(GetStatus())
    await backend.close()


def test_a_chroma_server_without_free_files_is_reported_as_that(tmp_path: Path) -> None:
    port = free_port()
    chroma = limited_files(100, str(Path(sys.executable).parent / "chroma"), "run", "--path", "chroma")
    command = [*chroma, "--host", "127.0.0.1", "--port", str(port)]
    served = start_process(command, f"http://127.0.0.1:{port}", tmp_path / "chroma.log", {})
    with running(served):
        served.wait_until_ready("/api/v2/heartbeat")
        environ = {"RAGSTORE_CHROMA_URL": served.url, "RAGSTORE_CHROMA_CONNECTIONS": "2"}
        with running(start_service(tmp_path, environ)) as service:
            assert _problem_at_the_limit(service)["code"] == "chroma_out_of_files"


def _problem_at_the_limit(service: Served) -> dict[str, object]:
    """The first problem of a service whose Chroma gets more and more collections."""
    with httpx.Client(base_url=service.url, timeout=30) as client:
        for number in range(60):
            name = f"col-{number}"
            response = client.post("/collections", json={"name": name})
            if response.status_code == 201:
                response = client.post(f"/collections/{name}/documents", json={"documents": documents(1)})
            if response.status_code != 201:
                problem: dict[str, object] = json.loads(response.content)
                return problem
    raise AssertionError("there was no problem")
