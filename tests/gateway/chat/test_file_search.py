"""The tool `file_search` of `POST /v1/responses`, over the gateway's vector stores."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Iterator
from typing import Any

import httpx
import openai
import pytest
from openai import AsyncOpenAI, OpenAI
from openai.types.responses import ResponseFileSearchToolCall, ResponseOutputMessage, ResponseOutputText
from openai.types.responses.response_output_text import AnnotationFileCitation

from tests.gateway.chat.test_faults import error_of
from tests.gateway.chat.test_node_client import FOLDER
from tests.support.fake_upstream import Exchange, FakeUpstream, replying, stream_of
from tests.support.servers import Served

pytestmark = pytest.mark.process

QUESTION = "When is the boiler serviced?"
BOILER = "The boiler is serviced every October by the caretaker."


@pytest.fixture(scope="module")
def store(sdk: OpenAI) -> str:
    """A vector store with two files."""
    created = sdk.vector_stores.create(name="boilers", extra_body={"min_score": 0})
    for name, text in (("boiler.txt", BOILER), ("rent.txt", "Rent is due on the third day of each month.")):
        file = sdk.files.create(file=(name, text.encode()), purpose="assistants")
        attached = sdk.vector_stores.files.create_and_poll(
            file.id, vector_store_id=created.id, attributes={"kind": name.partition(".")[0]}, poll_interval_ms=100
        )
        assert attached.status == "completed"
    return created.id


@pytest.fixture
def cited(upstream: FakeUpstream) -> Iterator[FakeUpstream]:
    """The upstream, whose model `m` cites the first source."""
    upstream.on("m", replying("Every October [1]."))
    yield upstream
    upstream.off("m")


def tool(store: str, **fields: Any) -> Any:
    """The tool."""
    return {"type": "file_search", "vector_store_ids": [store], **fields}


def test_a_response_is_grounded_in_the_files_and_cites_them(sdk: OpenAI, cited: FakeUpstream, store: str) -> None:
    response = sdk.responses.create(model="m", input=QUESTION, tools=[tool(store)])
    call, message = response.output
    assert isinstance(call, ResponseFileSearchToolCall)
    assert (call.status, call.queries, call.results) == ("completed", [QUESTION], None)
    assert isinstance(message, ResponseOutputMessage)
    (text,) = message.content
    assert isinstance(text, ResponseOutputText)
    (annotation,) = text.annotations
    assert isinstance(annotation, AnnotationFileCitation)
    assert annotation.filename == "boiler.txt"
    assert sdk.files.retrieve(annotation.file_id).filename == "boiler.txt"
    assert text.text[annotation.index :].startswith("[1]")
    sent = cited.last.json
    assert sent["model"] == "m"
    assert "tools" not in sent
    assert BOILER in sent["messages"][-1]["content"]


def test_the_results_are_included_on_request(sdk: OpenAI, cited: FakeUpstream, store: str) -> None:
    response = sdk.responses.create(
        model="m", input=QUESTION, tools=[tool(store, max_num_results=1)], include=["file_search_call.results"]
    )
    call = response.output[0]
    assert isinstance(call, ResponseFileSearchToolCall)
    assert call.results is not None
    (result,) = call.results
    assert (result.filename, result.text, result.attributes) == ("boiler.txt", BOILER, {"kind": "boiler"})
    assert result.score is not None
    assert 0.5 < result.score <= 1


def test_a_filter_and_ranking_options_narrow_the_search(sdk: OpenAI, cited: FakeUpstream, store: str) -> None:
    filters = {"type": "eq", "key": "kind", "value": "rent"}
    sdk.responses.create(model="m", input=QUESTION, tools=[tool(store, filters=filters)])
    content = cited.last.json["messages"][-1]["content"]
    assert "Rent is due" in content
    assert BOILER not in content
    ranking = {"ranker": "auto", "score_threshold": 1.0}
    response = sdk.responses.create(model="m", input="Zebras?", tools=[tool(store, ranking_options=ranking)])
    assert response.output[0].type == "file_search_call"
    assert cited.last.json["messages"][-1]["content"] == "Zebras?"
    assert cited.last.json["messages"][0]["role"] == "system"


def test_a_stream_reports_the_search_before_the_text(sdk: OpenAI, upstream: FakeUpstream, store: str) -> None:
    upstream.on("m", stream_of("Every October [1]."))
    try:
        with sdk.responses.stream(model="m", input=QUESTION, tools=[tool(store)]) as stream:
            kinds = [event.type for event in stream]
            final = stream.get_final_response()
    finally:
        upstream.off("m")
    assert kinds[:9] == [
        "response.created",
        "response.in_progress",
        "response.output_item.added",
        "response.file_search_call.in_progress",
        "response.file_search_call.searching",
        "response.file_search_call.completed",
        "response.output_item.done",
        "response.output_item.added",
        "response.content_part.added",
    ]
    assert [item.type for item in final.output] == ["file_search_call", "message"]
    assert final.output_text == "Every October [1]."


def test_functions_of_the_caller_pass_beside_the_search(sdk: OpenAI, cited: FakeUpstream, store: str) -> None:
    function: Any = {"type": "function", "name": "brew", "parameters": {"type": "object"}, "strict": None}
    sdk.responses.create(model="m", input=QUESTION, tools=[tool(store), function], tool_choice="auto")
    assert [each["function"]["name"] for each in cited.last.json["tools"]] == ["brew"]
    assert cited.last.json["tool_choice"] == "auto"


def test_a_vector_store_that_does_not_exist_is_404(sdk: OpenAI, upstream: FakeUpstream) -> None:
    before = len(upstream.requests)
    with pytest.raises(openai.NotFoundError, match="There is no vector store vs_1"):
        sdk.responses.create(model="m", input=QUESTION, tools=[tool("vs_1")])
    assert len(upstream.requests) == before


def test_a_wrong_filter_is_400(sdk: OpenAI, cited: FakeUpstream, store: str) -> None:
    before = len(cited.requests)
    with pytest.raises(openai.BadRequestError, match="filters"):
        sdk.responses.create(model="m", input=QUESTION, tools=[tool(store, filters={"type": "almost"})])
    assert len(cited.requests) == before


def test_a_rag_model_has_no_file_search_beside_its_own(http: httpx.Client, upstream: FakeUpstream, store: str) -> None:
    before = len(upstream.requests)
    body = {"model": "rag/m", "input": QUESTION, "tools": [tool(store)]}
    assert error_of(http.post("/v1/responses", json=body), 400)["param"] == "tools"
    assert len(upstream.requests) == before


def test_vercels_ai_sdk_gets_sources_by_its_default_api(
    chat_gateway: Served, upstream: FakeUpstream, store: str
) -> None:
    async def replies(exchange: Exchange) -> None:
        reply = (
            stream_of("Every October [1].") if exchange.request.json.get("stream") else replying("Every October [1].")
        )
        await reply(exchange)

    upstream.on("m", replies)
    environ = {
        "PATH": "/usr/local/bin:/usr/bin:/bin",
        "GATEWAY_URL": chat_gateway.url + "/v1",
        "QUESTION": "When is the boiler serviced? Summarise the latest Qdrant release.",
        "STORE": store,
    }
    try:
        run = subprocess.run(
            ["node", "ai_sdk_responses.mjs"], cwd=FOLDER, env=environ, capture_output=True, text=True, timeout=120
        )
    finally:
        upstream.off("m")
    assert run.returncode == 0, run.stderr
    found = json.loads(run.stdout)
    assert [found["plain"], found["streamed"], found["searched"]] == ["Every October [1]."] * 3
    assert found["urls"] == ["https://qdrant.tech/blog/qdrant-1-9/"]
    assert found["files"] == ["boiler.txt"]


def citations_of(result: Any) -> list[Any]:
    """The annotations of the reply of an agent."""
    return [each for item in result.new_items for part in item.raw_item.content for each in part.annotations]


async def test_openais_agents_sdk_is_grounded_by_its_defaults_and_by_its_tool(
    chat_gateway: Served, upstream: FakeUpstream, store: str
) -> None:
    # Here, so that it is imported by the process that runs this test only: it takes seconds.
    from agents import Agent, FileSearchTool, Runner, set_default_openai_client, set_tracing_disabled

    async def replies(exchange: Exchange) -> None:
        reply = stream_of("In October [1].") if exchange.request.json.get("stream") else replying("In October [1].")
        await reply(exchange)

    upstream.on("m", replies)
    set_default_openai_client(AsyncOpenAI(base_url=chat_gateway.url + "/v1", api_key="unused", max_retries=0))
    set_tracing_disabled(True)
    release = "Summarise the latest Qdrant release."
    try:
        grounded = Agent(name="clerk", model="openai/rag/m", instructions="Be brief.")
        first = await Runner.run(grounded, release)
        streamed = Runner.run_streamed(grounded, "And its date?", previous_response_id=first.last_response_id)
        kinds = [event.data.type async for event in streamed.stream_events() if event.type == "raw_response_event"]
        continued = upstream.last.json["messages"]
        searching = Agent(name="caretaker", model="m", tools=[FileSearchTool([store], include_search_results=True)])
        searched = await Runner.run(searching, QUESTION)
    finally:
        upstream.off("m")
    assert [first.final_output, streamed.final_output, searched.final_output] == ["In October [1]."] * 3
    for result in (first, streamed):
        assert [each.url for each in citations_of(result)] == ["https://qdrant.tech/blog/qdrant-1-9/"]
    assert kinds[-1] == "response.completed"
    assert release in str(continued[:-1])
    call, message = searched.new_items
    assert call.raw_item.results[0].text == BOILER
    assert [each.filename for each in message.raw_item.content[0].annotations] == ["boiler.txt"]
