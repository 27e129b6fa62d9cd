"""Requests that are valid HTTP and JSON, and odd."""

from __future__ import annotations

import os
from pathlib import Path

import httpx
import msgspec
import pytest

from ragstore.kit.auth.keys import KeyRing, KeysError
from ragstore.store.key_scope import STORE_KEYS
from tests.support.documents import add, count_of, document, documents_path, lines_of
from tests.support.keyed_services import create_key, eventually, keyed_service
from tests.support.problems import problem_of
from tests.support.streams import duplex

MSGPACK = "application/msgpack"


@pytest.mark.parametrize("weight", ["1e999", "inf", "-1", "nan", "1.5", "x", "", "0", "0.000"])
def test_a_weight_that_is_not_one_excludes_messagepack(http: httpx.Client, collection: str, weight: str) -> None:
    headers = {"Accept": f"{MSGPACK};q={weight}"}
    response = http.put(documents_path(collection), json={"documents": [document("a")]}, headers=headers)
    assert (response.status_code, response.headers["content-type"]) == (200, "application/json")


@pytest.mark.parametrize("accept", [f"{MSGPACK};q=0.2", f"{MSGPACK}, */*", f"text/html, {MSGPACK};q=0.5, */*;q=0.1"])
def test_messagepack_is_sent_if_it_is_preferred(http: httpx.Client, accept: str) -> None:
    assert http.get("/collections", headers={"Accept": accept}).headers["content-type"] == MSGPACK


@pytest.mark.parametrize("embedding", [[1e-30, 0.0], [2e19, 0.0]])
def test_a_query_whose_norm_chroma_loses_is_rejected_as_a_document_is(
    http: httpx.Client, collection: str, embedding: list[float]
) -> None:
    add(http, collection, document("a"))
    body = {"query_embedding": embedding}
    problem = problem_of(http.post(f"/collections/{collection}/query", json=body), 400)
    assert problem["errors"][0]["path"] == "$.query_embedding"
    several = http.post("/query", json={**body, "collections": [collection]}).json()
    assert [error["status"] for error in several["errors"]] == [400]


@pytest.mark.parametrize("bound", ["min_score", "max_distance"])
def test_a_bound_that_is_no_number_is_rejected(http: httpx.Client, collection: str, bound: str) -> None:
    content = msgspec.msgpack.encode({"query_embedding": [1.0, 0.0], bound: float("nan")})
    response = http.post(f"/collections/{collection}/query", content=content, headers={"Content-Type": MSGPACK})
    assert problem_of(response, 400)["errors"][0]["path"] == f"$.{bound}"


@pytest.mark.parametrize("change", ["removed", "other rights"])
def test_a_stream_ends_when_its_key_is_withdrawn(tmp_path: Path, change: str) -> None:
    with (
        keyed_service(tmp_path, {"admin": {"role": "admin"}, "ingest": {"role": "writer"}}) as service,
        service.client("admin") as admin,
    ):
        admin.post("/collections", json={"name": "col"}).raise_for_status()
        with duplex(service.served.url, "col", key=service.keys["ingest"]) as stream:
            stream.send(lines_of(document("a")))
            assert stream.read()["status"] == "stored"
            lines = service.keys_file.read_text().splitlines(keepends=True)
            kept = [line for line in lines if '"ingest"' not in line]
            if change == "other rights":
                kept += [line.replace("writer", "reader") for line in lines if '"ingest"' in line]
            service.keys_file.write_text("".join(kept))
            assert stream.read()["problem"]["code"] == "unauthorized"
        assert count_of(admin, "col") == 1


def test_a_file_without_keys_does_not_lock_everybody_out(tmp_path: Path) -> None:
    with (
        keyed_service(tmp_path, {"admin": {"role": "admin"}}) as service,
        service.client("admin") as admin,
    ):
        service.keys_file.write_text("# all keys were removed\n")
        eventually(lambda: "there is no key in it" in service.served.log.read_text())
        assert admin.get("/collections").status_code == 200


def test_a_service_does_not_start_with_a_file_without_keys(tmp_path: Path) -> None:
    (tmp_path / "keys").write_text("\n")
    with pytest.raises(KeysError, match="there is no key in it"):
        KeyRing(str(tmp_path / "keys"), STORE_KEYS)
    create_key(tmp_path / "keys", "first")
    assert len(KeyRing(str(tmp_path / "keys"), STORE_KEYS)) == 1


def test_a_pipe_in_place_of_the_file_of_keys_is_an_error(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "keys")
    with pytest.raises(KeysError, match="it is not a file"):
        KeyRing(str(tmp_path / "keys"), STORE_KEYS)
