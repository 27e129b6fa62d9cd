"""Security headers of every response, CORS, and the rate limit of a key."""

from __future__ import annotations

import re
import socket
from collections.abc import Iterator
from urllib.parse import urljoin, urlsplit

import httpx
import pytest

from ragstore.kit.middleware.security_headers import WEB_PAGE
from tests.support.keyed_services import KeyedService, eventually, keyed_service
from tests.support.problems import problem_of

ORIGIN = "https://app.example"
RATE = 20

pytestmark = pytest.mark.process


@pytest.fixture(scope="module")
def limited(tmp_path_factory: pytest.TempPathFactory) -> Iterator[KeyedService]:
    """A service with a rate limit and one web origin."""
    with keyed_service(
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
def test_every_response_has_security_headers(admin: httpx.Client, method: str, path: str, status: int) -> None:
    response = admin.request(method, path)

    assert response.status_code == status
    assert_security_headers(response.headers)
    assert response.headers["content-security-policy"] == "default-src 'none'; frame-ancestors 'none'"


def assert_security_headers(headers: httpx.Headers) -> None:
    """Assert that each header that all responses share is there once."""
    assert headers.get_list("x-content-type-options") == ["nosniff"]
    assert headers.get_list("x-frame-options") == ["DENY"]
    assert headers.get_list("referrer-policy") == ["no-referrer"]
    assert headers.get_list("cache-control") == ["no-store"]
    assert len(headers.get_list("content-security-policy")) == 1


def test_a_401_has_security_headers(anonymous: httpx.Client) -> None:
    assert_security_headers(anonymous.get("/collections").headers)


def test_the_response_to_invalid_http_has_security_headers(keyed: KeyedService) -> None:
    parts = urlsplit(keyed.served.url)
    with socket.create_connection((parts.hostname or "", parts.port or 0), timeout=10) as connection:
        connection.sendall(b"no http\r\n\r\n")
        response = connection.makefile("rb").read()
    assert b"\r\nx-content-type-options: nosniff\r\n" in response


def test_no_header_names_the_server_software(admin: httpx.Client) -> None:
    for path in ("/", "/collections", "/nowhere", "/docs"):
        headers = admin.get(path).headers
        assert not {"server", "x-powered-by", "via"} & set(headers)
        assert not any(word in str(headers).lower() for word in ("uvicorn", "litestar", "python"))


def test_the_api_reference_has_the_policy_of_the_page(anonymous: httpx.Client) -> None:
    response = anonymous.get("/docs")
    assert_security_headers(response.headers)
    assert response.headers["content-security-policy"] == WEB_PAGE
    assert not re.findall(r"<script(?![^>]*src=)[^>]*>", response.text)


@pytest.mark.parametrize("path", ["/docs", "/docs/"])
def test_every_file_of_the_api_reference_comes_from_the_service(anonymous: httpx.Client, path: str) -> None:
    page = anonymous.get(path)
    links = re.findall(r"(?:src|href)=\"([^\"]+)\"", page.text)
    files = {urljoin(str(page.url), link) for link in links}
    assert {urlsplit(file).path.rpartition(".")[2] for file in files} == {"js", "css", "svg", "json"}
    for file in files:
        response = anonymous.get(file)
        assert response.status_code == 200
        if not file.endswith("/openapi.json"):
            assert response.headers["content-security-policy"] == WEB_PAGE
            assert response.headers["cache-control"] == "public, max-age=31536000, immutable"


@pytest.mark.parametrize("path", ["/health/live", "/health/ready", "/docs"])
def test_head_is_get_without_a_body_on_probes_and_the_page(anonymous: httpx.Client, path: str) -> None:
    response, full = anonymous.head(path), anonymous.get(path)
    assert (response.status_code, response.content) == (200, b"")
    assert response.headers["content-type"] == full.headers["content-type"]
    assert response.headers["content-length"] == full.headers["content-length"]


def test_the_openapi_document_names_no_host(anonymous: httpx.Client) -> None:
    assert anonymous.get("/openapi.json").json()["servers"] == [{"url": "/"}]


# -- web pages ----------------------------------------------------------------------------------


def test_without_the_setting_no_page_may_read_a_response(admin: httpx.Client) -> None:
    response = admin.get("/collections", headers={"Origin": ORIGIN})
    assert not [name for name in response.headers if name.startswith("access-control-")]


def test_without_the_setting_a_preflight_allows_nothing(admin: httpx.Client) -> None:
    headers = {"Origin": ORIGIN, "Access-Control-Request-Method": "POST"}
    response = admin.options("/collections", headers=headers)
    assert not [name for name in response.headers if name.startswith("access-control-")]


@pytest.mark.parametrize("origin", [ORIGIN, "http://localhost:3000"])
def test_a_page_of_an_allowed_origin_may_call_with_a_key(limited: KeyedService, origin: str) -> None:
    preflight = httpx.options(
        f"{limited.served.url}/collections",
        headers={
            "Origin": origin,
            "Access-Control-Request-Method": "GET",
            "Access-Control-Request-Headers": "authorization, x-request-id",
        },
    )
    with limited.client("calm") as http:
        response = http.get("/collections", headers={"Origin": origin})

    assert preflight.status_code == 204
    assert preflight.headers["access-control-allow-origin"] == origin
    assert response.headers["access-control-allow-origin"] == origin
    assert "access-control-allow-credentials" not in response.headers


@pytest.mark.parametrize("origin", ["https://evil.example", "https://app.example.evil.example", "null"])
def test_a_page_of_another_origin_may_not_call(limited: KeyedService, origin: str) -> None:
    headers = {"Origin": origin, "Access-Control-Request-Method": "GET"}
    preflight = httpx.options(f"{limited.served.url}/collections", headers=headers)
    with limited.client("calm") as http:
        response = http.get("/collections", headers={"Origin": origin})

    assert preflight.status_code == 400
    assert "access-control-allow-origin" not in response.headers


# -- rates --------------------------------------------------------------------------------------


def test_a_key_beyond_its_rate_limit_gets_429_with_retry_after_and_other_keys_do_not(limited: KeyedService) -> None:
    with limited.client("busy") as busy, limited.client("calm") as calm:
        statuses = [busy.get("/collections").status_code for _ in range(RATE)]
        # Meanwhile, the token bucket may have been refilled by a request or two.
        responses = [busy.get("/collections") for _ in range(5)]
        others = calm.get("/collections").status_code

    assert statuses == [200] * RATE
    assert others == 200
    assert 1 <= int(responses[-1].headers["retry-after"]) <= 60 // RATE
    problem_of(responses[-1], 429)


def test_probes_and_requests_without_a_key_do_not_count_towards_the_rate_limit(limited: KeyedService) -> None:
    for _ in range(RATE + 5):
        assert httpx.get(f"{limited.served.url}/health/live").status_code == 200
        assert httpx.get(f"{limited.served.url}/collections").status_code == 401


def test_a_key_beyond_its_rate_limit_is_audited_at_every_log_level(limited: KeyedService) -> None:
    with limited.client("busy") as busy:
        while busy.get("/collections", headers={"X-Request-ID": "last"}).status_code != 429:
            pass
    lines = eventually(lambda: limited.log_lines("audit", "last"))
    assert [(line["who"], line["status"]) for line in lines] == [("busy", 429)]
    assert limited.log_lines("request", "last") == []
