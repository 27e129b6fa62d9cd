"""A full disk: of temporary files, which nothing needs, and of the database, which is a clear error."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import httpx
import pytest

from tests.support.disks import SmallDisk, small_disk
from tests.support.gateways import start_gateway
from tests.support.servers import running

pytestmark = pytest.mark.process

SIZE = 5 * 1024 * 1024
"""Litestar's own parser would write it to a temporary file."""

SOURCE = {"name": "files", "type": "upload"}


def new_base(client: httpx.Client) -> str:
    """The path of a new base with an upload source."""
    response = client.post("/ragstore/rags", json={"name": "notes", "sources": [SOURCE]})
    assert response.status_code == 201, response.text
    return response.headers["Location"].partition("?")[0]


def forms_of(base: str) -> dict[str, dict[str, Any]]:
    """A form for each route that takes forms, by its path."""
    content = b"x" * SIZE
    return {
        "/v1/files": {"data": {"purpose": "assistants"}, "files": {"file": ("a.txt", content)}},
        f"{base}/ingest": {"files": {"file": ("b.txt", content)}},
        f"{base}/sources/files/files": {"files": {"files": ("c.txt", content)}},
    }


def failures(client: httpx.Client, reason: str) -> float:
    """The failures of the database that a gateway has counted."""
    name = f'ragstore_gateway_database_failures_total{{reason="{reason}"}} '
    lines = client.get("/metrics").text.splitlines()
    return next(float(line.removeprefix(name)) for line in lines if line.startswith(name))


def test_uploads_by_forms_need_no_room_for_temporary_files(tmp_path: Path) -> None:
    with small_disk(tmp_path) as disk:
        environ = {"TMPDIR": str(disk.path), "RAGSTORE_URL": "http://127.0.0.1:9"}
        with (
            running(start_gateway(tmp_path, environ, ready=False, prefix=disk.prefix)) as served,
            httpx.Client(base_url=served.url, timeout=60) as client,
        ):
            forms = forms_of(new_base(client))
            if isinstance(disk, SmallDisk):  # files that may not grow would be those of the database, too
                disk.fill(served)
            for path, form in forms.items():
                response = client.post(path, **form)
                assert response.is_success, response.text


def test_a_full_disk_of_the_database_is_503_with_its_reason_until_it_has_room(tmp_path: Path) -> None:
    with small_disk(tmp_path, size_mb=40) as disk:
        environ = {"RAGSTORE_GATEWAY_DATA_PATH": str(disk.path), "RAGSTORE_URL": "http://127.0.0.1:9"}
        code = "insufficient_storage" if isinstance(disk, SmallDisk) else "database_unavailable"
        with (
            running(start_gateway(tmp_path, environ, ready=False, prefix=disk.prefix)) as served,
            httpx.Client(base_url=served.url, timeout=60) as client,
        ):
            forms = forms_of(new_base(client))
            disk.fill(served)
            for path, form in forms.items():
                response = client.post(path, **form)
                problem = response.json()
                assert (response.status_code, problem.get("error", problem)["code"]) == (503, code), response.text
                assert response.headers["Retry-After"]
            reason = "full" if isinstance(disk, SmallDisk) else "unavailable"
            assert failures(client, reason) >= len(forms)
            disk.free(served)
            for path, form in forms.items():
                assert client.post(path, **form).is_success
