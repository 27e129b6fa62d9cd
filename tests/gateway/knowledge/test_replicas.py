"""Concurrent writers: on one gateway, and on two replicas over one database."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import Any

import httpx
import psycopg
import pytest

from tests.gateway.conftest import Replicas
from tests.gateway.knowledge.conftest import body_of, create, versioned
from tests.support.problems import assert_problem

pytestmark = pytest.mark.process

WRITERS = 8


def concurrently(calls: Sequence[Callable[[], Any]]) -> list[Any]:
    """The results of calls that run together."""
    with ThreadPoolExecutor(len(calls)) as threads:
        return [future.result() for future in [threads.submit(call) for call in calls]]


def test_of_concurrent_creates_of_one_name_one_succeeds(http: httpx.Client, kind: str, name: str) -> None:
    responses = concurrently([partial(http.post, f"/ragstore/{kind}", json=body_of(kind, name))] * WRITERS)
    assert sorted(each.status_code for each in responses) == [201, *[409] * (WRITERS - 1)]
    listed = http.get(f"/ragstore/{kind}/descriptors", params={"filter": name}).json()
    assert [each["name"] for each in listed] == [name]


def test_concurrent_duplicates_have_different_names(http: httpx.Client, name: str) -> None:
    path = create(http, "rags", name)
    responses = concurrently([partial(http.post, path)] * WRITERS)
    assert [each.status_code for each in responses] == [201] * WRITERS
    assert len({each.json()["name"] for each in responses}) == WRITERS


def test_of_concurrent_updates_on_two_replicas_exactly_one_wins_each_version(replicas: Replicas, name: str) -> None:
    rounds = 10
    with replicas.client(0) as first, replicas.client(1) as second:
        clients = [first, second]
        path = create(first, "rags", name)
        for version in range(1, rounds + 1):
            responses = concurrently(
                [
                    partial(
                        clients[writer % 2].put,
                        versioned(path, version),
                        json={"name": name, "description": f"{version} by {writer}"},
                    )
                    for writer in range(WRITERS)
                ]
            )
            won = [each for each in responses if each.status_code == 200]
            lost = [each for each in responses if each.status_code != 200]
            assert len(won) == 1
            assert won[0].headers["Location"] == versioned(path, version + 1)
            for each in lost:
                assert f"is {version + 1}" in assert_problem(each, 409, "version_conflict")["detail"]
            for client in clients:
                assert client.get(path).json() == won[0].json()
                assert client.get(versioned(path, version + 1)).json() == won[0].json()


def test_of_concurrent_creates_of_one_name_on_two_replicas_one_succeeds(replicas: Replicas, name: str) -> None:
    with replicas.client(0) as first, replicas.client(1) as second:
        calls = [partial(client.post, "/ragstore/rags", json={"name": name}) for client in (first, second)]
        responses = concurrently(calls * (WRITERS // 2))
    assert sorted(each.status_code for each in responses) == [201, *[409] * (WRITERS - 1)]


def test_a_deletion_and_an_update_do_not_both_succeed(replicas: Replicas, name: str) -> None:
    with replicas.client(0) as first, replicas.client(1) as second:
        for number in range(5):
            path = create(first, "rags", f"{name}-{number}")
            deleted, updated = concurrently(
                [
                    partial(first.delete, versioned(path, 1)),
                    partial(second.put, versioned(path, 1), json={"name": f"{name}-{number}"}),
                ]
            )
            assert (deleted.status_code, updated.status_code) in {(200, 404), (409, 200)}


def test_concurrent_changes_of_a_vector_store_and_of_a_document_all_succeed(replicas: Replicas, name: str) -> None:
    with replicas.client(0) as first, replicas.client(1) as second, ThreadPoolExecutor(8) as threads:
        for number in range(4):
            store = first.post("/v1/vector_stores", json={"name": f"{name}-{number}"}).json()["id"]
            text = {"Content-Type": "text/plain"}
            assert first.post(f"/ragstore/rags/{store}/ingest", content="a", headers=text).status_code == 202
            document = first.get(f"/v1/vector_stores/{store}/files").json()["data"][0]["id"]
            changes = [
                threads.submit(client.post, path, json=body)
                for client in (first, second, first, second)
                for path, body in (
                    (f"/v1/vector_stores/{store}", {"metadata": {"a": "b"}}),
                    (f"/v1/vector_stores/{store}/files/{document}", {"attributes": {"a": 1}}),
                )
            ]
            assert [each.result().status_code for each in changes] == [200] * len(changes)


def test_a_file_is_deleted_although_its_document_is_removed_concurrently(replicas: Replicas, name: str) -> None:
    with replicas.client(0) as first, replicas.client(1) as second, ThreadPoolExecutor(2) as threads:
        stores = [first.post("/v1/vector_stores", json={"name": f"{name}-{n}"}).json()["id"] for n in range(6)]
        upload = {"file": ("a.txt", b"a", "text/plain")}
        file = first.post("/v1/files", files=upload, data={"purpose": "assistants"}).json()["id"]
        for store in stores:
            assert first.post(f"/v1/vector_stores/{store}/files", json={"file_id": file}).status_code == 200
        deletion = threads.submit(first.delete, f"/v1/files/{file}")
        for store in reversed(stores):
            assert second.delete(f"/v1/vector_stores/{store}/files/{file}").status_code in (200, 404)
        assert deletion.result().status_code == 200
        assert first.get(f"/v1/files/{file}").status_code == 404


def test_a_version_is_stored_with_the_name_of_the_key_that_wrote_it(replicas: Replicas, name: str) -> None:
    with replicas.client() as http:
        path = create(http, "rags", name)
    query = "SELECT created_by, body ->> 'name' FROM configuration_version WHERE configuration_id = %s"
    with psycopg.connect(replicas.url) as connection:
        rows = connection.execute(query, [path.rpartition("/")[2]]).fetchall()
    assert rows == [("admin", name)]


def test_a_reader_reads_and_only_an_admin_configures(replicas: Replicas, kind: str, name: str) -> None:
    with replicas.client() as admin:
        path = create(admin, kind, name)
    for role in ("reader", "writer"):
        with replicas.client(role=role) as http:
            for read in (path, f"/ragstore/{kind}/descriptors", f"/ragstore/{kind}/jsonSchema"):
                assert http.get(read).status_code == 200
            assert_problem(http.post(f"/ragstore/{kind}", json=body_of(kind, f"{name}-2")), 403, "forbidden")
            assert_problem(http.post(path), 403, "forbidden")
            assert_problem(http.put(versioned(path, 1), json=body_of(kind, name)), 403, "forbidden")
            assert_problem(http.delete(path), 403, "forbidden")
    with replicas.client(role="") as stranger:
        assert_problem(stranger.get(path), 401, "unauthorized")
    with replicas.client() as admin:
        assert admin.get(path).headers["X-Resource-URI"] == versioned(path, 1)


def test_health_names_the_kind_of_the_database(http: httpx.Client, replicas: Replicas) -> None:
    kind = "postgresql" if str(http.base_url).startswith(replicas.gateways[0].url) else "sqlite"
    assert http.get("/health").json()["database"] == {"kind": kind, "ok": True}
