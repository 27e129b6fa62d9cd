"""A real LiteLLM proxy as the upstream of a gateway, and as its caller.

`make litellm` installs it, in an environment of its own, and runs this; the other tests do without its 576 MB.
"""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Final, NamedTuple

import httpx
import openai
import pytest
from openai import OpenAI
from openai.types.chat import ChatCompletionMessageParam

from tests.gateway.chat.conftest import EXAMPLE, ingest
from tests.gateway.chat.test_rag import QUESTION
from tests.support.gateways import FAST_MODEL, start_gateway
from tests.support.servers import Served, free_port, running, start_process

REPLY: Final = "Hybrid search [1]. Faster filters [2]."
KEY: Final = "sk-Ab3dE5gH7jK9mN1pQ3sT5vX7z"
"""LiteLLM refuses to start with a weak key."""

CONFIG: Final = f"""
model_list:
  - model_name: local/phi3-en
    litellm_params: {{model: openai/phi3-en, api_key: none, mock_response: "{REPLY}"}}
  - model_name: limited
    litellm_params: {{model: openai/x, api_key: none, mock_response: "litellm.RateLimitError"}}
"""


def start_litellm(folder: Path, config: str = CONFIG) -> Served:
    """Start the proxy, whose models respond by themselves.

    Args:
        folder: where its configuration and its log go.
        config: its configuration.
    """
    command = os.environ.get("LITELLM", ".venv-litellm/bin/litellm")
    (folder / "litellm.yaml").write_text(config)
    port = free_port()
    environ = {"LITELLM_LOCAL_MODEL_COST_MAP": "True", "LITELLM_MASTER_KEY": KEY, "LITELLM_TELEMETRY": "False"}
    served = start_process(
        [str(Path(command).absolute()), "--config", "litellm.yaml", "--host", "127.0.0.1", "--port", str(port)],
        f"http://127.0.0.1:{port}",
        folder / "litellm.log",
        environ,
    )
    for _ in range(3):  # it needs minutes on a busy machine
        with suppress(RuntimeError):
            served.wait_until_ready("/health/liveliness")
            return served
    served.stop()
    raise RuntimeError("LiteLLM's proxy did not start")


class Pair(NamedTuple):
    """A gateway and a proxy, each of which calls the other.

    Attributes:
        gateway: base URL of the gateway, whose upstream is the proxy.
        proxy: base URL of the proxy, whose models `front` and `front-embedding` are the gateway's.
    """

    gateway: str
    proxy: str


@pytest.fixture(scope="module")
def pair(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Pair]:
    """A gateway in front of the proxy and behind it."""
    folder = tmp_path_factory.mktemp("litellm")
    port = free_port()
    ours = f"api_key: sk-caller, api_base: 'http://127.0.0.1:{port}/v1'"
    config = f"""{CONFIG}
  - model_name: front
    litellm_params: {{model: openai/rag/phi3-en, {ours}}}
  - model_name: front-embedding
    litellm_params: {{model: openai/{FAST_MODEL}, {ours}}}
"""
    with running(start_litellm(folder, config)) as litellm:
        environ = {"LITELLM_BASE": litellm.url, "RAGSTORE_GATEWAY_UPSTREAM_KEY": KEY, "RAG_DEBUG_MODE": "true"}
        with running(start_gateway(folder, environ, port=port)) as served:
            ingest(served.url, "memory", EXAMPLE)
            yield Pair(served.url + "/v1", litellm.url + "/v1")


@pytest.fixture(scope="module")
def client(pair: Pair) -> Iterator[OpenAI]:
    """OpenAI's client of the gateway."""
    with OpenAI(base_url=pair.gateway, api_key="sk-caller", max_retries=0) as sdk:
        yield sdk


@pytest.fixture(scope="module")
def proxied(pair: Pair) -> Iterator[OpenAI]:
    """OpenAI's client of the proxy, which calls the gateway."""
    with OpenAI(base_url=pair.proxy, api_key=KEY, max_retries=0) as sdk:
        yield sdk


def test_the_proxy_in_front_passes_a_chat_with_citations(proxied: OpenAI) -> None:
    found = proxied.chat.completions.create(model="front", messages=[{"role": "user", "content": QUESTION}])
    message = found.choices[0].message
    assert message.content == REPLY
    assert [one.url_citation.url for one in message.annotations or []] == [meta["url"] for _, _, meta in EXAMPLE]


def test_the_proxy_in_front_passes_a_stream_with_citations(proxied: OpenAI) -> None:
    messages: list[ChatCompletionMessageParam] = [{"role": "user", "content": QUESTION}]
    deltas = [
        chunk.choices[0].delta
        for chunk in proxied.chat.completions.create(model="front", messages=messages, stream=True)
        if chunk.choices
    ]
    assert "".join(delta.content or "" for delta in deltas) == REPLY
    assert sum(len((delta.model_extra or {}).get("annotations") or []) for delta in deltas) == 2


def test_the_proxy_in_front_passes_embeddings(proxied: OpenAI, client: OpenAI) -> None:
    text = "The boiler is serviced every October."
    through = proxied.embeddings.create(model="front-embedding", input=text, encoding_format="float")
    direct = client.embeddings.create(model=FAST_MODEL, input=text, encoding_format="float")
    assert through.data[0].embedding == direct.data[0].embedding


@pytest.mark.parametrize("stream", [False, True])
def test_the_proxy_in_front_passes_a_response_with_citations(proxied: OpenAI, stream: bool) -> None:
    if stream:
        events = list(proxied.responses.create(model="front", input=QUESTION, stream=True))
        assert "".join(event.delta for event in events if event.type == "response.output_text.delta") == REPLY
        [found] = [event.response for event in events if event.type == "response.completed"]
    else:
        found = proxied.responses.create(model="front", input=QUESTION)
    assert found.output_text == REPLY
    annotations = [
        annotation
        for item in found.output
        if item.type == "message"
        for content in item.content
        if content.type == "output_text"
        for annotation in content.annotations
    ]
    assert [one.url for one in annotations if one.type == "url_citation"] == [meta["url"] for _, _, meta in EXAMPLE]


def test_a_rag_chat_is_answered_with_citations(client: OpenAI) -> None:
    found = client.chat.completions.create(model="rag/phi3-en", messages=[{"role": "user", "content": QUESTION}])
    message = found.choices[0].message
    assert (found.model, message.content) == ("rag/phi3-en", REPLY)
    assert [one.url_citation.url for one in message.annotations or []] == [meta["url"] for _, _, meta in EXAMPLE]


def test_a_rag_stream_is_answered_with_citations(client: OpenAI) -> None:
    chunks = list(
        client.chat.completions.create(
            model="rag/phi3-en", messages=[{"role": "user", "content": QUESTION}], stream=True
        )
    )
    text = "".join(chunk.choices[0].delta.content or "" for chunk in chunks if chunk.choices)
    extras = [chunk.choices[0].delta.model_extra or {} for chunk in chunks if chunk.choices]
    assert text == REPLY
    assert [len(extra["annotations"]) for extra in extras if "annotations" in extra] == [2]
    assert {chunk.model for chunk in chunks} == {"rag/phi3-en"}


def test_the_proxys_models_have_rag_models(client: OpenAI) -> None:
    assert {"local/phi3-en", "rag/local/phi3-en", "rag/limited"} <= {model.id for model in client.models.list()}


def test_errors_of_the_proxy_pass(client: OpenAI) -> None:
    with pytest.raises(openai.BadRequestError):
        client.chat.completions.create(model="absent", messages=[{"role": "user", "content": "x"}])
    with pytest.raises(openai.RateLimitError):
        client.chat.completions.create(model="rag/limited", messages=[{"role": "user", "content": QUESTION}])


def test_other_paths_of_the_proxy_are_reached(client: OpenAI) -> None:
    response = httpx.get(str(client.base_url) + "model/info")
    assert response.status_code == 200
    assert response.json()["data"]


_VECTOR_STORES: Final = """
import json, sys, litellm
provider, base, store = sys.argv[1:]
own = {"custom_llm_provider": provider, "api_base": base, "api_key": "sk-x"}
found = litellm.vector_stores.search(vector_store_id=store, query="When is the boiler serviced?", **own)
created = litellm.vector_stores.create(name="made by LiteLLM", **own)
print(json.dumps([found, created]))
"""


@pytest.mark.parametrize(("provider", "path"), [("pg_vector", ""), ("openai", "/v1")])
def test_the_library_searches_and_creates_vector_stores(tmp_path: Path, provider: str, path: str) -> None:
    command = Path(os.environ.get("LITELLM", ".venv-litellm/bin/litellm")).absolute()
    text = "The boiler is serviced every October."
    with (
        running(start_gateway(tmp_path)) as served,
        OpenAI(base_url=served.url + "/v1", api_key="sk-caller", max_retries=0) as sdk,
    ):
        store = sdk.vector_stores.create(name="handbook")
        file = sdk.files.create(file=("a.txt", text.encode()), purpose="assistants")
        sdk.vector_stores.files.create_and_poll(file.id, vector_store_id=store.id, poll_interval_ms=100)
        run = subprocess.run(
            [str(command.parent / "python"), "-c", _VECTOR_STORES, provider, served.url + path, store.id],
            env={**os.environ, "LITELLM_LOCAL_MODEL_COST_MAP": "True"},
            cwd=tmp_path,
            capture_output=True,
            text=True,
            timeout=300,
            check=True,
        )
        found, created = json.loads(run.stdout.splitlines()[-1])
        assert [result["content"][0]["text"] for result in found["data"]] == [text]
        assert sdk.vector_stores.retrieve(created["id"]).name == "made by LiteLLM"
