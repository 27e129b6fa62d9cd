"""The roles of the keys that the Vector Stores API needs."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from dataclasses import dataclass

import httpx
import pytest

from tests.support.gateways import start_gateway, write_keys
from tests.support.process_fixtures import starts_process
from tests.support.servers import running

ROLES = ("reader", "writer", "admin")
STORES = "/v1/vector_stores"
STORE = f"{STORES}/{{store}}"
FILE = f"{STORE}/files/{{file}}"
BATCHES = f"{STORE}/file_batches"


@dataclass(frozen=True)
class Call:
    """A request.

    Attributes:
        path: its path, with the ids to fill in.
        body: its body, which is valid, or None.
    """

    method: str
    path: str
    body: object = None


READING = (
    Call("GET", STORES),
    Call("GET", STORE),
    Call("POST", f"{STORE}/search", {"query": "tea"}),
    Call("GET", f"{STORE}/files"),
    Call("GET", FILE),
    Call("GET", f"{BATCHES}/{{batch}}"),
    Call("GET", f"{BATCHES}/{{batch}}/files"),
)
"""Calls of every role."""

UPLOAD = {"filename": "a.txt", "purpose": "assistants", "bytes": 1, "mime_type": "text/plain"}

WRITING = (
    # As for exports of a knowledge base: whole texts are for writers.
    Call("GET", f"{FILE}/content"),
    Call("GET", "/v1/files"),
    Call("GET", "/v1/files/{file}"),
    Call("GET", "/v1/files/{file}/content"),
    Call("POST", f"{STORE}/files", {"file_id": "{file}"}),
    Call("POST", FILE, {"attributes": {"n": 1}}),
    Call("POST", BATCHES, {"file_ids": ["{file}"]}),
    Call("POST", f"{BATCHES}/{{batch}}/cancel", {}),
    Call("POST", "/v1/uploads", UPLOAD),
    Call("POST", "/v1/uploads/{upload}/cancel", {}),
    Call("DELETE", FILE),
    Call("DELETE", "/v1/files/{file}"),
)
"""Calls of writers and admins."""

ADMINISTRATION = (
    Call("POST", STORES, {}),
    Call("POST", STORE, {"metadata": {"team": "tea"}}),
    Call("DELETE", STORE),
)
"""Calls of admins only."""


@dataclass(frozen=True)
class Keyed:
    """A gateway with a key of each role.

    Attributes:
        http: a client without a key.
        keys: the keys by role.
    """

    http: httpx.Client
    keys: dict[str, str]

    def send(self, role: str, call: Call, ids: dict[str, str]) -> httpx.Response:
        """Send a request with the key of a role; empty for none."""
        headers = {"Authorization": f"Bearer {self.keys[role]}"} if role else {}
        body = None if call.body is None else json.loads(json.dumps(call.body).replace("{file}", ids.get("file", "")))
        return self.http.request(call.method, call.path.format(**ids), json=body, headers=headers)

    def upload(self, role: str) -> httpx.Response:
        """Upload a file with the key of a role; empty for none."""
        headers = {"Authorization": f"Bearer {self.keys[role]}"} if role else {}
        file = {"file": ("tea.txt", b"Black tea is brewed for five minutes.")}
        return self.http.post("/v1/files", data={"purpose": "assistants"}, files=file, headers=headers)

    def ids(self) -> dict[str, str]:
        """A new vector store with a batch of a file, which is ingested."""
        store = self.send("admin", Call("POST", STORES, {}), {}).json()["id"]
        file = self.upload("writer").json()["id"]
        batch = self.send("writer", Call("POST", BATCHES, {"file_ids": [file]}), {"store": store}).json()["id"]
        upload = self.send("writer", Call("POST", "/v1/uploads", UPLOAD), {}).json()["id"]
        ids = {"store": store, "file": file, "batch": batch, "upload": upload}
        for _ in range(600):
            if self.send("reader", Call("GET", f"{BATCHES}/{{batch}}"), ids).json()["status"] == "completed":
                return ids
            time.sleep(0.1)
        raise TimeoutError("The file is not ingested")


@pytest.fixture(scope="module")
@starts_process
def keyed(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Keyed]:
    """A gateway with a key of each role."""
    folder = tmp_path_factory.mktemp("roles")
    keys = write_keys(folder / "keys", {role: role for role in ROLES})
    environ = {"RAGSTORE_GATEWAY_KEYS_FILE": str(folder / "keys")}
    with (
        running(start_gateway(folder, environ)) as served,
        httpx.Client(base_url=served.url, timeout=60) as http,
    ):
        yield Keyed(http, keys)


@pytest.mark.process
@pytest.mark.parametrize(
    ("calls", "allowed"),
    [(READING, ROLES), (WRITING, ROLES[1:]), (ADMINISTRATION, ROLES[2:])],
    ids=["reading", "writing", "administration"],
)
def test_a_call_needs_the_role_of_its_kind(keyed: Keyed, calls: tuple[Call, ...], allowed: tuple[str, ...]) -> None:
    for role in ("", *ROLES):
        ids = keyed.ids()
        expected = 401 if not role else 200 if role in allowed else 403
        found = {(call.method, call.path): keyed.send(role, call, ids).status_code for call in calls}
        assert found == dict.fromkeys(found, expected), role


@pytest.mark.process
def test_a_file_is_uploaded_by_writers_and_admins(keyed: Keyed) -> None:
    assert [keyed.upload(role).status_code for role in ("", *ROLES)] == [401, 403, 200, 200]


@pytest.mark.process
def test_a_rejected_key_gets_an_error_in_the_shape_of_openai(keyed: Keyed) -> None:
    error = keyed.send("reader", Call("POST", STORES, {}), {}).json()["error"]
    assert (error["code"], error["type"]) == ("forbidden", "permission_error")
    assert keyed.keys["reader"] not in error["message"]


@pytest.mark.process
def test_a_call_that_is_forbidden_changes_nothing(keyed: Keyed) -> None:
    ids = keyed.ids()
    for call in (*WRITING, *ADMINISTRATION):
        keyed.send("reader", call, ids)
    assert keyed.send("admin", Call("GET", FILE), ids).json()["attributes"] == {}
    assert keyed.send("admin", Call("GET", STORE), ids).json()["metadata"] == {}
    assert keyed.send("admin", Call("GET", "/v1/files/{file}/content"), ids).status_code == 200
