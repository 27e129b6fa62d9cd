"""Streams of `rag/` models: each event is changed as it arrives."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator, Sequence
from typing import Any

import httpx
import pytest
from msgspec import Raw

from ragstore.kit.time_slices import run_whole
from ragstore_client.context import ContextPassage
from ragstore_gateway.chat.citations import (
    MAX_ANNOTATIONS,
    MAX_CHARACTERS,
    MAX_CHOICES,
    MAX_CITATIONS,
    ResponseCitations,
)
from ragstore_gateway.chat.completion import completed, renamed
from ragstore_gateway.chat.event_stream import MAX_EVENT_BYTES, EventStream
from tests.gateway.chat.test_rag import KETTLE, QUESTION
from tests.support.call_counts import counted_calls
from tests.support.fake_upstream import DONE, Exchange, FakeUpstream, completion, delta, stream_of
from tests.support.hangs import ends

PASSAGES = [
    ContextPassage(id="a", text="x", metadata={"url": "https://e.example/a"}, citation="a", number=1, tokens=1),
    ContextPassage(id="b", text="y", metadata={"url": "https://e.example/b"}, citation="b", number=2, tokens=1),
]


def events(http: httpx.Client, question: str = QUESTION, model: str = "rag/m") -> list[str]:
    body = {"model": model, "stream": True, "messages": [{"role": "user", "content": question}]}
    response = http.post("/v1/chat/completions", json=body)
    assert response.status_code == 200
    return response.text.split("\n\n")[:-1]


def data_of(event: str) -> Any:
    return json.loads(event.removeprefix("data: "))


class Rewriter:
    """An `EventStream` that does its work in one step."""

    def __init__(self, passages: Sequence[ContextPassage], *, annotate: bool, debug: dict[str, object] | None) -> None:
        self._stream = EventStream(Raw(b'"rag/m"'), passages, annotate=annotate, debug=debug)

    def feed(self, chunk: bytes) -> bytes:
        return b"".join(self._stream.feed(chunk))

    def finish(self) -> bytes:
        return b"".join(self._stream.finish())

    @property
    def complete(self) -> bool:
        return self._stream.complete


def rewriter(
    passages: Sequence[ContextPassage] = PASSAGES, *, annotate: bool = True, debug: dict[str, object] | None = None
) -> Rewriter:
    return Rewriter(passages, annotate=annotate, debug=debug)


def test_every_chunk_carries_the_requested_model(http: httpx.Client) -> None:
    received = events(http, model="rag/phi3-en")
    assert received[-1] == "data: [DONE]"
    assert {data_of(event)["model"] for event in received[:-1]} == {"rag/phi3-en"}


def test_the_last_delta_has_the_annotations_of_the_answer(http: httpx.Client) -> None:
    received = [data_of(event) for event in events(http)[:-1]]
    text = "".join(chunk["choices"][0]["delta"].get("content", "") for chunk in received)
    annotated = received[-2]["choices"][0]
    citation = annotated["delta"]["annotations"][0]["url_citation"]
    assert text == "Tea is a drink [1]."
    assert text[citation["start_index"] : citation["end_index"]] == "[1]"
    assert citation["url"] == "https://qdrant.tech/blog/qdrant-1-9/"
    assert annotated["finish_reason"] is None
    assert received[-2]["id"] == "chatcmpl-1"
    assert received[-1]["choices"][0]["finish_reason"] == "stop"


def test_without_annotations_the_stream_has_the_upstreams_chunks_only(fresh: httpx.Client) -> None:
    assert len(events(fresh)) == 8


def test_with_debug_the_first_line_of_a_stream_is_a_comment(manual: httpx.Client, upstream: FakeUpstream) -> None:
    upstream.on("m", stream_of("Three", " years [1]", " or so [8]."))
    received = events(manual, KETTLE)
    upstream.off("m")
    details = json.loads(received[0].removeprefix(": RAG_DEBUG "))
    assert details["used"] is True
    assert "warranty-1" in {chunk["id"] for chunk in details["chunks"]}
    assert "three years" not in received[0]
    assert json.loads(received[-2].removeprefix(": RAG_DEBUG ")) == {"invented": ["8"]}
    assert received[-1] == "data: [DONE]"


def test_each_event_is_sent_immediately(http: httpx.Client, upstream: FakeUpstream) -> None:
    texts = ["Tea", " is [", "1", "] good"]
    received = [threading.Event() for _ in texts]

    async def behave(exchange: Exchange) -> None:
        await exchange.begin_stream()
        for text, event in zip(texts, received, strict=True):
            await exchange.chunk(delta(text))
            await exchange.until(event)
        await exchange.chunk(delta(None, finish="stop") + DONE)
        await exchange.end_stream()

    upstream.on("m", behave)
    body = {"model": "rag/m", "stream": True, "messages": [{"role": "user", "content": QUESTION}]}
    with http.stream("POST", "/v1/chat/completions", json=body) as response:
        chunks = response.iter_raw()
        for text, event in zip(texts, received, strict=True):
            assert next(chunks) == delta(text, "rag/m")
            event.set()
        rest = b"".join(chunks)
    upstream.off("m")
    assert rest.endswith(DONE)
    assert b"url_citation" in rest


def test_bytes_of_an_event_other_than_the_models_name_are_kept() -> None:
    event = b'id: 7\r\ndata:{ "x" : 1.50 , "model": "m" ,"choices":[{"model":"inner","delta":{}}]}\r\n\r\n'
    assert rewriter().feed(event) == event.replace(b'"m"', b'"rag/m"')


@pytest.mark.parametrize("size", [1, 2, 3, 7, 50])
@pytest.mark.parametrize("end", [b"\n\n", b"\r\n\r\n"])
def test_the_result_does_not_depend_on_where_the_chunks_end(size: int, end: bytes) -> None:
    plain = b"".join([delta("See [1"), delta("] and \u00e5 [2]."), delta(None, finish="stop"), b": note\n\n", DONE])
    stream = plain.replace(b"\n\n", end)
    whole = rewriter()
    pieces = rewriter()
    expected = whole.feed(stream) + whole.finish()
    got = b"".join(pieces.feed(stream[at : at + size]) for at in range(0, len(stream), size)) + pieces.finish()
    assert got == expected
    assert got.count(b"url_citation") == 4  # type and field, twice
    assert got.endswith(b"data: [DONE]" + end)


def test_two_choices_have_annotations_of_their_own() -> None:
    def choice(index: int, content: str | None, finish: str | None = None) -> bytes:
        body = {"model": "m", "choices": [{"index": index, "delta": {"content": content}, "finish_reason": finish}]}
        return b"data: " + json.dumps(body).encode() + b"\n\n"

    stream = rewriter()
    text = stream.feed(choice(0, "a [1]") + choice(1, "b [2]") + choice(0, None, "stop") + choice(1, None, "stop"))
    chunks = [data_of(event) for event in text.decode().split("\n\n")[:-1]]
    found = {
        chunk["choices"][0]["index"]: chunk["choices"][0]["delta"]["annotations"][0]["url_citation"]["url"]
        for chunk in chunks
        if "annotations" in chunk["choices"][0]["delta"]
    }
    assert found == {0: "https://e.example/a", 1: "https://e.example/b"}


def test_annotations_follow_a_last_chunk_that_has_text() -> None:
    text = rewriter().feed(delta("Yes [1].", finish="stop")).decode()
    assert text.index("Yes") < text.index("url_citation")


def test_a_stream_without_a_reason_to_end_has_its_annotations_before_the_end() -> None:
    stream = rewriter()
    text = stream.feed(delta("Yes [1].") + DONE)
    assert text.index(b"url_citation") < text.index(b"[DONE]")
    assert stream.complete


def test_events_that_are_not_chunks_are_unchanged() -> None:
    stream = (
        b'event: ping\n\ndata: nonsense\n\ndata: {"error": {"message": "x"}}\n\ndata: [1]\n\ndata: {"choices": 3}\n\n'
    )
    assert rewriter(annotate=False).feed(stream).replace(b',"model":"rag/m"', b"") == stream.replace(b": 3", b":3")


def test_an_event_without_end_is_not_held_for_ever(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("ragstore_gateway.chat.event_stream.MAX_EVENT_BYTES", 100)
    stream = rewriter()
    endless = b"data: " + b"x" * 200
    assert stream.feed(endless) == endless
    assert stream.feed(b"more\n\n") == b"more\n\n"


def test_a_model_named_in_a_text_is_not_renamed() -> None:
    event = delta('He wrote "model":"m" and {"model": "m"}.')
    assert rewriter(annotate=False).feed(event) == event.replace(
        b'"model": "m", "choices"', b'"model": "rag/m", "choices"'
    )


def test_a_model_name_of_any_length_is_replaced() -> None:
    with ends():
        for letter in "abc":
            chunk = b'{"model": "' + letter.encode() + b"(" * 4_000_000 + b'", "choices": []}'
            assert renamed(chunk, Raw(b'"rag/m"')) == b'{"model": "rag/m", "choices": []}'


def test_a_response_has_a_maximum_of_recorded_citations() -> None:
    found = ResponseCitations(PASSAGES)
    with ends():
        run_whole(found.feed(0, "[1-100]" * 1_000_000))
        run_whole(found.feed(0, "x" * MAX_CHARACTERS))
        run_whole(found.feed(1, "[1]"))
    assert [len(found.end(index)) for index in (0, 1)] == [MAX_CITATIONS, 0]
    found = ResponseCitations(PASSAGES)
    run_whole(found.feed(0, "x" * MAX_CHARACTERS + "[1]"))
    assert found.end(0) == []
    found = ResponseCitations(PASSAGES)
    for index in range(MAX_CHOICES + 1):
        run_whole(found.feed(index, "[1]"))
    assert found.open == list(range(MAX_CHOICES))


def most_calls(steps: Iterator[bytes | None]) -> int:
    """Maximum number of calls of one step of a computation."""
    most = 0
    while True:
        with counted_calls() as calls:
            ended = next(steps, steps) is steps
        most = max(most, calls.count)
        if ended:
            return most


@pytest.mark.parametrize(
    "text",
    ["[" * 250_000, "\n" * 250_000, "[a1]" * 3_000, "[a#1-99]" * 1_500, "a\n" * 6_000, "[a#0-#0-#0-#0-#0-#99]"],
)
def test_the_steps_of_a_large_response_are_bounded(text: str) -> None:
    """Other requests run between two steps. The whole took 0.2 to 10 s, and the last text took hours."""
    stream = EventStream(Raw(b'"rag/m"'), PASSAGES, annotate=True, debug=None)
    assert most_calls(stream.feed(delta(text, finish="stop"))) < 10_000
    content = json.dumps(completion(text)).encode()
    assert most_calls(completed(content, Raw(b'"rag/m"'), PASSAGES, annotate=True, debug=None)) < 10_000


@pytest.mark.parametrize(
    "chunk",
    [b"\n" * 20_000, b"data: {}\n\n" * 2_000, b"data:\n" * 20_000 + b"\n", b"data: " + b" " * 1_000_000 + b"\n\n"],
)
def test_the_steps_of_a_large_chunk_are_bounded(chunk: bytes) -> None:
    stream = EventStream(Raw(b'"rag/m"'), PASSAGES, annotate=True, debug=None)
    assert most_calls(stream.feed(chunk)) < 1_000
    assert rewriter().feed(chunk) == chunk


def test_a_file_that_is_cited_often_has_a_maximum_of_annotations() -> None:
    passages = [
        ContextPassage(id=f"{n}", text="", metadata={"url": "u" * 100_000}, citation=f"a.md#{n}", number=n, tokens=1)
        for n in range(1, 101)
    ]
    text = rewriter(passages).feed(delta("[a.md]" * 500, finish="stop"))
    assert text.count(b'"url":"a.md#') == MAX_ANNOTATIONS
    assert len(text) < 500_000


@pytest.mark.parametrize(
    "fields",
    [
        b'"\xff":1,"choices":[]',
        b'"model":"m","\xff":1,"choices":[{"index":0,"delta":{"content":"[1]"},"finish_reason":"stop"}]',
        b'"model":"m","choices":[{"index":99999999999999999999,"delta":{"content":"[1]"},"finish_reason":"stop"}]',
        b'"model":"m","choices":[{"index":-1,"delta":{"content":"[1]"},"finish_reason":"stop"}]',
        b'"model":"m","choices":[{"index":1.5,"message":{"content":"[1]","annotations":{"\xff":1}}}]',
        b'"model":"m","\xff":1,"choices":[{"message":{"content":"[1]","annotations":[1,2}}]',
    ],
)
def test_an_event_that_is_not_what_it_should_be_does_not_end_the_stream(fields: bytes) -> None:
    stream = rewriter(debug={})
    event = b"data: {" + fields + b"}\n\n"
    assert stream.feed(event + DONE).replace(b'"rag/m"', b'"m"') == event + DONE
    run_whole(completed(b"{" + fields + b"}", Raw(b'"rag/m"'), PASSAGES, annotate=True, debug={}))


def test_the_end_of_a_stream_with_a_huge_event_is_no_error() -> None:
    stream = rewriter()
    stream.feed(b"data: " + b"x" * (MAX_EVENT_BYTES + 1))
    stream.feed(b"\n\ndata: [DONE]\n\n")
    assert stream.complete


def test_an_incomplete_last_event_is_not_joined_with_the_error(http: httpx.Client, upstream: FakeUpstream) -> None:
    async def cut(exchange: Exchange) -> None:
        await exchange.begin_stream()
        await exchange.chunk(delta("Tea") + b'data: {"cut')
        await exchange.end_stream()

    upstream.on("broken", cut)
    received = events(http, model="rag/broken")
    upstream.off("broken")
    assert received[-2] == 'data: {"cut'
    assert received[-1].startswith("event: error\n")
