"""`GET /v1/models`: the upstream's models, and a `rag/` model for each."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import suppress
from typing import TYPE_CHECKING, cast

import httpx
import pytest

from ragstore_gateway.chat.models import ModelEntry, Models
from ragstore_gateway.chat.rag_models import NoRagModels
from ragstore_gateway.chat.upstream import Upstream
from ragstore_gateway.settings import Settings
from tests.support.fake_upstream import MODELS, Exchange, FakeUpstream, responding

if TYPE_CHECKING:
    from ragstore_gateway.chat.rag_models import PlainModels


def test_the_list_has_the_upstreams_models_and_a_rag_model_for_each(http: httpx.Client) -> None:
    listed = http.get("/v1/models").json()
    names = [*MODELS, *(f"rag/{name}" for name in MODELS), "rag/phi3-en"]
    assert [entry["id"] for entry in listed["data"]] == names
    assert listed["data"][-2] == {**listed["data"][len(MODELS) - 1], "id": f"rag/{MODELS[-1]}"}
    assert (listed["object"], listed["unknown"]) == ("list", 1.5)


@pytest.mark.parametrize("name", ["rag/m", "rag/deep/a/b", "rag/phi3-en", "rag%2Fdeep%2Fa%2Fb"])
def test_one_rag_model_is_the_upstreams_with_the_requested_name(http: httpx.Client, name: str) -> None:
    model = http.get(f"/v1/models/{name}").json()
    assert model == {"id": name.replace("%2F", "/"), "object": "model", "created": 1, "owned_by": "fake"}


def test_one_model_of_the_upstream_is_proxied(http: httpx.Client, upstream: FakeUpstream) -> None:
    upstream.on("own-model", responding(b'{"id": "x/own-model",  "odd": 1}'))
    assert http.get("/v1/models/x/own-model").content == b'{"id": "x/own-model",  "odd": 1}'


def test_a_rag_model_that_does_not_exist_is_404(manual: httpx.Client) -> None:
    response = manual.get("/v1/models/rag/nobody-has-it")
    assert response.status_code == 404
    assert response.json()["error"]["type"] == "not_found_error"


def test_a_response_that_is_no_list_of_models_is_passed_on(http: httpx.Client, upstream: FakeUpstream) -> None:
    upstream.on("models?odd=1", responding(b'{"models": []}'))
    assert http.get("/v1/models?odd=1").content == b'{"models": []}'


def test_an_upstream_without_a_list_is_given_the_name_as_it_is(fresh: httpx.Client, upstream: FakeUpstream) -> None:
    upstream.on("models", responding(b"", "404 Not Found"))
    body = {"model": "rag/only-it-knows", "messages": [{"role": "user", "content": "Tea?"}]}
    response = fresh.post("/v1/chat/completions", json=body, headers={"Authorization": "Bearer other"})
    upstream.off("models")
    assert response.status_code == 200
    assert upstream.last.model == "only-it-knows"


def test_callers_with_other_keys_share_no_list(fresh: httpx.Client, upstream: FakeUpstream) -> None:
    for key in ("one", "two"):
        assert fresh.get("/v1/models/rag/m", headers={"X-API-Key": key}).status_code == 200
    lists = [request for request in upstream.requests if request.target == "/v1/models"]
    assert [request.header("x-api-key") for request in lists[-2:]] == [["one"], ["two"]]


def test_a_list_of_models_that_is_too_large_is_not_read_to_its_end(fresh: httpx.Client, upstream: FakeUpstream) -> None:
    async def endless(exchange: Exchange) -> None:
        await exchange.begin_stream()
        with suppress(ConnectionError):
            for number in range(64):
                await exchange.chunk(b" " * 1_000_000)
                sent.append(number)
            await exchange.end_stream()

    sent: list[int] = []
    upstream.on("models", endless)
    assert fresh.get("/v1/models/rag/any", headers={"Authorization": "Bearer endless"}).json()["id"] == "rag/any"
    upstream.off("models")
    assert len(sent) < 48


async def test_the_upstreams_models_are_read_once_for_all_assistants() -> None:
    """A set of their names was made for each assistant: 1,000 of each took 80 ms in which no other request ran."""

    class Entries(list[ModelEntry]):
        reads = 0

        def __iter__(self) -> Iterator[ModelEntry]:
            self.reads += 1
            return super().__iter__()

    class Assistants(NoRagModels):
        async def upstream_models(self) -> dict[str, str]:
            return {f"a{number}": "m1" if number % 2 else "absent" for number in range(100)}

    upstream = Upstream(Settings())
    models = Models(upstream, Assistants(), cast("PlainModels", None), "")
    entries = Entries(ModelEntry(f"m{number}", {}) for number in range(3))
    listed = [json.loads(bytes(entry))["id"] for entry in await models.with_rag(entries)]
    assert listed == [*(f"rag/a{number}" for number in range(1, 100, 2)), "rag/m0", "rag/m1", "rag/m2"]
    assert entries.reads < 5


async def test_a_model_of_the_prefix_local_is_listed_without_it_too() -> None:
    models = Models(Upstream(Settings()), NoRagModels(), cast("PlainModels", None), "")
    entries = [ModelEntry(name, {}) for name in ("local/phi3-en", "m", "local/m")]
    listed = [json.loads(bytes(entry))["id"] for entry in await models.with_rag(entries)]
    assert listed == ["rag/local/phi3-en", "rag/m", "rag/local/m", "rag/phi3-en"]


def test_half_of_a_surrogate_pair_in_a_models_name_is_replaced(http: httpx.Client) -> None:
    """JavaScript writes it where a text was cut. It was 500, because no encoder accepts it."""
    content = b'{"model": "rag/\\ud83d", "messages": [{"role": "user", "content": "Tea \\ud83d"}]}'
    response = http.post("/v1/chat/completions", content=content)
    assert (response.status_code, response.json()["model"]) == (200, "rag/?")
