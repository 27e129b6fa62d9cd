"""Clients that others wrote: OpenAI's SDK for Python, and LangChain's ChatOpenAI."""

from __future__ import annotations

import asyncio
import json

import httpx
import openai
import pytest
from langchain_core.messages import HumanMessage
from langchain_core.tools import tool
from langchain_openai import ChatOpenAI
from openai import AsyncOpenAI, OpenAI
from openai.types.chat import ChatCompletionMessageParam, ChatCompletionToolParam
from pydantic import SecretStr

from tests.gateway.chat.test_faults import broken_stream
from tests.gateway.chat.test_rag import QUESTION
from tests.support.fake_upstream import (
    MODELS,
    Exchange,
    FakeUpstream,
    completion,
    hang,
    replying,
    responding,
)
from tests.support.servers import Served

pytestmark = pytest.mark.process

MESSAGES: list[ChatCompletionMessageParam] = [{"role": "user", "content": QUESTION}]
TOOLS: list[ChatCompletionToolParam] = [
    {"type": "function", "function": {"name": "brew", "parameters": {"type": "object", "properties": {}}}}
]
CALL = {"id": "call_1", "type": "function", "function": {"name": "brew", "arguments": '{"cups": 2}'}}


def calling(name: str) -> dict[str, object]:
    """A completion that calls a tool."""
    body = completion("", name)
    body["choices"][0] = {
        "index": 0,
        "message": {"role": "assistant", "content": None, "tool_calls": [CALL]},
        "finish_reason": "tool_calls",
    }
    return body


@pytest.mark.parametrize("model", ["m", "rag/m"])
def test_the_sdk_chats(sdk: OpenAI, upstream: FakeUpstream, model: str) -> None:
    upstream.on("m", replying("Hybrid search [1]."))
    found = sdk.chat.completions.create(model=model, messages=MESSAGES)
    upstream.off("m")
    assert found.model == model
    assert found.choices[0].message.content == "Hybrid search [1]."
    annotations = found.choices[0].message.annotations or []
    assert [annotation.url_citation.url for annotation in annotations] == (
        ["https://qdrant.tech/blog/qdrant-1-9/"] if model == "rag/m" else []
    )


@pytest.mark.parametrize("model", ["m", "rag/m"])
def test_the_sdk_streams(sdk: OpenAI, model: str) -> None:
    chunks = list(sdk.chat.completions.create(model=model, messages=MESSAGES, stream=True))
    assert "".join(chunk.choices[0].delta.content or "" for chunk in chunks) == "Tea is a drink [1]."
    assert {chunk.model for chunk in chunks} == {model}


def test_the_sdk_accumulates_a_stream_with_annotations_and_a_debug_line(manual_gateway: Served) -> None:
    with (
        OpenAI(base_url=manual_gateway.url + "/v1", api_key="x") as client,
        client.chat.completions.stream(model="rag/m", messages=MESSAGES) as stream,
    ):
        final = stream.get_final_completion()
    message = final.choices[0].message
    assert message.content == "Tea is a drink [1]."
    assert message.annotations is not None
    assert final.choices[0].finish_reason == "stop"


def test_the_sdk_lists_and_gets_models(sdk: OpenAI) -> None:
    assert [model.id for model in sdk.models.list()] == [
        *MODELS,
        *(f"rag/{name}" for name in MODELS),
        "rag/phi3-en",
    ]
    assert sdk.models.retrieve("rag/deep/a/b").id == "rag/deep/a/b"


@pytest.mark.parametrize("model", ["m", "rag/m"])
def test_the_sdk_calls_tools(sdk: OpenAI, upstream: FakeUpstream, model: str) -> None:
    upstream.on("m", responding(json.dumps(calling(model)).encode()))
    found = sdk.chat.completions.create(model=model, messages=MESSAGES, tools=TOOLS)
    upstream.off("m")
    assert upstream.last.json["tools"] == TOOLS
    calls = found.choices[0].message.tool_calls or []
    assert [(call.type == "function" and call.function.name) for call in calls] == ["brew"]
    messages: list[ChatCompletionMessageParam] = [
        *MESSAGES,
        {"role": "assistant", "tool_calls": [{"id": "call_1", "type": "function", "function": CALL["function"]}]},  # type: ignore[typeddict-item]
        {"role": "tool", "tool_call_id": "call_1", "content": "done"},
    ]
    assert sdk.chat.completions.create(model=model, messages=messages).choices
    assert upstream.last.json["messages"][-1]["role"] == "tool"


def test_the_sdk_raises_the_errors_of_gateway_and_upstream(sdk: OpenAI, upstream: FakeUpstream) -> None:
    upstream.on("m", responding(b'{"error":{"message":"slow down","code":"rate"}}', "429 Too Many", "Retry-After: 7"))
    with pytest.raises(openai.RateLimitError) as limited:
        sdk.chat.completions.create(model="rag/m", messages=MESSAGES)
    assert (limited.value.code, limited.value.response.headers["retry-after"]) == ("rate", "7")
    upstream.on("m", hang)
    with pytest.raises(openai.InternalServerError) as late:
        sdk.chat.completions.create(model="rag/m", messages=MESSAGES)
    upstream.off("m")
    assert (late.value.status_code, late.value.code, late.value.type) == (504, "upstream_timeout", "server_error")
    with pytest.raises(openai.NotFoundError):
        sdk.get("/../secret", cast_to=httpx.Response)


def test_the_sdk_raises_when_a_stream_breaks(sdk: OpenAI, upstream: FakeUpstream) -> None:
    upstream.on("m", broken_stream)
    chunks = iter(sdk.chat.completions.create(model="rag/m", messages=MESSAGES, stream=True))
    assert next(chunks).choices[0].delta.content == "Tea"
    with pytest.raises(openai.APIError, match="broke off"):
        next(chunks)
    upstream.off("m")


def test_the_sdk_retries_what_the_upstream_asks_to_retry(chat_gateway: Served, upstream: FakeUpstream) -> None:
    seen: list[int] = []

    async def third_time(exchange: Exchange) -> None:
        seen.append(1)
        if len(seen) < 3:
            await exchange.respond(b"{}", status="503 Busy", headers=["Retry-After: 0.05"])
        else:
            await exchange.respond(json.dumps(completion()).encode())

    upstream.on("m", third_time)
    with OpenAI(base_url=chat_gateway.url + "/v1", api_key="x", max_retries=2) as client:
        assert client.chat.completions.create(model="m", messages=MESSAGES).choices
    upstream.off("m")
    assert len(seen) == 3


async def test_the_sdks_timeout_cancels_the_upstream_request(chat_gateway: Served, upstream: FakeUpstream) -> None:
    upstream.on("m", hang)
    async with AsyncOpenAI(base_url=chat_gateway.url + "/v1", api_key="x", max_retries=0, timeout=0.7) as client:
        with pytest.raises(openai.APITimeoutError):
            await client.chat.completions.create(model="rag/m", messages=MESSAGES)
    closed = await asyncio.to_thread(upstream.chats()[-1].closed.wait, 10)
    upstream.off("m")
    assert closed


@pytest.fixture
def langchain(chat_gateway: Served) -> ChatOpenAI:
    """LangChain's model over the gateway."""
    return ChatOpenAI(base_url=chat_gateway.url + "/v1", api_key=SecretStr("x"), model="rag/phi3-en", max_retries=0)


def test_langchain_invokes_and_streams(langchain: ChatOpenAI) -> None:
    assert langchain.invoke([HumanMessage(QUESTION)]).text == "Tea is a drink."
    assert "".join(chunk.text for chunk in langchain.stream(QUESTION)) == "Tea is a drink [1]."


def test_langchain_binds_tools(langchain: ChatOpenAI, upstream: FakeUpstream) -> None:
    @tool
    def brew(cups: int) -> str:
        """Brew tea."""
        return str(cups)

    upstream.on("local/phi3-en", responding(json.dumps(calling("m")).encode()))
    found = langchain.bind_tools([brew]).invoke(QUESTION)
    upstream.off("local/phi3-en")
    assert [(call["name"], call["args"]) for call in found.tool_calls] == [("brew", {"cups": 2})]
