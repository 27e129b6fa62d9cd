"""What goes wrong comes as an exception that says what, and is tried again where that is safe."""

from __future__ import annotations

import socket
import time
from datetime import UTC, datetime, timedelta
from email.utils import format_datetime

import httpx
import pytest

from client.conftest import Connect
from client.corpus import CANARY_KEY, CANARY_TEXT
from client.fake_servers import Answer, LocalServer, scripted
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
    RetryPolicy,
    ServerError,
    TooManyRequests,
    Unauthorized,
    Unavailable,
    UnexpectedResponse,
    UnsupportedMediaType,
    describe,
)
from serving import free_port

QUICK = RetryPolicy(attempts=3, base=0.01, cap=0.02, budget=5.0)
INFO = Answer(200, {"name": "ragstore", "version": "1"})
BUSY = Answer(503, {"title": "Busy", "detail": "come back"}, {"content-type": "application/problem+json"})
DOCUMENT = NewDocument(id="a", text="x", embedding=[1.0])
WRITTEN = Answer(200, {"status": "upserted", "collection": "abc", "count": 1, "ids": ["a"]})


@pytest.mark.parametrize(
    ("status", "expected"),
    [
        (400, BadRequest),
        (401, Unauthorized),
        (403, Forbidden),
        (404, NotFound),
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
def test_each_status_has_its_exception(connect: Connect, status: int, expected: type[ProblemError]) -> None:
    problem = {
        "type": "about:blank",
        "title": "Short",
        "status": status,
        "detail": "Long",
        "code": "a_code",
        "errors": [{"path": "$.a", "message": "wrong"}],
    }
    answer = Answer(status, problem, {"x-request-id": "r-1", "retry-after": "7"})
    with scripted(answer) as server, pytest.raises(expected) as caught:
        connect(server.url, retries=NO_RETRIES).info()
    error = caught.value
    assert type(error) is expected
    assert (error.status, error.title, error.detail, str(error)) == (status, "Short", "Long", "Long")
    assert [(field.path, field.message) for field in error.errors] == [("$.a", "wrong")]
    assert (error.code, error.request_id, error.retry_after) == ("a_code", "r-1", 7.0)


@pytest.mark.parametrize("code", [None, 17, {"of": "another server"}])
def test_a_problem_without_a_code_of_ours_has_none(connect: Connect, code: object) -> None:
    problem = {"title": "Short", "detail": "Long"} | ({} if code is None else {"code": code})
    with scripted(Answer(400, problem)) as server, pytest.raises(BadRequest, match="Long") as caught:
        connect(server.url).info()
    assert caught.value.code is None


def test_a_refusal_that_is_no_problem_document_is_told_too(connect: Connect) -> None:
    with scripted(Answer(502, b"<html>Bad Gateway</html>")) as server, pytest.raises(BadGateway, match="Bad Gateway"):
        connect(server.url, retries=NO_RETRIES).info()


@pytest.mark.parametrize("body", [b"<html>", b"{}", b'{"name": 5}', b"\xff\xfe", b""])
def test_an_answer_that_is_none_of_the_contract_is_told(connect: Connect, body: bytes) -> None:
    with scripted(Answer(200, body)) as server, pytest.raises(UnexpectedResponse) as caught:
        connect(server.url).info()
    assert caught.value.status == 200


def test_fields_of_a_newer_service_are_passed_over(connect: Connect) -> None:
    with scripted(Answer(200, {"name": "ragstore", "version": "9", "mood": "good", "links": {}})) as server:
        assert connect(server.url).info().version == "9"


def test_an_unhealthy_service_is_an_answer(connect: Connect) -> None:
    unhealthy = {"status": "unhealthy", "timestamp": "2024-05-01T10:00:00Z", "error": "Chroma is away", "details": {}}
    with scripted(Answer(503, unhealthy)) as server:
        health = connect(server.url).health()
    assert (health.status, health.error, health.collections_count) == ("unhealthy", "Chroma is away", None)


def test_a_full_service_is_unavailable_even_to_health(connect: Connect) -> None:
    with scripted(BUSY) as server, pytest.raises(Unavailable):
        connect(server.url, retries=NO_RETRIES).health()


def test_nobody_listening_is_a_failed_connection(connect: Connect) -> None:
    with pytest.raises(ConnectFailed):
        connect(f"http://127.0.0.1:{free_port()}", retries=NO_RETRIES).info()


def test_a_broken_connection_is_told(connect: Connect) -> None:
    with scripted(Answer(drop=True)) as server, pytest.raises(ConnectionLost):
        connect(server.url, retries=NO_RETRIES).info()


def test_a_late_answer_is_a_timeout(connect: Connect) -> None:
    with scripted(Answer(delay=1.0)) as server, pytest.raises(CallTimeout) as caught:
        connect(server.url, timeout=0.2, retries=NO_RETRIES).info()
    assert isinstance(caught.value, TimeoutError)


def test_an_answer_that_comes_byte_by_byte_is_a_timeout(connect: Connect) -> None:
    slow = Answer(200, b" " * 100 + b"{}", drip=0.05)
    started = time.monotonic()
    with scripted(slow) as server, pytest.raises(CallTimeout):
        connect(server.url, timeout=0.3, retries=NO_RETRIES).info()
    assert time.monotonic() - started < 4


def test_what_may_pass_is_tried_again(connect: Connect) -> None:
    with scripted(BUSY, Answer(drop=True), INFO) as server:
        assert connect(server.url, retries=QUICK).info().name == "ragstore"
    assert len(server.requests) == 3


def test_all_tries_of_a_call_carry_one_request_id(connect: Connect) -> None:
    with scripted(BUSY, INFO, INFO) as server:
        client = connect(server.url, retries=QUICK)
        client.info()
        client.info()
    ids = [request.headers["x-request-id"] for request in server.requests]
    assert ids[0] == ids[1] != ids[2]


@pytest.mark.parametrize("status", [400, 401, 403, 404, 409, 413, 500])
def test_what_will_not_pass_is_not_tried_again(connect: Connect, status: int) -> None:
    with scripted(Answer(status)) as server, pytest.raises(ProblemError):
        connect(server.url, retries=QUICK).info()
    assert len(server.requests) == 1


def test_tries_are_counted(connect: Connect) -> None:
    with scripted(BUSY) as server, pytest.raises(Unavailable):
        connect(server.url, retries=QUICK).info()
    assert len(server.requests) == 3


def test_retry_after_is_waited_for(connect: Connect) -> None:
    with scripted(Answer(503, headers={"retry-after": "1"}), INFO) as server:
        started = time.monotonic()
        connect(server.url, retries=QUICK).info()
    assert time.monotonic() - started >= 1.0


def test_a_retry_after_beyond_the_budget_ends_it_at_once(connect: Connect) -> None:
    later = format_datetime(datetime.now(UTC) + timedelta(hours=1), usegmt=True)
    for value in ("3600", later):
        with scripted(Answer(503, headers={"retry-after": value})) as server, pytest.raises(Unavailable) as caught:
            connect(server.url, retries=QUICK).info()
        assert len(server.requests) == 1
        assert caught.value.retry_after is not None
        assert 3000 < caught.value.retry_after <= 3600


def test_upsert_query_filter_and_delete_are_repeated(connect: Connect) -> None:
    with scripted(BUSY, WRITTEN) as server:
        connect(server.url, retries=QUICK).upsert_documents("abc", [DOCUMENT])
    with scripted(BUSY, Answer(200, {"results": [], "count": 0})) as server:
        connect(server.url, retries=QUICK).query("abc", [1.0])
    with scripted(BUSY, Answer(200, {"documents": [], "count": 0})) as server:
        connect(server.url, retries=QUICK).list_documents("abc", where={"a": 1})
    with scripted(BUSY, Answer(200, {"status": "deleted", "collection": "abc", "count": 1})) as server:
        connect(server.url, retries=QUICK).delete_documents("abc", ids=["a"])


@pytest.mark.parametrize("answer", [BUSY, Answer(drop=True), Answer(504), Answer(502)])
def test_add_is_not_repeated_once_it_may_have_happened(connect: Connect, answer: Answer) -> None:
    with scripted(answer, WRITTEN) as server:
        client = connect(server.url, retries=QUICK)
        with pytest.raises(RagstoreError):
            client.add_documents("abc", [DOCUMENT])
    assert len(server.requests) == 1


def test_add_is_repeated_when_a_rate_limit_refused_it(connect: Connect) -> None:
    with scripted(Answer(429, headers={"retry-after": "0"}), WRITTEN) as server:
        connect(server.url, retries=QUICK).add_documents("abc", [DOCUMENT])
    assert len(server.requests) == 2


def test_add_is_repeated_when_nobody_listened() -> None:
    policy = QUICK.start(idempotent=False)
    assert policy.next_delay(ConnectFailed("")) is not None
    assert policy.next_delay(ConnectionLost("")) is None


def test_a_delete_whose_answer_was_lost_is_done_when_the_next_try_finds_nothing(connect: Connect) -> None:
    with scripted(Answer(drop=True), Answer(404)) as server:
        assert connect(server.url, retries=QUICK).delete_collection("abc").name == "abc"
    with scripted(Answer(404)) as server, pytest.raises(NotFound):
        connect(server.url, retries=QUICK).delete_collection("abc")


def test_a_key_is_a_bearer_token(connect: Connect) -> None:
    with scripted(INFO) as server:
        connect(server.url, api_key=CANARY_KEY).info()
    assert server.requests[0].headers["authorization"] == f"Bearer {CANARY_KEY}"


def test_user_and_password_of_a_url_become_a_header(connect: Connect) -> None:
    with scripted(INFO) as server:
        client = connect(server.url.replace("http://", f"http://me:{CANARY_KEY}@"))
        client.info()
    assert server.requests[0].headers["authorization"].startswith("Basic ")


@pytest.mark.parametrize("key", ["", "with space", "with\nnewline", "schlüssel"])
def test_a_key_that_no_header_can_hold_is_refused(connect: Connect, key: str) -> None:
    with pytest.raises(InvalidConfiguration):
        connect("http://localhost", api_key=key)


@pytest.mark.parametrize("url", ["", "localhost:8080", "ftp://host", "http://"])
def test_a_base_url_that_is_none_is_refused(connect: Connect, url: str) -> None:
    with pytest.raises(InvalidConfiguration):
        connect(url)


def test_a_base_url_may_have_a_prefix(connect: Connect) -> None:
    with scripted(INFO) as server:
        connect(server.url + "/rag/").info()
    assert server.requests[0].path == "/rag/"


def test_connections_are_reused(connect: Connect) -> None:
    server = Counting()
    with server:
        client = connect(server.url)
        for _ in range(5):
            client.info()
        assert len(server.peers) == 1


async def test_an_httpx_client_that_was_given_stays_open() -> None:
    with scripted(INFO) as server:
        with httpx.Client() as http:
            with Client(server.url, http=http) as client:
                client.info()
            assert not http.is_closed
        async with httpx.AsyncClient() as async_http:
            async with AsyncClient(server.url, http=async_http) as async_client:
                await async_client.info()
            assert not async_http.is_closed


def test_what_is_said_for_logs_repeats_no_server() -> None:
    assert describe(BadRequest(400, detail=CANARY_TEXT)) == "BadRequest (400)"
    assert describe(ConnectFailed(CANARY_TEXT)) == "ConnectFailed"


class Counting(LocalServer):
    """A local server that notes the peers of its connections."""

    def __init__(self) -> None:
        super().__init__(lambda _: INFO)
        self.peers: list[object] = []
        accept = self._server.get_request

        def noted() -> tuple[socket.socket, object]:
            connection, peer = accept()
            self.peers.append(peer)
            return connection, peer

        self._server.get_request = noted  # type: ignore[method-assign]  # to see connections, not requests
