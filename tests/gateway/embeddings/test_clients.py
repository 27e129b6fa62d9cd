"""Real clients of embeddings: OpenAI's SDK, LangChain, and ragstore's own."""

from __future__ import annotations

import httpx
import numpy as np
import openai
import pytest
from langchain_openai import OpenAIEmbeddings
from pydantic import SecretStr

from ragstore_client import EmbeddingsClient
from tests.support.servers import Served

pytestmark = pytest.mark.process

TEXTS = ["Tea is a drink.", "Coffee is another."]
MODEL = "builtin/wordllama"


@pytest.fixture
def vectors(gateway: Served) -> list[list[float]]:
    """The vectors as `POST /embed` returns them."""
    body = httpx.post(gateway.url + "/embed", json={"inputs": TEXTS}, timeout=30).json()
    found: list[list[float]] = body["vectors"]
    return found


def client(gateway: Served) -> openai.OpenAI:
    return openai.OpenAI(base_url=gateway.url + "/v1", api_key="unused", max_retries=0)


def test_openai_receives_base64_which_it_requests_by_default(gateway: Served, vectors: list[list[float]]) -> None:
    with client(gateway) as sdk:
        response = sdk.embeddings.create(model=MODEL, input=TEXTS)
    assert [item.embedding for item in response.data] == vectors
    assert response.usage.total_tokens > 0


def test_openai_receives_numbers_and_fewer_dimensions(gateway: Served) -> None:
    with client(gateway) as sdk:
        response = sdk.embeddings.create(model=MODEL, input=TEXTS[0], encoding_format="float", dimensions=128)
    assert len(response.data[0].embedding) == 128
    assert np.linalg.norm(response.data[0].embedding) == pytest.approx(1, abs=1e-6)


def test_openai_raises_its_own_errors(gateway: Served) -> None:
    with client(gateway) as sdk:
        with pytest.raises(openai.BadRequestError) as caught:
            sdk.embeddings.create(model=MODEL, input=["tea", ""])
        assert (caught.value.param, caught.value.code) == ("input[1]", "invalid_request")
        with pytest.raises(openai.NotFoundError) as missing:
            sdk.embeddings.create(model="text-embedding-3-small", input="tea")
        assert missing.value.code == "model_not_found"


async def test_langchain_embeds_documents_and_queries(gateway: Served, vectors: list[list[float]]) -> None:
    embeddings = OpenAIEmbeddings(
        model=MODEL,
        base_url=gateway.url + "/v1",
        api_key=SecretStr("unused"),
        # Otherwise it sends the tokens of a tokenizer of OpenAI's.
        check_embedding_ctx_length=False,
    )
    assert embeddings.embed_documents(TEXTS) == vectors
    assert embeddings.embed_query(TEXTS[0]) == vectors[0]
    assert await embeddings.aembed_documents(TEXTS) == vectors
    # It has no method that closes its connections.
    embeddings.client._client.close()
    await embeddings.async_client._client.close()


async def test_the_client_of_ragstore_embeds(gateway: Served, vectors: list[list[float]]) -> None:
    found = await EmbeddingsClient(gateway.url).embed_many(TEXTS, model=MODEL)
    assert [each.tolist() for each in found] == vectors
