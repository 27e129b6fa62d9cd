"""A small service on the kit behaves like any service of ours: a real process, over real sockets."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx
import pytest

from ragstore.kit.auth.keys import append_key, new_key
from tests.kit.tea_service import KEYS
from tests.support.pages import ROOT
from tests.support.process_fixtures import starts_process
from tests.support.servers import Served, free_port, inherited_environ, running, start_process

pytestmark = pytest.mark.process

IMPORTABLE = {"PYTHONPATH": os.pathsep.join([str(ROOT), os.environ.get("PYTHONPATH", "")])}
"""The small service is a module of the tests."""


@contextmanager
def tea(folder: Path, **settings: str) -> Iterator[Served]:
    """The small service on a free port."""
    port = free_port()
    variables = {
        **IMPORTABLE,
        "TEA_PORT": str(port),
        **{f"TEA_{name.upper()}": value for name, value in settings.items()},
    }
    served = start_process(
        [sys.executable, "-m", "tests.kit.tea_service"], f"http://127.0.0.1:{port}", folder / "tea.log", variables
    )
    with running(served):
        served.wait_until_ready("/health/ready")
        yield served


@pytest.fixture(scope="module")
@starts_process
def tea_service(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    """The service without keys, with small limits."""
    with tea(tmp_path_factory.mktemp("tea"), max_body_bytes="100", request_timeout_seconds="0.5") as served:
        yield served


def problem(response: httpx.Response) -> dict[str, Any]:
    assert response.headers["content-type"] == "application/problem+json"
    document: dict[str, Any] = response.json()
    assert document["status"] == response.status_code
    return document


def log_lines(served: Served) -> list[dict[str, Any]]:
    return [json.loads(line) for line in served.log.read_text().splitlines()]


def eventually(condition: Callable[[], Any]) -> Any:
    deadline = time.monotonic() + 10
    while not (found := condition()):
        assert time.monotonic() < deadline
        time.sleep(0.02)
    return found


# -- problem documents --------------------------------------------------------------------------


def test_an_error_of_its_own_is_a_problem_document_with_its_code(tea_service: Served) -> None:
    response = httpx.post(f"{tea_service.url}/pots/green/pour", json={"left": 9})
    assert problem(response) == {
        "type": "about:blank",
        "title": "Teapot empty",
        "status": 409,
        "code": "teapot_empty",
        "detail": "The pot 'green' has 2 cups",
    }


@pytest.mark.parametrize(
    ("method", "path", "body", "status", "code"),
    [
        ("GET", "/nowhere", b"", 404, "not_found"),
        ("DELETE", "/cups", b"", 405, "method_not_allowed"),
        ("POST", "/pots/green/pour", b'{"left": "many"}', 400, "invalid_request"),
        ("POST", "/pots/green/pour", b" " * 101, 413, "body_too_large"),
        ("GET", "/broken", b"", 500, "internal_error"),
    ],
)
def test_the_kit_s_errors_have_codes(
    tea_service: Served, method: str, path: str, body: bytes, status: int, code: str
) -> None:
    response = httpx.request(method, tea_service.url + path, content=body, headers={"Content-Type": "application/json"})
    assert response.status_code == status
    assert problem(response)["code"] == code


def sent_raw(service: Served, data: bytes) -> dict[str, Any]:
    with socket.create_connection(("127.0.0.1", int(service.url.rpartition(":")[2])), timeout=10) as connection:
        connection.sendall(data)
        body: dict[str, Any] = json.loads(connection.makefile("rb").read().partition(b"\r\n\r\n")[2])
        return body


def test_what_is_not_http_has_a_code(tea_service: Served) -> None:
    assert sent_raw(tea_service, b"no http\r\n\r\n")["code"] == "invalid_http"


def test_a_head_that_does_not_arrive_has_a_code(tea_service: Served) -> None:
    assert sent_raw(tea_service, b"GET /cups HTTP/1.1\r\n")["code"] == "head_timeout"


def test_a_body_that_does_not_arrive_has_a_code(tea_service: Served) -> None:
    head = b"POST /pots/green/pour HTTP/1.1\r\nHost: localhost\r\nContent-Length: 9\r\nConnection: close\r\n\r\n"
    assert sent_raw(tea_service, head)["code"] == "body_timeout"


def test_a_service_at_its_limit_rejects_requests(tmp_path: Path) -> None:
    with tea(tmp_path, max_requests="1") as served:
        with socket.create_connection(("127.0.0.1", int(served.url.rpartition(":")[2])), timeout=10) as connection:
            connection.sendall(b"POST /pots/green/pour HTTP/1.1\r\nHost: localhost\r\nContent-Length: 9\r\n\r\n")
            full = eventually(lambda: (r := httpx.get(f"{served.url}/cups")).status_code == 503 and r)
            assert httpx.get(f"{served.url}/health/ready").json() == {"status": "ready"}
        assert problem(full)["code"] == "overloaded"
        assert full.headers["retry-after"] == "1"
        assert 'tea_refusals_total{reason="requests"}' in httpx.get(f"{served.url}/metrics").text


# -- request context ----------------------------------------------------------------------------


def test_a_request_has_an_id_and_the_time_of_its_backend(tea_service: Served) -> None:
    response = httpx.get(f"{tea_service.url}/cups", headers={"X-Request-ID": "mine"})
    assert response.headers["x-request-id"] == "mine"
    assert response.headers["server-timing"].startswith("kettle;dur=0.00, total;dur=")
    assert response.headers["content-security-policy"] == "default-src 'none'; frame-ancestors 'none'"


def test_log_lines_are_json_and_hold_no_content(tea_service: Served) -> None:
    httpx.get(f"{tea_service.url}/broken", headers={"X-Request-ID": "broken"})
    httpx.post(f"{tea_service.url}/pots/green/pour", json={"left": 9}, headers={"X-Request-ID": "audited"})

    def about(request_id: str, event: str) -> dict[str, Any] | None:
        return next(
            (x for x in log_lines(tea_service) if x.get("request_id") == request_id and x["event"] == event), None
        )

    request = eventually(lambda: about("broken", "request"))
    failure = eventually(lambda: about("broken", "unhandled exception"))
    audit = eventually(lambda: about("audited", "audit"))
    assert (request["status"], request["kettle_ms"]) == (500, 0.0)
    assert failure["error"] == "RuntimeError"
    assert (audit["who"], audit["operation"], audit["pot"], audit["count"], audit["status"]) == (
        *("anonymous", "pour", "green", 9, 409),
    )
    assert "canary" not in tea_service.log.read_text()


# -- metrics ------------------------------------------------------------------------------------


def test_metrics_have_the_service_s_prefix(tea_service: Served) -> None:
    httpx.get(f"{tea_service.url}/cups")
    text = httpx.get(f"{tea_service.url}/metrics").text
    names = {line.split()[2] for line in text.splitlines() if line.startswith("# TYPE tea_")}
    assert names == {
        "tea_requests_total",
        "tea_request_duration_seconds",
        "tea_requests_in_progress",
        "tea_requests_in_progress_limit",
        "tea_refusals_total",
        "tea_log_lines_dropped_total",
    }
    assert 'tea_requests_total{method="GET",path="/cups",status_code="200"}' in text
    assert "ragstore" not in text


# -- health and shutdown ------------------------------------------------------------------------


def test_liveness_and_readiness(tea_service: Served) -> None:
    assert httpx.get(f"{tea_service.url}/health/live").json() == {"status": "alive"}
    assert httpx.get(f"{tea_service.url}/health/ready").json() == {"status": "ready"}


def test_sigterm_ends_the_service_with_success(tmp_path: Path) -> None:
    with tea(tmp_path) as served:
        served.process.send_signal(signal.SIGTERM)
        assert served.process.wait(30) == 0


def test_a_port_that_is_taken_is_a_failure(tmp_path: Path, tea_service: Served) -> None:
    second = start_process(
        [sys.executable, "-m", "tests.kit.tea_service"],
        tea_service.url,
        tmp_path / "second.log",
        {**IMPORTABLE, "TEA_PORT": tea_service.url.rpartition(":")[2]},
    )
    assert second.process.wait(30) != 0


# -- settings -----------------------------------------------------------------------------------


def run_main(environ: Mapping[str, str]) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "tests.kit.tea_service"],
        env={**inherited_environ(), **IMPORTABLE, **environ},
        capture_output=True,
        text=True,
        timeout=30,
        check=False,
    )


@pytest.mark.parametrize(
    ("name", "value", "complaint"),
    [
        ("TEA_CUPS", "0", "TEA_CUPS is wrong: Expected `int` >= 1"),
        ("TEA_CORS_ORIGINS", "*", "TEA_CORS_ORIGINS is wrong"),
        ("TEA_HOST", "0.0.0.0", "TEA_KEYS_FILE, or TEA_ALLOW_OPEN=true"),
    ],
)
def test_a_wrong_setting_prevents_the_start(name: str, value: str, complaint: str) -> None:
    ended = run_main({name: value})
    assert ended.returncode == 1
    assert complaint in ended.stderr


# -- keys ---------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
@starts_process
def keyed(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Served, dict[str, str]]]:
    """The service with the keys of a guest, of a host, and of other services."""
    folder = tmp_path_factory.mktemp("keyed")
    file = folder / "keys"
    plain: dict[str, str] = {}
    for name in ("guest", "host"):
        plain[name], key = new_key(name, KEYS, role=name)
        append_key(str(file), key, KEYS)
    lines = []
    for name, rest in (
        ("other", {"scopes": {"store": {"role": "admin", "anything": [1]}}}),
        ("old", {"role": "admin", "collections": ["repo_*"]}),
        ("both", {"scopes": {"store": {"role": "reader"}, "tea": {"role": "guest"}}}),
    ):
        plain[name], key = new_key(name, KEYS, role="guest")
        lines.append(json.dumps({"name": name, "sha256": key.sha256, **rest}))
    file.write_text(file.read_text() + "\n".join(lines) + "\n")
    with tea(folder, keys_file=str(file)) as served:
        yield served, plain


def status_of(keyed: tuple[Served, dict[str, str]], name: str, method: str, path: str) -> int:
    served, plain = keyed
    headers = {"Authorization": f"Bearer {plain[name]}"}
    body = {"left": 0} if method == "POST" else None
    return httpx.request(method, served.url + path, json=body, headers=headers).status_code


@pytest.mark.parametrize(
    ("name", "read", "write"),
    [
        ("guest", 200, 403),
        ("host", 200, 201),
        ("both", 200, 403),
        ("other", 403, 403),
        ("old", 403, 403),
    ],
)
def test_a_key_has_the_rights_of_its_scope_for_this_service(
    keyed: tuple[Served, dict[str, str]], name: str, read: int, write: int
) -> None:
    assert status_of(keyed, name, "GET", "/cups") == read
    assert status_of(keyed, name, "POST", "/pots/green/pour") == write


def test_a_request_without_a_key_is_told_the_service_s_realm(keyed: tuple[Served, dict[str, str]]) -> None:
    response = httpx.get(f"{keyed[0].url}/cups")
    assert problem(response)["code"] == "unauthorized"
    assert response.headers["www-authenticate"] == 'Bearer realm="tea"'


def test_probes_need_no_key(keyed: tuple[Served, dict[str, str]]) -> None:
    assert httpx.get(f"{keyed[0].url}/health/ready").is_success


def test_a_route_without_a_role_needs_the_highest_one(keyed: tuple[Served, dict[str, str]]) -> None:
    assert status_of(keyed, "guest", "GET", "/health") == 404
    assert status_of(keyed, "guest", "GET", "/metrics") == 200
    assert status_of(keyed, "guest", "GET", "/undeclared") == 403
    assert status_of(keyed, "host", "GET", "/undeclared") == 200
