"""Services with keys, for the tests of what they let in."""

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


class Wanted(TypedDict, total=False):
    """What a key is made with."""

    role: Role
    collections: tuple[str, ...]
    tenant: str
    database: str


@dataclass(frozen=True)
class Guarded:
    """A service with keys.

    Attributes:
        served: the service.
        file: its file of keys.
        plain: the plain keys by name.
    """

    served: Served
    file: Path
    plain: dict[str, str]

    @contextmanager
    def client(self, name: str | None) -> Iterator[httpx.Client]:
        """A client that shows a key, or none."""
        headers = {} if name is None else {"Authorization": f"Bearer {self.plain[name]}"}
        limits = httpx.Limits(keepalive_expiry=2)
        with httpx.Client(base_url=self.served.url, headers=headers, timeout=30, limits=limits) as client:
            yield client

    def lines(self, event: str, request_id: str) -> list[dict[str, Any]]:
        """Lines of the log about one request."""
        told = [json.loads(line) for line in self.served.log.read_text().splitlines() if request_id in line]
        return [line for line in told if line["event"] == event]

    def audited(self, request_id: str) -> dict[str, Any]:
        """The audit line of one request, which is written after its answer."""
        lines: list[dict[str, Any]] = eventually(lambda: self.lines("audit", request_id))
        assert len(lines) == 1
        return lines[0]


@contextmanager
def guarded(folder: Path, wanted: Mapping[str, Wanted], environ: Mapping[str, str] | None = None) -> Iterator[Guarded]:
    """Start a service with keys, and stop it at the end.

    Args:
        folder: where its data, its keys and its log go.
        wanted: the keys by name.
        environ: further settings.
    """
    file = folder / "keys.jsonl"
    plain = {name: made(file, name, **key) for name, key in wanted.items()}
    with running(start_service(folder, {"RAGSTORE_KEYS_FILE": str(file), **(environ or {})})) as served:
        yield Guarded(served, file, plain)


def made(
    file: Path,
    name: str,
    role: Role = "reader",
    collections: tuple[str, ...] = (),
    tenant: str = "",
    database: str = "",
) -> str:
    """Make a key, and write it to a file."""
    scope = {
        "role": role,
        "tenant": tenant,
        "database": database,
        **({"collections": collections} if collections else {}),
    }
    plain, key = new_key(name, STORE_KEYS, **scope)
    append_key(str(file), key, STORE_KEYS)
    return plain


def eventually(look: Callable[[], Any], seconds: float = 10.0) -> Any:
    """What a look gives once it gives something."""
    deadline = time.monotonic() + seconds
    while not (seen := look()):
        assert time.monotonic() < deadline, "it did not come in time"
        time.sleep(POLL_SECONDS)
    return seen


def send(http: httpx.Client, method: str, path: str, body: Any, name: str) -> httpx.Response:
    """Send a request on a collection."""
    if isinstance(body, dict):
        body = {key: name if value == "NAME" else value for key, value in body.items()}
    if isinstance(body, list):
        return http.request(method, path.replace("NAME", name), content=lines_of(*body), headers=NDJSON_HEADERS)
    return http.request(method, path.replace("NAME", name), json=body)
