"""Errors are raised as exceptions of their kind, and retried where that is safe."""

from __future__ import annotations

import gc
import time
from datetime import UTC, datetime, timedelta
from email.utils import format_datetime

import httpx
import httpx2
import pytest

from ragstore_client import (
    NO_RETRIES,
    AsyncClient,
    BadGateway,
    BadRequest,
    CallTimeout,
    Client,
    Conflict,
    ConnectFailed,
    ConnectionLost,
    Forbidden,
    GatewayTimeout,
    InvalidConfiguration,
    NewDocument,
    NotFound,
    PayloadTooLarge,
    ProblemError,
    RagstoreError,
    RequestTimeout,
    RetryPolicy,
    ServerError,
    TooManyRequests,
    Unauthorized,
    Unavailable,
    UnexpectedResponse,
    UnsupportedMediaType,
    describe,
)
from tests.client.clients import ClientFactory
from tests.client.corpus import CANARY_KEY, CANARY_TEXT
from tests.client.fake_servers import Response, scripted_server
from tests.client.spies import ConnectionSpy
from tests.support.servers import free_port

QUICK = RetryPolicy(attempts=3, base=0.01, cap=0.02, budget=5.0)
INFO = Response(200, {"name": "ragstore", "version": "1"})
BUSY = Response(503, {"title": "Busy", "detail": "come back"}, {"content-type": "application/problem+json"})
DOCUMENT = NewDocument(id="a", text="x", embedding=[1.0])
WRITTEN = Response(200, {"status": "upserted", "collection": "abc", "count": 1, "ids": ["a"]})


@pytest.mark.parametrize(
    ("status", "expected"),
    [
        (400, BadRequest),
        (401, Unauthorized),
        (403, Forbidden),
        (404, NotFound),
        (408, RequestTimeout),
        (409, Conflict),
        (413, PayloadTooLarge),
        (415, UnsupportedMediaType),
        (418, ProblemError),
        (429, TooManyRequests),
        (500, ServerError),
        (502, BadGateway),
        (503, Unavailable),
        (504, GatewayTimeout),
        (507, ServerError),
    ],
)
def test_each_status_has_its_exception(make_client: ClientFactory, status: int, expected: type[ProblemError]) -> None:
    problem = {
        "type": "about:blank",
        "title": "Short",
        "status": status,
        "detail": "Long",
        "code": "a_code",
        "errors": [{"path": "$.a", "message": "wrong"}],
    }
    response = Response(status, problem, {"x-request-id": "r-1", "retry-after": "7"})
    with scripted_server(response) as server, pytest.raises(expected) as caught:
        make_client(server.url, retries=NO_RETRIES).info()
    error = caught.value
    assert type(error) is expected
    assert (error.status, error.title, error.detail, str(error)) == (status, "Short", "Long", "Long")
    assert [(field.path, field.message) for field in error.errors] == [("$.a", "wrong")]
    assert (error.code, error.request_id, error.retry_after) == ("a_code", "r-1", 7.0)


@pytest.mark.parametrize("code", [None, 17, {"of": "another server"}])
def test_a_problem_without_a_string_as_code_has_none(make_client: ClientFactory, code: object) -> None:
    problem = {"title": "Short", "detail": "Long"} | ({} if code is None else {"code": code})
    with scripted_server(Response(400, problem)) as server, pytest.raises(BadRequest, match="Long") as caught:
        make_client(server.url).info()
    assert caught.value.code is None


def test_an_error_response_without_a_problem_document_is_raised(make_client: ClientFactory) -> None:
    with (
        scripted_server(Response(502, b"<html>Bad Gateway</html>")) as server,
        pytest.raises(BadGateway, match="Bad Gateway"),
    ):
        make_client(server.url, retries=NO_RETRIES).info()


@pytest.mark.parametrize("body", [b"<html>", b"{}", b'{"name": 5}', b"\xff\xfe", b""])
def test_a_response_that_does_not_match_the_contract_is_an_error(make_client: ClientFactory, body: bytes) -> None:
    with scripted_server(Response(200, body)) as server, pytest.raises(UnexpectedResponse) as caught:
        make_client(server.url).info()
    assert caught.value.status == 200


def test_unknown_fields_of_a_response_are_ignored(make_client: ClientFactory) -> None:
    with scripted_server(Response(200, {"name": "ragstore", "version": "9", "mood": "good", "links": {}})) as server:
        assert make_client(server.url).info().version == "9"


def test_an_unhealthy_service_is_a_result(make_client: ClientFactory) -> None:
    unhealthy = {"status": "unhealthy", "timestamp": "2024-05-01T10:00:00Z", "error": "Chroma is away", "details": {}}
    with scripted_server(Response(503, unhealthy)) as server:
        health = make_client(server.url).health()
    assert (health.status, health.error, health.collections_count) == ("unhealthy", "Chroma is away", None)


def test_an_overloaded_service_is_unavailable_even_to_health(make_client: ClientFactory) -> None:
    with scripted_server(BUSY) as server, pytest.raises(Unavailable):
        make_client(server.url, retries=NO_RETRIES).health()


def test_a_refused_connection_is_a_connect_failure(make_client: ClientFactory) -> None:
    with pytest.raises(ConnectFailed):
        make_client(f"http://127.0.0.1:{free_port()}", retries=NO_RETRIES).info()


def test_a_closed_connection_is_a_lost_connection(make_client: ClientFactory) -> None:
    with scripted_server(Response(drop=True)) as server, pytest.raises(ConnectionLost):
        make_client(server.url, retries=NO_RETRIES).info()


def test_a_late_response_is_a_timeout(make_client: ClientFactory) -> None:
    with scripted_server(Response(delay=1.0)) as server, pytest.raises(CallTimeout) as caught:
        make_client(server.url, timeout=0.2, retries=NO_RETRIES).info()
    assert isinstance(caught.value, TimeoutError)


def test_a_response_sent_byte_by_byte_is_a_timeout(make_client: ClientFactory) -> None:
    slow = Response(200, b" " * 100 + b"{}", drip=0.05)
    started = time.monotonic()
    with scripted_server(slow) as server, pytest.raises(CallTimeout):
        make_client(server.url, timeout=0.3, retries=NO_RETRIES).info()
    assert time.monotonic() - started < 4


def test_a_transient_error_is_retried(make_client: ClientFactory) -> None:
    with scripted_server(BUSY, Response(drop=True), INFO) as server:
        assert make_client(server.url, retries=QUICK).info().name == "ragstore"
    assert len(server.requests) == 3


def test_all_attempts_of_a_call_have_the_same_request_id(make_client: ClientFactory) -> None:
    with scripted_server(BUSY, INFO, INFO) as server:
        client = make_client(server.url, retries=QUICK)
        client.info()
        client.info()
    ids = [request.headers["x-request-id"] for request in server.requests]
    assert ids[0] == ids[1] != ids[2]


@pytest.mark.parametrize("status", [400, 401, 403, 404, 409, 413, 500])
def test_a_permanent_error_is_not_retried(make_client: ClientFactory, status: int) -> None:
    with scripted_server(Response(status)) as server, pytest.raises(ProblemError):
        make_client(server.url, retries=QUICK).info()
    assert len(server.requests) == 1


def test_the_number_of_attempts_is_limited(make_client: ClientFactory) -> None:
    with scripted_server(BUSY) as server, pytest.raises(Unavailable):
        make_client(server.url, retries=QUICK).info()
    assert len(server.requests) == 3


def test_a_long_budget_allows_any_number_of_attempts() -> None:
    policy = RetryPolicy(attempts=10_000, base=0.01, cap=0.02, budget=3600).start(idempotent=True)
    delays = [policy.next_delay(ConnectFailed("")) for _ in range(2000)]
    assert all(delay is not None and delay <= 0.02 for delay in delays)


def test_retry_after_is_honoured(make_client: ClientFactory) -> None:
    with scripted_server(Response(503, headers={"retry-after": "1"}), INFO) as server:
        started = time.monotonic()
        make_client(server.url, retries=QUICK).info()
    assert time.monotonic() - started >= 1.0


def test_a_retry_after_beyond_the_budget_ends_the_call(make_client: ClientFactory) -> None:
    later = format_datetime(datetime.now(UTC) + timedelta(hours=1), usegmt=True)
    for value in ("3600", later):
        with (
            scripted_server(Response(503, headers={"retry-after": value})) as server,
            pytest.raises(Unavailable) as caught,
        ):
            make_client(server.url, retries=QUICK).info()
        assert len(server.requests) == 1
        assert caught.value.retry_after is not None
        assert 3000 < caught.value.retry_after <= 3600


def test_upsert_query_filter_and_delete_are_retried(make_client: ClientFactory) -> None:
    with scripted_server(BUSY, WRITTEN) as server:
        make_client(server.url, retries=QUICK).upsert_documents("abc", [DOCUMENT])
    with scripted_server(BUSY, Response(200, {"results": [], "count": 0})) as server:
        make_client(server.url, retries=QUICK).query("abc", [1.0])
    with scripted_server(BUSY, Response(200, {"documents": [], "count": 0})) as server:
        make_client(server.url, retries=QUICK).list_documents("abc", where={"a": 1})
    with scripted_server(BUSY, Response(200, {"status": "deleted", "collection": "abc", "count": 1})) as server:
        make_client(server.url, retries=QUICK).delete_documents("abc", ids=["a"])


@pytest.mark.parametrize("response", [BUSY, Response(drop=True), Response(504), Response(502)])
def test_add_is_not_retried_once_it_may_have_been_applied(make_client: ClientFactory, response: Response) -> None:
    with scripted_server(response, WRITTEN) as server:
        client = make_client(server.url, retries=QUICK)
        with pytest.raises(RagstoreError):
            client.add_documents("abc", [DOCUMENT])
    assert len(server.requests) == 1


@pytest.mark.parametrize("status", [408, 429])
def test_add_is_retried_after_a_rejection_before_it_was_applied(make_client: ClientFactory, status: int) -> None:
    with scripted_server(Response(status, headers={"retry-after": "0"}), WRITTEN) as server:
        make_client(server.url, retries=QUICK).add_documents("abc", [DOCUMENT])
    assert len(server.requests) == 2


def test_add_is_retried_when_no_connection_was_made() -> None:
    policy = QUICK.start(idempotent=False)
    assert policy.next_delay(ConnectFailed("")) is not None
    assert policy.next_delay(ConnectionLost("")) is None


def test_a_delete_whose_response_was_lost_succeeds_when_the_retry_finds_nothing(make_client: ClientFactory) -> None:
    with scripted_server(Response(drop=True), Response(404)) as server:
        assert make_client(server.url, retries=QUICK).delete_collection("abc").name == "abc"
    with scripted_server(Response(404)) as server, pytest.raises(NotFound):
        make_client(server.url, retries=QUICK).delete_collection("abc")


def test_a_key_is_a_bearer_token(make_client: ClientFactory) -> None:
    with scripted_server(INFO) as server:
        make_client(server.url, api_key=CANARY_KEY).info()
    assert server.requests[0].headers["authorization"] == f"Bearer {CANARY_KEY}"


def test_user_and_password_of_a_url_become_a_header(make_client: ClientFactory) -> None:
    with scripted_server(INFO) as server:
        client = make_client(server.url.replace("http://", f"http://me:{CANARY_KEY}@"))
        client.info()
    assert server.requests[0].headers["authorization"].startswith("Basic ")


@pytest.mark.parametrize("key", ["", "with space", "with\nnewline", "schlüssel"])
def test_a_key_that_no_header_can_carry_is_rejected(make_client: ClientFactory, key: str) -> None:
    with pytest.raises(InvalidConfiguration):
        make_client("http://localhost", api_key=key)


@pytest.mark.parametrize("url", ["", "localhost:8080", "ftp://host", "http://"])
def test_an_invalid_base_url_is_rejected(make_client: ClientFactory, url: str) -> None:
    with pytest.raises(InvalidConfiguration):
        make_client(url)


def test_a_base_url_may_have_a_prefix(make_client: ClientFactory) -> None:
    with scripted_server(INFO) as server:
        make_client(server.url + "/rag/").info()
    assert server.requests[0].path == "/rag/"


def test_connections_are_reused(make_client: ClientFactory) -> None:
    server = ConnectionSpy(lambda _: INFO)
    with server:
        client = make_client(server.url)
        for _ in range(5):
            client.info()
        assert len(server.peers) == 1


async def test_an_httpx_client_that_was_given_stays_open() -> None:
    with scripted_server(INFO) as server:
        with httpx.Client() as http:
            with Client(server.url, http=http) as client:
                client.info()
            assert not http.is_closed
        async with httpx.AsyncClient() as async_http:
            async with AsyncClient(server.url, http=async_http) as async_client:
                await async_client.info()
            assert not async_http.is_closed


async def test_a_client_of_httpx2_is_accepted_and_its_errors_are_ours() -> None:
    with scripted_server(INFO, INFO, Response(delay=1)) as server, httpx2.Client() as http:
        assert Client(server.url, http=http).info().version == "1"
        async with httpx2.AsyncClient() as async_http:
            assert (await AsyncClient(server.url, http=async_http).info(timeout=5)).version == "1"
        with pytest.raises(CallTimeout):
            Client(server.url, http=http, retries=NO_RETRIES, timeout=0.2).info()
        with pytest.raises(ConnectFailed, match="connection refused"):
            Client(f"http://127.0.0.1:{free_port()}", http=http, retries=NO_RETRIES).info()


def test_a_response_is_freed_without_the_garbage_collector(make_client: ClientFactory) -> None:
    with scripted_server(INFO) as server:
        client = make_client(server.url)
        client.info()
        gc.collect()
        gc.disable()
        try:
            for _ in range(3):
                client.info()
            assert [found for found in gc.get_objects() if isinstance(found, httpx.Response | httpx.Request)] == []
        finally:
            gc.enable()


def test_a_description_for_logs_contains_no_text_of_a_server() -> None:
    assert describe(BadRequest(400, detail=CANARY_TEXT)) == "BadRequest (400)"
    assert describe(ConnectFailed(CANARY_TEXT)) == "ConnectFailed"
