"""The roles of the routes for sources, by requests with keys."""

from __future__ import annotations

import time
from typing import Any, TypeAlias
from uuid import uuid4

import pytest

from ragstore_gateway.sources import file_routes, routes
from tests.gateway.web.articles import TEA
from tests.gateway.web.conftest import WebGateway

pytestmark = pytest.mark.process

SECONDS = 60

Call: TypeAlias = tuple[str, str, int, dict[str, Any]]
"""Method, path, status for a key that may, and options of a request."""

FORM = {"files": [("files", ("tea.txt", b"Green tea is brewed at eighty degrees."))]}


def _ended_run(web: WebGateway, path: str) -> str:
    """Wait until the newest run of a source has ended; its id."""
    deadline = time.monotonic() + SECONDS
    while True:
        newest = web.call("GET", f"{path}/runs", "admin").json()["runs"][0]
        if newest["status"] != "running":
            return str(newest["runId"])
        assert time.monotonic() < deadline
        time.sleep(0.05)


def test_a_reader_sees_runs_and_files_and_a_writer_changes_them(web: WebGateway) -> None:
    site = {"name": "site", "web": {"startUrl": web.site.page("tea", TEA), "requestDelayMs": 0}}
    sources = [site, {"name": "files", "type": "upload"}]
    created = web.call("POST", "/ragstore/rags", "admin", json={"name": f"base {uuid4().hex}", "sources": sources})
    base = created.headers["Location"].partition("?")[0] + "/sources"
    assert web.call("POST", f"{base}/site/run", "admin").status_code == 202
    run = f"{base}/site/runs/{_ended_run(web, f'{base}/site')}"
    assert web.call("POST", f"{base}/files/files", "admin", **FORM).status_code == 200
    reading: dict[str, Call] = {
        "listSourceRuns": ("GET", f"{base}/site/runs", 200, {}),
        "getSourceRun": ("GET", run, 200, {}),
        "listSourceFiles": ("GET", f"{base}/files/files", 200, {}),
    }
    writing: dict[str, Call] = {
        "previewSource": ("POST", f"{base}/site/preview", 200, {}),
        "runSource": ("POST", f"{base}/site/run", 202, {}),
        # The run has ended.
        "cancelSourceRun": ("DELETE", run, 409, {}),
        "uploadSourceFiles": ("POST", f"{base}/files/files", 200, FORM),
        "deleteSourceFile": ("DELETE", f"{base}/files/files/tea.txt", 204, {}),
        "purgeSource": ("DELETE", f"{base}/files/documents", 204, {}),
    }
    declared = {getattr(handler, "operation_id", "") for handler in (*routes.ROUTES, *file_routes.ROUTES)}
    assert set(reading) | set(writing) == declared

    def totals() -> tuple[int, int]:
        """The numbers of runs and of files."""
        runs, files = (web.call("GET", f"{base}/{path}", "admin").json() for path in ("site/runs", "files/files"))
        return runs["total"], files["total"]

    # Rejected requests change nothing; the others begin a run, and delete the file.
    for role, after in (("", (1, 1)), ("reader", (1, 1)), ("writer", (2, 0)), ("admin", (3, 0))):
        for names, roles in ((reading, ("reader", "writer", "admin")), (writing, ("writer", "admin"))):
            for name, (method, path, status, options) in names.items():
                expected = status if role in roles else 403 if role else 401
                assert web.call(method, path, role, **options).status_code == expected, (role, name)
        _ended_run(web, f"{base}/site")
        assert totals() == after
