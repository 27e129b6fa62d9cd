"""What every answer carries, what a web page may do, and how often a key may ask."""

from __future__ import annotations

import hashlib
import re
import socket
from base64 import b64encode
from collections.abc import Iterator
from urllib.parse import urlsplit

import httpx
import pytest

from tests.support.keyed_services import Guarded, eventually, guarded
from tests.support.problems import problem_of

ORIGIN = "https://app.example"
RATE = 20


@pytest.fixture(scope="module")
def limited(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Guarded]:
    """A service with a rate limit and one web origin."""
    with guarded(
        tmp_path_factory.mktemp("limited"),
        {"busy": {"role": "reader"}, "calm": {"role": "reader"}},
        {
            "RAGSTORE_RATE_LIMIT": str(RATE),
            "RAGSTORE_CORS_ORIGINS": f"{ORIGIN}, http://localhost:3000",
            "RAGSTORE_LOG_LEVEL": "error",
        },
    ) as started:
        yield started


# -- headers ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("method", "path", "status"),
    [
        ("GET", "/", 200),
        ("GET", "/collections", 200),
        ("GET", "/health/ready", 200),
        ("GET", "/metrics", 200),
        ("GET", "/openapi.json", 200),
        ("GET", "/collections/absent", 404),
        ("GET", "/nowhere", 404),
        ("PATCH", "/collections", 405),
        ("POST", "/collections", 400),
        ("POST", "/docs", 405),
        ("OPTIONS", "/collections", 204),
    ],
)
def test_every_answer_is_hardened(boss: httpx.Client, method: str, path: str, status: int) -> None:
    answer = boss.request(method, path)

    assert answer.status_code == status
    check_hardened(answer.headers)
    assert answer.headers["content-security-policy"] == "default-src 'none'; frame-ancestors 'none'"


def check_hardened(headers: httpx.Headers) -> None:
    """The headers that do not depend on what is answered, each once."""
    assert headers.get_list("x-content-type-options") == ["nosniff"]
    assert headers.get_list("x-frame-options") == ["DENY"]
    assert headers.get_list("referrer-policy") == ["no-referrer"]
    assert headers.get_list("cache-control") == ["no-store"]
    assert len(headers.get_list("content-security-policy")) == 1


def test_a_refusal_is_hardened(nobody: httpx.Client) -> None:
    check_hardened(nobody.get("/collections").headers)


def test_what_is_no_http_is_answered_hardened(keyed: Guarded) -> None:
    parts = urlsplit(keyed.served.url)
    with socket.create_connection((parts.hostname or "", parts.port or 0), timeout=10) as connection:
        connection.sendall(b"no http\r\n\r\n")
        answer = connection.makefile("rb").read()
    assert b"\r\nx-content-type-options: nosniff\r\n" in answer


def test_no_header_tells_what_serves(boss: httpx.Client) -> None:
    for path in ("/", "/collections", "/nowhere", "/docs"):
        headers = boss.get(path).headers
        assert not {"server", "x-powered-by", "via"} & set(headers)
        assert not any(word in str(headers).lower() for word in ("uvicorn", "litestar", "python"))


def test_the_documentation_page_may_run_what_stands_in_it_and_nothing_else(nobody: httpx.Client) -> None:
    answer = nobody.get("/docs")
    policy = dict(part.strip().split(" ", 1) for part in answer.headers["content-security-policy"].split(";"))
    check_hardened(answer.headers)

    scripts = re.findall(r"<script(?![^>]*src=)[^>]*>(.*?)</script>", answer.text, re.DOTALL)
    loaded = re.findall(r"<script[^>]*src=[\"']([^\"']+)", answer.text)
    hashes = {f"'sha256-{b64encode(hashlib.sha256(script.encode()).digest()).decode()}'" for script in scripts}
    assert scripts
    assert loaded
    assert hashes <= set(policy["script-src"].split())
    assert {"https://" + urlsplit(url).netloc for url in loaded} <= set(policy["script-src"].split())
    assert "unsafe" not in policy["script-src"]
    assert policy["default-src"] == policy["frame-ancestors"] == "'none'"
    assert policy["connect-src"] == "'self'"


# -- web pages ----------------------------------------------------------------------------------


def test_without_the_setting_no_page_may_read_an_answer(boss: httpx.Client) -> None:
    answer = boss.get("/collections", headers={"Origin": ORIGIN})
    assert not [name for name in answer.headers if name.startswith("access-control-")]


def test_without_the_setting_a_preflight_allows_nothing(boss: httpx.Client) -> None:
    headers = {"Origin": ORIGIN, "AuthMiddleware-Control-Request-Method": "POST"}
    answer = boss.options("/collections", headers=headers)
    assert not [name for name in answer.headers if name.startswith("access-control-")]


@pytest.mark.parametrize("origin", [ORIGIN, "http://localhost:3000"])
def test_a_page_of_a_named_origin_may_call_with_a_key(limited: Guarded, origin: str) -> None:
    preflight = httpx.options(
        f"{limited.served.url}/collections",
        headers={
            "Origin": origin,
            "AuthMiddleware-Control-Request-Method": "GET",
            "AuthMiddleware-Control-Request-Headers": "authorization, x-request-id",
        },
    )
    with limited.client("calm") as http:
        answer = http.get("/collections", headers={"Origin": origin})

    assert preflight.status_code == 204
    assert preflight.headers["access-control-allow-origin"] == origin
    assert answer.headers["access-control-allow-origin"] == origin
    assert "access-control-allow-credentials" not in answer.headers


@pytest.mark.parametrize("origin", ["https://evil.example", "https://app.example.evil.example", "null"])
def test_a_page_of_another_origin_may_not(limited: Guarded, origin: str) -> None:
    headers = {"Origin": origin, "AuthMiddleware-Control-Request-Method": "GET"}
    preflight = httpx.options(f"{limited.served.url}/collections", headers=headers)
    with limited.client("calm") as http:
        answer = http.get("/collections", headers={"Origin": origin})

    assert preflight.status_code == 400
    assert "access-control-allow-origin" not in answer.headers


# -- rates --------------------------------------------------------------------------------------


def test_a_key_that_asks_too_often_is_429_with_retry_after_and_others_are_not(limited: Guarded) -> None:
    with limited.client("busy") as busy, limited.client("calm") as calm:
        statuses = [busy.get("/collections").status_code for _ in range(RATE)]
        # Within the time that this takes the bucket may have got a request or two back.
        answers = [busy.get("/collections") for _ in range(5)]
        others = calm.get("/collections").status_code

    assert statuses == [200] * RATE
    assert others == 200
    assert 1 <= int(answers[-1].headers["retry-after"]) <= 60 // RATE
    problem_of(answers[-1], 429)


def test_probes_and_requests_without_a_key_spend_nothing(limited: Guarded) -> None:
    for _ in range(RATE + 5):
        assert httpx.get(f"{limited.served.url}/health/live").status_code == 200
        assert httpx.get(f"{limited.served.url}/collections").status_code == 401


def test_a_key_that_asks_too_often_is_in_the_audit_trail_at_every_log_level(limited: Guarded) -> None:
    with limited.client("busy") as busy:
        while busy.get("/collections", headers={"X-Request-ID": "last"}).status_code != 429:
            pass
    lines = eventually(lambda: limited.lines("audit", "last"))
    assert [(line["who"], line["status"]) for line in lines] == [("busy", 429)]
    assert limited.lines("request", "last") == []
