"""Citations as the users of chat clients see them: links in the text, or sources beside it.

LangChain, Haystack and the AI SDK ignore annotations, so the gateway lists the cited sources at the end of the reply
(`RAGSTORE_GATEWAY_RAG_LIST_SOURCES`). Open WebUI shows the annotations of a stream, and takes `[2]` for the second
(`RAGSTORE_GATEWAY_RAG_ANNOTATION_ORDER`).
"""

from __future__ import annotations

import json
import subprocess
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Final

import httpx
import pytest
from langchain_core.messages import HumanMessage
from langchain_openai import ChatOpenAI
from pydantic import SecretStr

from tests.gateway.chat.test_rag import QUESTION
from tests.support.fake_upstream import Exchange, FakeUpstream, replying, stream_of
from tests.support.gateways import start_gateway
from tests.support.process_fixtures import starts_process
from tests.support.servers import Served, running

pytestmark = pytest.mark.process

FOLDER: Final = Path(__file__).resolve().parents[1] / "node"

URL: Final = "https://qdrant.tech/blog/qdrant-1-9/"
SHOWN: Final = f"Hybrid search [1].\n\nSources:\n- [1] [{URL}]({URL})"
"""The reply of the model, and the list of its sources."""


@pytest.fixture(scope="module")
@starts_process
def listing_gateway(
    upstream: FakeUpstream, chat_gateway: Served, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Served]:
    """A gateway whose replies end with the sources that they cite."""
    environ = {
        "RAGSTORE_URL": chat_gateway.url,
        "RAGSTORE_GATEWAY_UPSTREAM_URL": upstream.url,
        "RAGSTORE_GATEWAY_RAG_LIST_SOURCES": "true",
        "RAGSTORE_GATEWAY_RAG_ANNOTATION_ORDER": "number",
    }
    with running(start_gateway(tmp_path_factory.mktemp("listing"), environ)) as served:
        yield served


@pytest.fixture
def citing(upstream: FakeUpstream) -> Iterator[None]:
    """The upstream, whose model `m` cites the first source, as a stream if it is requested."""
    whole, pieces = replying("Hybrid search [1]."), stream_of("Hybrid", " search [", "1].")

    async def reply(exchange: Exchange) -> None:
        await (pieces if exchange.request.json.get("stream") else whole)(exchange)

    upstream.on("m", reply)
    yield
    upstream.off("m")


@pytest.mark.usefixtures("citing")
def test_langchain_shows_the_sources(listing_gateway: Served) -> None:
    model = ChatOpenAI(base_url=listing_gateway.url + "/v1", api_key=SecretStr("x"), model="rag/m", max_retries=0)
    assert model.invoke([HumanMessage(QUESTION)]).text == SHOWN
    assert "".join(chunk.text for chunk in model.stream(QUESTION)) == SHOWN


@pytest.mark.usefixtures("citing")
def test_haystack_shows_the_sources(listing_gateway: Served, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HAYSTACK_TELEMETRY_ENABLED", "False")
    # Its import takes a second, which the collection of the other tests would take, too.
    from haystack.components.generators.chat import OpenAIChatGenerator
    from haystack.dataclasses import ChatMessage, StreamingChunk
    from haystack.utils import Secret

    pieces: list[str] = []

    def received(chunk: StreamingChunk) -> None:
        pieces.append(chunk.content)

    generator = OpenAIChatGenerator(
        api_key=Secret.from_token("x"), api_base_url=listing_gateway.url + "/v1", model="rag/m", max_retries=0
    )
    with closing(generator):
        messages = [ChatMessage.from_user(QUESTION)]
        assert generator.run(messages)["replies"][0].text == SHOWN
        streamed = generator.run(messages, streaming_callback=received)["replies"][0].text
    assert (streamed, "".join(pieces)) == (SHOWN, SHOWN)


@pytest.mark.usefixtures("citing")
def test_the_ai_sdk_shows_the_sources(listing_gateway: Served) -> None:
    if not (FOLDER / "node_modules/@ai-sdk/openai-compatible").is_dir():
        pytest.fail("The AI SDK is not installed: make environments")
    environ = {"PATH": "/usr/local/bin:/usr/bin:/bin", "GATEWAY_URL": listing_gateway.url + "/v1", "QUESTION": QUESTION}
    completed = subprocess.run(
        ["node", "ai_sdk.mjs"], cwd=FOLDER, env=environ, capture_output=True, text=True, timeout=120, check=False
    )
    assert completed.returncode == 0, completed.stderr
    assert json.loads(completed.stdout) == {"plain": SHOWN, "streamed": SHOWN}


def open_webui_sources(lines: Iterator[str]) -> list[dict[str, str]]:
    """The sources that Open WebUI 0.12.4 shows beside the reply of a stream, by the rules of its code.

    Of each event it reads the first choice. Each annotation of its delta that has the type `url_citation` and a member
    of this name is a source: its `url`, and its `title` or else the URL.
    A source that repeats is shown once. `[2]` in the reply is the second source that is shown.
    """
    sources: list[dict[str, str]] = []
    for line in lines:
        if not line.startswith("data:") or line.removeprefix("data:").strip() == "[DONE]":
            continue
        choices = json.loads(line.removeprefix("data:")).get("choices") or []
        for annotation in choices[0].get("delta", {}).get("annotations") or [] if choices else []:
            if annotation.get("type") == "url_citation" and "url_citation" in annotation:
                cited = annotation["url_citation"]
                source = {"url": cited.get("url", ""), "name": cited.get("title", cited.get("url", ""))}
                if source not in sources:
                    sources.append(source)
    return sources


@pytest.mark.usefixtures("citing")
def test_open_webui_shows_the_sources_of_a_stream(listing_gateway: Served) -> None:
    body = {"model": "rag/m", "stream": True, "messages": [{"role": "user", "content": QUESTION}]}
    with httpx.stream("POST", f"{listing_gateway.url}/v1/chat/completions", json=body, timeout=30) as response:
        assert open_webui_sources(response.iter_lines()) == [{"url": URL, "name": URL}]


@pytest.mark.parametrize("pieces", [("Late [2], ", "early [1], late [2]."), ("Only ", "[2].")])
def test_open_webui_finds_the_source_of_each_number(
    listing_gateway: Served, upstream: FakeUpstream, pieces: tuple[str, str]
) -> None:
    upstream.on("m", stream_of(*pieces))
    body = {"model": "rag/m", "stream": True, "messages": [{"role": "user", "content": QUESTION}]}
    own = {"X-RAG-Passages": "true"}
    with httpx.stream(
        "POST", f"{listing_gateway.url}/v1/chat/completions", json=body, headers=own, timeout=30
    ) as response:
        lines = list(response.iter_lines())
    upstream.off("m")
    urls = {
        passage["number"]: passage["url"]
        for line in lines
        if line.startswith("data: {")
        for choice in json.loads(line.removeprefix("data: ")).get("choices") or []
        for passage in choice["delta"].get("passages") or []
    }
    assert len(urls) >= 2
    assert [source["url"] for source in open_webui_sources(iter(lines))] == [urls[1], urls[2]]
