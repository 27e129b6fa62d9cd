"""`POST /v1/responses` for `rag/` models, by OpenAI's SDK, over an upstream that has chat completions."""

from __future__ import annotations

import json
from typing import Any

import httpx
import openai
import pytest
from langchain_openai import ChatOpenAI
from openai import OpenAI
from openai.types.responses import Response, ResponseCompletedEvent, ResponseOutputMessage, ResponseOutputText
from openai.types.responses.response_output_text import AnnotationURLCitation
from pydantic import SecretStr

from tests.gateway.chat.test_clients import calling
from tests.gateway.chat.test_faults import broken_stream, error_of
from tests.gateway.chat.test_rag import QUESTION
from tests.support.fake_upstream import DONE, Exchange, FakeUpstream, delta, replying, responding, stream_of
from tests.support.servers import Served

pytestmark = pytest.mark.process

TOOL: Any = {"type": "function", "name": "brew", "parameters": {"type": "object", "properties": {}}, "strict": False}


def text_of(response: Response) -> ResponseOutputText:
    """The only text of a response."""
    (message,) = [item for item in response.output if isinstance(item, ResponseOutputMessage)]
    (text,) = message.content
    assert isinstance(text, ResponseOutputText)
    return text


def test_a_response_of_a_rag_model_is_grounded_and_cited(sdk: OpenAI, cited: FakeUpstream) -> None:
    raw = sdk.responses.with_raw_response.create(model="rag/m", input=QUESTION)
    response = raw.parse()
    assert raw.headers["X-RAG-Sources"] == "2"
    assert response.status == "completed"
    assert response.model == "rag/m"
    assert response.output_text == "Hybrid search [1]."
    (annotation,) = text_of(response).annotations
    assert isinstance(annotation, AnnotationURLCitation)
    assert annotation.url == "https://qdrant.tech/blog/qdrant-1-9/"
    assert response.output_text[annotation.start_index : annotation.end_index] == "[1]"
    assert response.usage is not None
    assert (response.usage.input_tokens, response.usage.output_tokens, response.usage.total_tokens) == (10, 6, 16)
    assert response.store is True  # type: ignore[attr-defined]  # a field that the SDK has no name for
    sent = cited.last
    assert sent.target == "/v1/chat/completions"
    assert "Qdrant 1.9 adds hybrid search" in sent.json["messages"][-1]["content"]


def test_the_items_of_a_conversation_become_the_messages_of_a_chat(sdk: OpenAI, cited: FakeUpstream) -> None:
    items: Any = [
        {"role": "developer", "content": "Be brief."},
        {"type": "message", "role": "user", "content": [{"type": "input_text", "text": "Tea?"}]},
        {"type": "reasoning", "id": "rs_1", "summary": []},
        {
            "type": "message",
            "role": "assistant",
            "content": [{"type": "output_text", "text": "Yes.", "annotations": []}],
        },
        {"type": "function_call", "call_id": "call_1", "name": "brew", "arguments": '{"cups": 2}'},
        {"type": "function_call", "call_id": "call_2", "name": "brew", "arguments": "{}"},
        {"type": "function_call_output", "call_id": "call_1", "output": "2 cups"},
        {"type": "function_call_output", "call_id": "call_2", "output": [{"type": "input_text", "text": "1 cup"}]},
        {
            "role": "user",
            "content": [{"type": "input_text", "text": QUESTION}, {"type": "input_image", "image_url": "data:,"}],
        },
    ]
    sdk.responses.create(model="rag/m", instructions="You are a clerk.", input=items)
    messages = cited.last.json["messages"]
    function = {"name": "brew", "arguments": '{"cups": 2}'}
    expected = [
        {"role": "system", "content": "You are a clerk."},
        {"role": "developer", "content": "Be brief."},
        {"role": "user", "content": [{"type": "text", "text": "Tea?"}]},
        {
            "role": "assistant",
            "content": [{"type": "text", "text": "Yes."}],
            "tool_calls": [
                {"id": "call_1", "type": "function", "function": function},
                {"id": "call_2", "type": "function", "function": {"name": "brew", "arguments": "{}"}},
            ],
        },
        {"role": "tool", "tool_call_id": "call_1", "content": "2 cups"},
        {"role": "tool", "tool_call_id": "call_2", "content": [{"type": "text", "text": "1 cup"}]},
    ]
    # The first message is the gateway's own, and the last one has the passages.
    assert messages[1:-1] == expected
    assert QUESTION in messages[-1]["content"][0]["text"]
    assert messages[-1]["content"][1] == {"type": "image_url", "image_url": {"url": "data:,"}}


def test_options_become_options_of_a_chat(sdk: OpenAI, cited: FakeUpstream) -> None:
    schema: dict[str, object] = {"type": "object", "properties": {"a": {"type": "string"}}}
    text: Any = {"format": {"type": "json_schema", "name": "a", "schema": schema, "strict": True}}
    choice: Any = {"type": "function", "name": "brew"}
    response = sdk.responses.create(
        model="rag/m",
        input=QUESTION,
        max_output_tokens=50,
        temperature=0.5,
        top_p=0.9,
        tools=[TOOL],
        tool_choice=choice,
        parallel_tool_calls=False,
        reasoning={"effort": "low"},
        text=text,
        metadata={"a": "b"},
    )
    sent = cited.last.json
    assert sent["max_completion_tokens"] == 50
    assert (sent["temperature"], sent["top_p"], sent["parallel_tool_calls"]) == (0.5, 0.9, False)
    assert sent["tool_choice"] == {"type": "function", "function": {"name": "brew"}}
    assert sent["tools"] == [
        {"type": "function", "function": {"name": "brew", "parameters": TOOL["parameters"], "strict": False}}
    ]
    assert sent["reasoning_effort"] == "low"
    assert sent["response_format"] == {
        "type": "json_schema",
        "json_schema": {"name": "a", "schema": schema, "strict": True},
    }
    assert response.metadata == {"a": "b"}
    assert response.tools[0].type == "function"
    assert response.temperature == 0.5


def test_a_call_of_a_function_is_an_item(sdk: OpenAI, upstream: FakeUpstream) -> None:
    upstream.on("tools", responding(json.dumps(calling("tools")).encode()))
    try:
        response = sdk.responses.create(model="rag/tools", input=QUESTION, tools=[TOOL])
    finally:
        upstream.off("tools")
    (item,) = response.output
    assert item.type == "function_call"
    assert (item.call_id, item.name, item.arguments) == ("call_1", "brew", '{"cups": 2}')


def test_a_stream_has_the_events_of_openais_api_in_their_order(sdk: OpenAI, upstream: FakeUpstream) -> None:
    upstream.on("m", stream_of("Hybrid", " search", " [1]."))
    try:
        with sdk.responses.stream(model="rag/m", input=QUESTION) as stream:
            events = list(stream)
            final = stream.get_final_response()
    finally:
        upstream.off("m")
    kinds = [event.type for event in events]
    assert kinds == [
        "response.created",
        "response.in_progress",
        "response.output_item.added",
        "response.content_part.added",
        "response.output_text.delta",
        "response.output_text.delta",
        "response.output_text.delta",
        "response.output_text.annotation.added",
        "response.output_text.done",
        "response.content_part.done",
        "response.output_item.done",
        "response.completed",
    ]
    assert [event.sequence_number for event in events] == list(range(len(events)))
    assert final.output_text == "Hybrid search [1]."
    (annotation,) = text_of(final).annotations
    assert isinstance(annotation, AnnotationURLCitation)
    assert annotation.title
    assert upstream.last.json["stream_options"] == {"include_usage": True}


def test_a_call_of_a_function_is_streamed(sdk: OpenAI, upstream: FakeUpstream) -> None:
    async def calls(exchange: Exchange) -> None:
        parts = [
            {"index": 0, "id": "call_1", "type": "function", "function": {"name": "brew", "arguments": ""}},
            {"index": 0, "function": {"arguments": '{"cups"'}},
            {"index": 0, "function": {"arguments": ": 2}"}},
            {"index": 1, "id": "call_2", "type": "function", "function": {"name": "brew", "arguments": "{}"}},
        ]
        await exchange.begin_stream()
        for part in parts:
            body = {"choices": [{"index": 0, "delta": {"tool_calls": [part]}, "finish_reason": None}]}
            await exchange.chunk(b"data: " + json.dumps(body).encode() + b"\n\n")
        await exchange.chunk(delta(None, "m", "tool_calls"))
        usage = {"choices": [], "usage": {"prompt_tokens": 3, "completion_tokens": 4, "total_tokens": 7}}
        await exchange.chunk(b"data: " + json.dumps(usage).encode() + b"\n\n")
        await exchange.chunk(DONE)
        await exchange.end_stream()

    upstream.on("m", calls)
    try:
        with sdk.responses.stream(model="rag/m", input=QUESTION, tools=[TOOL]) as stream:
            kinds = [event.type for event in stream]
            final = stream.get_final_response()
    finally:
        upstream.off("m")
    assert [(item.type, getattr(item, "call_id", ""), getattr(item, "arguments", "")) for item in final.output] == [
        ("function_call", "call_1", '{"cups": 2}'),
        ("function_call", "call_2", "{}"),
    ]
    assert kinds.count("response.function_call_arguments.done") == 2
    assert final.usage is not None
    assert final.usage.total_tokens == 7


def test_a_reply_that_was_cut_is_incomplete(sdk: OpenAI, upstream: FakeUpstream) -> None:
    body: dict[str, Any] = {"choices": [{"index": 0, "message": {"content": "Tea"}, "finish_reason": "length"}]}
    upstream.on("m", responding(json.dumps(body).encode()))
    try:
        response = sdk.responses.create(model="rag/m", input=QUESTION)
    finally:
        upstream.off("m")
    assert response.status == "incomplete"
    assert response.incomplete_details is not None
    assert response.incomplete_details.reason == "max_output_tokens"


def test_a_stream_that_breaks_ends_with_an_error(sdk: OpenAI, upstream: FakeUpstream) -> None:
    upstream.on("m", broken_stream)
    try:
        with pytest.raises(openai.APIError, match="broke off"):
            list(sdk.responses.create(model="rag/m", input=QUESTION, stream=True))
    finally:
        upstream.off("m")


def test_a_chunk_whose_first_field_is_an_error_of_null_is_part_of_the_reply(
    sdk: OpenAI, upstream: FakeUpstream
) -> None:
    async def behave(exchange: Exchange) -> None:
        await exchange.begin_stream()
        for event in (delta("Tea"), delta(None, finish="stop")):
            await exchange.chunk(event.replace(b"data: {", b'data: {"error": null, '))
        await exchange.chunk(DONE)
        await exchange.end_stream()

    upstream.on("m", behave)
    try:
        events = list(sdk.responses.create(model="rag/m", input=QUESTION, stream=True))
    finally:
        upstream.off("m")
    assert isinstance(events[-1], ResponseCompletedEvent)
    assert events[-1].response.output_text == "Tea"


def test_an_error_of_the_upstream_is_the_error_of_the_response(sdk: OpenAI, upstream: FakeUpstream) -> None:
    upstream.on("m", responding(b'{"error":{"message":"slow down"}}', "429 Too Many", "Retry-After: 7"))
    try:
        with pytest.raises(openai.RateLimitError, match="slow down"):
            sdk.responses.create(model="rag/m", input=QUESTION)
    finally:
        upstream.off("m")


@pytest.mark.parametrize(
    ("fields", "param"),
    [
        ({"previous_response_id": "resp_1"}, "previous_response_id"),
        ({"conversation": "conv_1"}, "conversation"),
        ({"background": True}, "background"),
        ({"tools": [{"type": "web_search"}]}, "tools[0].type"),
        ({"tool_choice": {"type": "mcp"}, "tools": [TOOL]}, "tool_choice"),
        ({"input": [{"type": "item_reference", "id": "msg_1"}]}, "input[0]"),
        ({"input": [{"role": "user", "content": [{"type": "input_audio"}]}]}, "input[0].content[0]"),
        ({"input": 5}, "input"),
    ],
)
def test_what_the_gateway_does_not_serve_is_400_and_is_not_passed_on(
    http: httpx.Client, upstream: FakeUpstream, fields: dict[str, Any], param: str
) -> None:
    before = len(upstream.requests)
    error = error_of(http.post("/v1/responses", json={"model": "rag/m", "input": QUESTION, **fields}), 400)
    assert error["param"] == param
    assert len(upstream.requests) == before


def test_an_upstream_with_both_apis_serves_its_models_by_one_and_rag_models_by_the_other(
    http: httpx.Client, upstream: FakeUpstream
) -> None:
    own = b'{"id": "resp_1",  "object": "response", "output": []}'

    async def behave(exchange: Exchange) -> None:
        has_responses = exchange.request.target == "/v1/responses"
        await (responding(own) if has_responses else replying("Hybrid search [1]."))(exchange)

    upstream.on("m", behave)
    body = b'{"model": "m", "input":  "Tea?", "previous_response_id": "resp_0", "tools": [{"type": "web_search"}]}'
    try:
        passed = http.post("/v1/responses", content=body, headers={"Content-Type": "application/json"})
        assert (upstream.last.target, upstream.last.body) == ("/v1/responses", body)
        grounded = http.post("/v1/responses", json={"model": "rag/m", "input": QUESTION}).json()
        assert upstream.last.target == "/v1/chat/completions"
    finally:
        upstream.off("m")
    assert passed.content == own
    assert grounded["output"][0]["content"][0]["annotations"][0]["type"] == "url_citation"


def test_langchain_gets_a_grounded_response(chat_gateway: Served, cited: FakeUpstream) -> None:
    model = ChatOpenAI(
        model="rag/m", base_url=chat_gateway.url + "/v1", api_key=SecretStr("unused"), use_responses_api=True
    )
    message = model.invoke(QUESTION)
    assert message.text == "Hybrid search [1]."
    (block,) = [each for each in message.content if isinstance(each, dict) and each["type"] == "text"]
    assert block["annotations"][0]["type"] == "url_citation"
    assert "Qdrant 1.9 adds hybrid search" in cited.last.json["messages"][-1]["content"]
