"""Services with keys, and clients that use these keys."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, TypedDict

import httpx

from ragstore.kit.auth.keys import append_key, new_key
from ragstore.store.key_scope import STORE_KEYS, Role
from tests.support.documents import NDJSON_HEADERS, lines_of
from tests.support.servers import Served, running, start_service

POLL_SECONDS: Final = 0.02


class KeySpec(TypedDict, total=False):
    """The properties of a key to create."""

    role: Role
    collections: tuple[str, ...]
    tenant: str
    database: str
    max_collections: int


@dataclass(frozen=True)
class KeyedService:
    """A service with keys.

    Attributes:
        served: the service.
        keys_file: its file of keys.
        keys: the plain keys by name.
    """

    served: Served
    keys_file: Path
    keys: dict[str, str]

    @contextmanager
    def client(self, name: str | None) -> Iterator[httpx.Client]:
        """A client that sends a key, or none."""
        headers = {} if name is None else {"Authorization": f"Bearer {self.keys[name]}"}
        limits = httpx.Limits(keepalive_expiry=2)
        with httpx.Client(base_url=self.served.url, headers=headers, timeout=30, limits=limits) as client:
            yield client

    def log_lines(self, event: str, request_id: str) -> list[dict[str, Any]]:
        """The log lines of one request."""
        lines = [json.loads(line) for line in self.served.log.read_text().splitlines() if request_id in line]
        return [line for line in lines if line["event"] == event]

    def audit_line(self, request_id: str) -> dict[str, Any]:
        """The audit line of one request, which is written after the response."""
        lines: list[dict[str, Any]] = eventually(lambda: self.log_lines("audit", request_id))
        assert len(lines) == 1
        return lines[0]


@contextmanager
def keyed_service(
    folder: Path, specs: Mapping[str, KeySpec], environ: Mapping[str, str] | None = None
) -> Iterator[KeyedService]:
    """Start a service with keys, and stop it at the end.

    Args:
        folder: for its data, its keys and its log.
        specs: the keys by name.
        environ: further settings.
    """
    file = folder / "keys.jsonl"
    keys = {name: create_key(file, name, **spec) for name, spec in specs.items()}
    with running(start_service(folder, {"RAGSTORE_KEYS_FILE": str(file), **(environ or {})})) as served:
        yield KeyedService(served, file, keys)


def create_key(
    file: Path,
    name: str,
    role: Role = "reader",
    collections: tuple[str, ...] = (),
    tenant: str = "",
    database: str = "",
    max_collections: int | None = None,
) -> str:
    """Create a key and append it to a file; return the plain key."""
    scope = {
        "role": role,
        "tenant": tenant,
        "database": database,
        "max_collections": max_collections,
        **({"collections": collections} if collections else {}),
    }
    plain, key = new_key(name, STORE_KEYS, **scope)
    append_key(str(file), key, STORE_KEYS)
    return plain


def eventually(read: Callable[[], Any], seconds: float = 10.0) -> Any:
    """Call a function until its result is true, and return that result."""
    deadline = time.monotonic() + seconds
    while not (result := read()):
        assert time.monotonic() < deadline, f"no result within {seconds} s"
        time.sleep(POLL_SECONDS)
    return result


def send(http: httpx.Client, method: str, path: str, body: Any, name: str) -> httpx.Response:
    """Send a request; `NAME` in the path and the body is replaced by the collection's name."""
    if isinstance(body, dict):
        body = {key: name if value == "NAME" else value for key, value in body.items()}
    if isinstance(body, list):
        return http.request(method, path.replace("NAME", name), content=lines_of(*body), headers=NDJSON_HEADERS)
    return http.request(method, path.replace("NAME", name), json=body)
