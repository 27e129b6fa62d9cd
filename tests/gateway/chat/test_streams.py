"""Streams of `rag/` models: each event is changed as it arrives."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator, Sequence
from typing import Any

import httpx
import pytest
from msgspec import Raw, structs

from ragstore.kit.time_slices import run_whole
from ragstore_gateway.chat.citations import (
    MAX_ANNOTATIONS,
    MAX_CHARACTERS,
    MAX_CHOICES,
    MAX_CITATIONS,
    ResponseCitations,
)
from ragstore_gateway.chat.completion import completed, renamed
from ragstore_gateway.chat.event_frames import MAX_EVENT_BYTES
from ragstore_gateway.chat.event_stream import EventStream
from ragstore_gateway.chat.prompt_passage import PromptPassage
from tests.gateway.chat.test_rag import KETTLE, QUESTION
from tests.support.call_counts import counted_calls
from tests.support.fake_upstream import DONE, Exchange, FakeUpstream, completion, delta, stream_of
from tests.support.hangs import ends

PASSAGES = [
    PromptPassage(id=name, text="x", url=f"https://e.example/{name}", title=name, citation=name, number=n, tokens=1)
    for n, name in ((1, "a"), (2, "b"))
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

    def __init__(
        self, passages: Sequence[PromptPassage], *, annotate: bool, debug: dict[str, object] | None, **more: bool
    ) -> None:
        self._stream = EventStream(Raw(b'"rag/m"'), passages, annotate=annotate, debug=debug, **more)

    def feed(self, chunk: bytes) -> bytes:
        return b"".join(self._stream.feed(chunk))

    def finish(self) -> bytes:
        return b"".join(self._stream.finish())

    @property
    def complete(self) -> bool:
        return self._stream.complete


def rewriter(
    passages: Sequence[PromptPassage] = PASSAGES,
    *,
    annotate: bool = True,
    debug: dict[str, object] | None = None,
    **more: bool,
) -> Rewriter:
    return Rewriter(passages, annotate=annotate, debug=debug, **more)


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
    monkeypatch.setattr("ragstore_gateway.chat.event_frames.MAX_EVENT_BYTES", 100)
    stream = rewriter()
    endless = b"data: " + b"x" * 200
    assert stream.feed(endless) == endless
    assert stream.feed(b"more\n\n") == b"more\n\n"


def test_json_over_several_lines_is_a_chunk_as_on_one_line() -> None:
    lines = delta("Yes [1].", finish="stop").replace(b', "', b',\r\ndata: "')
    assert lines.count(b"data: ") > 3
    text = rewriter().feed(lines)
    assert b'"rag/m"' in text
    assert b"url_citation" in text


@pytest.mark.parametrize("event", [b"data: Tea\ndata: is\n\n", b'data: {"a": 1,\nid: 7\ndata: "b": 2}\n\n'])
def test_several_lines_that_are_no_chunk_are_unchanged(event: bytes) -> None:
    assert rewriter().feed(event) == event


def test_an_error_of_the_upstream_is_the_last_event(http: httpx.Client, upstream: FakeUpstream) -> None:
    own = b'data: {"error": {"message": "too long", "code": 400}}\n\n'

    async def failing(exchange: Exchange) -> None:
        await exchange.begin_stream()
        await exchange.chunk(delta("Tea") + own)
        await exchange.end_stream()

    upstream.on("broken", failing)
    received = events(http, model="rag/broken")
    upstream.off("broken")
    assert received[-1] == own.decode().strip()


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
        PromptPassage(id=f"{n}", text="", title="a.md", citation=f"a.md#{n}", number=n, tokens=1) for n in range(1, 101)
    ]
    text = rewriter(passages).feed(delta("[a.md]" * 500, finish="stop"))
    assert text.count(b'"url":"a.md"') == MAX_ANNOTATIONS
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


def deltas(stream: bytes) -> list[dict[str, Any]]:
    return [data_of(event)["choices"][0]["delta"] for event in stream.decode().split("\n\n")[:-2]]


def test_a_list_of_the_cited_sources_ends_the_text_before_the_annotations() -> None:
    passages = [*PASSAGES, structs.replace(PASSAGES[0], number=3, title="c [x]", url="https://e.example/a b(c)")]
    text = rewriter(passages, list_sources=True).feed(delta("See [3] and [2][3].") + delta(None, finish="stop") + DONE)
    *_, listed, annotated, end = deltas(text)
    assert listed == {
        "content": "\n\nSources:\n- [2] [b](https://e.example/b)\n- [3] [c \\[x\\]](https://e.example/a%20b%28c%29)"
    }
    assert [each["url_citation"]["start_index"] for each in annotated["annotations"]] == [4, 12, 15]
    assert "content" not in end or not end["content"]


@pytest.mark.parametrize("text", ["No source.", "Yes [1].\n\nSources:\n- [1] https://e.example/a", "Invented [9]."])
def test_a_reply_without_citations_or_with_a_list_of_its_own_gets_none(text: str) -> None:
    stream = rewriter(list_sources=True, annotate=False).feed(delta(text) + delta(None, finish="stop") + DONE)
    assert "".join(each.get("content") or "" for each in deltas(stream)) == text
    content = json.dumps(completion(text)).encode()
    plain = run_whole(completed(content, Raw(b'"m"'), PASSAGES, annotate=False, debug=None, list_sources=True))
    assert json.loads(plain)["choices"][0]["message"]["content"] == text


def test_each_choice_of_a_plain_response_gets_a_list_of_its_own() -> None:
    body = completion("Yes [1].")
    body["choices"].append({"index": 1, "message": {"role": "assistant", "content": "No [2]."}})
    changed = run_whole(
        completed(json.dumps(body).encode(), Raw(b'"m"'), PASSAGES, annotate=False, debug=None, list_sources=True)
    )
    assert [each["message"]["content"] for each in json.loads(changed)["choices"]] == [
        "Yes [1].\n\nSources:\n- [1] [a](https://e.example/a)",
        "No [2].\n\nSources:\n- [2] [b](https://e.example/b)",
    ]


def test_the_last_delta_has_the_passages_once() -> None:
    stream = rewriter(annotate=False, show_passages=True)
    found = deltas(stream.feed(delta("Yes.") + delta(None, finish="stop") + DONE))
    assert [each["passages"] for each in found if "passages" in each] == [
        [
            {"number": 1, "title": "a", "base": "", "url": "https://e.example/a", "id": "a", "text": "x"},
            {"number": 2, "title": "b", "base": "", "url": "https://e.example/b", "id": "b", "text": "x"},
        ]
    ]


def test_a_stream_without_passages_shows_an_empty_list_of_them() -> None:
    stream = rewriter([], debug={}, show_passages=True)
    text = stream.feed(delta("Yes [1].") + delta(None, finish="stop") + DONE)
    assert b'"passages":[]' in text
    assert b"invented" not in text


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("See [2] and [1][2].", [("a", 12, 15), ("b", 4, 7), ("b", 15, 18)]),
        ("Only [3].", [("a", 0, 0), ("b", 0, 0), ("c", 5, 8)]),
        ("Only [1].", [("a", 5, 8)]),
        ("None [9].", []),
    ],
)
def test_annotations_by_number_have_no_gap_below_the_largest_cited_number(
    text: str, expected: list[tuple[str, int, int]]
) -> None:
    further = structs.replace(PASSAGES[0], id="further", title="a, page 2", is_further=True)
    passages = [*PASSAGES, further, structs.replace(PASSAGES[0], id="c", number=3, title="c")]
    stream = rewriter(passages, by_number=True).feed(delta(text) + delta(None, finish="stop") + DONE)
    content = json.dumps(completion(text)).encode()
    plain = run_whole(completed(content, Raw(b'"m"'), passages, annotate=True, debug=None, by_number=True))
    message = json.loads(plain)["choices"][0]["message"]
    streamed = [annotation for each in deltas(stream) for annotation in each.get("annotations", [])]
    assert streamed == message.get("annotations", [])
    cited = [each["url_citation"] for each in streamed]
    found = [(each["title"], each["start_index"], each["end_index"]) for each in cited]
    assert [each for each in found if each[0] != "a, page 2"] == expected
