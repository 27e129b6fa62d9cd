"""The running service compared with a plain dictionary, with sequential and with concurrent calls."""

from __future__ import annotations

import asyncio
import math
import random
import time
from collections.abc import Iterator
from typing import Any, Final

import httpx
import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, precondition, rule, run_state_machine_as_test

from tests.support.linearizability import Step, is_linearizable
from tests.support.metric_samples import grown, samples
from tests.support.servers import Served

NAMES: Final = ("model-one", "model-two")
IDS: Final = ("a", "b", "c/d", "文:1", "e")
GROUPS: Final = ("x", "y")
NUMBERS: Final = st.integers(-3, 3)

documents = st.lists(
    st.fixed_dictionaries(
        {
            "id": st.sampled_from(IDS),
            "text": st.text(st.characters(codec="utf-8", exclude_characters="\0"), max_size=10),
            "metadata": st.fixed_dictionaries(
                {"group": st.sampled_from(GROUPS)}, optional={"n": NUMBERS, "f": NUMBERS.map(lambda number: number / 8)}
            ),
            "embedding": st.lists(NUMBERS.map(float), min_size=2, max_size=2),
        }
    ),
    min_size=1,
    max_size=3,
    unique_by=lambda one: str(one["id"]),
)
wheres = st.one_of(
    st.none(),
    st.fixed_dictionaries({"group": st.sampled_from(GROUPS)}),
    st.fixed_dictionaries({"n": st.fixed_dictionaries({"$gte": NUMBERS})}),
)


def selects(where: dict[str, Any] | None, metadata: dict[str, Any]) -> bool:
    """Whether one of the filters above selects a document."""
    if where is None:
        return True
    if "group" in where:
        return bool(metadata["group"] == where["group"])
    return "n" in metadata and bool(metadata["n"] >= where["n"]["$gte"])


class Service(RuleBasedStateMachine):
    """Collections with documents, in a dictionary and in the service."""

    http: httpx.Client
    steps = 0

    def __init__(self) -> None:
        super().__init__()
        self.model: dict[str, dict[str, dict[str, Any]]] = {}

    def send(self, method: str, path: str, body: object = None) -> httpx.Response:
        """Send one request."""
        Service.steps += 1
        return self.http.request(method, path, json=body)

    @initialize()
    def begin(self) -> None:
        for name in NAMES:
            self.http.delete(f"/collections/{name}")

    @rule(name=st.sampled_from(NAMES))
    def create(self, name: str) -> None:
        response = self.send("POST", "/collections", {"name": name, "distance": "l2", "metadata": {"of": name}})
        assert response.status_code == (409 if name in self.model else 201)
        self.model.setdefault(name, {})

    @precondition(lambda self: len(self.model) == len(NAMES))
    @rule(name=st.sampled_from(NAMES))
    def drop(self, name: str) -> None:
        assert self.send("DELETE", f"/collections/{name}").status_code == 200
        del self.model[name]

    @rule(name=st.sampled_from(NAMES), batch=documents)
    def add(self, name: str, batch: list[dict[str, Any]]) -> None:
        response = self.send("POST", f"/collections/{name}/documents", {"documents": batch})
        if name not in self.model:
            assert response.status_code == 404
        elif any(one["id"] in self.model[name] for one in batch):
            assert response.status_code == 409
        else:
            assert response.status_code == 201
            self.model[name] |= {one["id"]: one for one in batch}

    @rule(name=st.sampled_from(NAMES), batch=documents)
    def upsert(self, name: str, batch: list[dict[str, Any]]) -> None:
        response = self.send("PUT", f"/collections/{name}/documents", {"documents": batch})
        assert response.status_code == (200 if name in self.model else 404)
        if name in self.model:
            self.model[name] |= {one["id"]: one for one in batch}

    @rule(name=st.sampled_from(NAMES), ids=st.lists(st.sampled_from(IDS), min_size=1, max_size=3), where=wheres)
    def delete(self, name: str, ids: list[str], where: dict[str, Any] | None) -> None:
        response = self.send("POST", f"/collections/{name}/documents/delete", {"ids": ids, "where": where})
        if name not in self.model:
            assert response.status_code == 404
            return
        held = self.model[name]
        gone = [key for key in dict.fromkeys(ids) if key in held and selects(where, held[key]["metadata"])]
        assert response.json()["count"] == len(gone)
        for key in gone:
            del held[key]

    @rule(name=st.sampled_from(NAMES), where=wheres, limit=st.integers(1, 4), offset=st.integers(0, 3))
    def list_documents(self, name: str, where: dict[str, Any] | None, limit: int, offset: int) -> None:
        body = {"where": where, "limit": limit, "offset": offset, "include": ["embedding"]}
        response = self.send("POST", f"/collections/{name}/documents/filter", body)
        if name not in self.model:
            assert response.status_code == 404
            return
        matching = [one for one in self.model[name].values() if selects(where, one["metadata"])]
        assert response.json()["documents"] == matching[offset : offset + limit]
        assert response.json()["total"] == len(matching)

    @rule(
        name=st.sampled_from(NAMES),
        where=wheres,
        top_k=st.integers(1, 4),
        embedding=st.lists(NUMBERS.map(float), min_size=2, max_size=2),
    )
    def query(self, name: str, where: dict[str, Any] | None, top_k: int, embedding: list[float]) -> None:
        body = {"query_embedding": embedding, "top_k": top_k, "where": where}
        response = self.send("POST", f"/collections/{name}/query", body)
        if name not in self.model:
            assert response.status_code == 404
            return
        far = {
            key: math.dist(embedding, one["embedding"]) ** 2
            for key, one in self.model[name].items()
            if selects(where, one["metadata"])
        }
        results = response.json()["results"]
        assert [hit["distance"] for hit in results] == pytest.approx(sorted(far.values())[:top_k])
        assert len({hit["id"] for hit in results}) == len(results)
        for hit in results:
            held = self.model[name][hit["id"]]
            assert hit["distance"] == pytest.approx(far[hit["id"]])
            assert (hit["text"], hit["metadata"]) == (held["text"], held["metadata"])

    @rule()
    def list_collections(self) -> None:
        listed = self.send("GET", "/collections?counts=true").json()["collections"]
        counts = {one["name"]: one["count"] for one in listed if one["name"] in NAMES}
        assert counts == {name: len(held) for name, held in self.model.items()}


@pytest.fixture
def machine(http: httpx.Client) -> Iterator[type[Service]]:
    """The state machine on the running service."""
    Service.http = http
    Service.steps = 0
    yield Service
    for name in NAMES:
        http.delete(f"/collections/{name}")


def test_the_service_behaves_as_a_dictionary(machine: type[Service]) -> None:
    run_state_machine_as_test(
        machine,
        settings=settings(
            max_examples=20, stateful_step_count=30, deadline=None, suppress_health_check=list(HealthCheck)
        ),
    )
    assert machine.steps > 200, machine.steps


def test_the_service_of_the_model_test_plans_filtered_queries(http: httpx.Client, collection: str) -> None:
    path = f"/collections/{collection}"
    document = {"id": "a", "text": "", "embedding": [1, 2], "metadata": {"group": "x"}}
    http.put(f"{path}/documents", json={"documents": [document]}).raise_for_status()
    before = samples(http)
    body = {"query_embedding": [1, 2], "top_k": 1, "where": {"group": "x"}}
    http.post(f"{path}/query", json=body).raise_for_status()
    assert grown(before, samples(http), 'ragstore_filtered_queries_total{plan="exact"}') == 1


CLIENTS: Final = 8
CALLS: Final = 40


async def test_concurrent_calls_are_linearizable(service: Served, http: httpx.Client, name: str) -> None:
    """Each client uses ids at random; for each id there is an order of the calls that explains all responses."""
    history: dict[str, list[Step]] = {key: [] for key in IDS}
    path = f"/collections/{name}/documents"

    async def call(client: httpx.AsyncClient, kind: str, key: str, content: int) -> None:
        document = {"id": key, "text": str(content), "embedding": [content, 1], "metadata": {"content": content}}
        started = time.monotonic()
        if kind == "get":
            response = await client.post(f"{path}/filter", json={"ids": [key], "include": ["embedding"]})
            assert response.status_code == 200, response.text
            found = response.json()["documents"]
            read = found[0]["metadata"]["content"] if found else None
            assert not found or (found[0]["text"], found[0]["embedding"]) == (str(read), [read, 1])
            step = Step("get", read, False, started, time.monotonic())
        elif kind == "delete":
            response = await client.post(f"{path}/delete", json={"ids": [key]})
            step = Step("delete", None, response.json()["count"] == 1, started, time.monotonic())
        elif kind == "add":
            response = await client.post(path, json={"documents": [document]})
            assert response.status_code in (201, 409)
            step = Step("add", content, response.status_code == 201, started, time.monotonic())
        else:
            response = await client.put(path, json={"documents": [document]})
            assert response.status_code == 200
            step = Step("upsert", content, True, started, time.monotonic())
        history[key].append(step)

    async def work(client: httpx.AsyncClient, client_number: int) -> None:
        chosen = random.Random(client_number)
        for number in range(CALLS):
            kind = chosen.choice(("add", "upsert", "delete", "get"))
            await call(client, kind, chosen.choice(IDS), client_number * CALLS + number)

    async with httpx.AsyncClient(base_url=service.url, timeout=60) as client:
        # Not cosine: Chroma normalises such embeddings and returns them with other last digits.
        (await client.post("/collections", json={"name": name, "distance": "l2"})).raise_for_status()
        before = samples(http)
        await asyncio.gather(*(work(client, client_number) for client_number in range(CLIENTS)))
        after = samples(http)
        stored = (await client.get(path)).json()["documents"]
    parts, calls = (
        grown(before, after, f'ragstore_coalesced_calls_{part}{{kind="write"}}') for part in ("sum", "count")
    )
    assert parts > calls, "no batch had several writes: batching is off"
    final = {one["id"]: one["metadata"]["content"] for one in stored}
    for key, steps in history.items():
        assert is_linearizable(steps, final.get(key)), key


@pytest.mark.parametrize(
    ("steps", "final", "possible"),
    [
        ([Step("add", 1, True, 0, 1), Step("get", 1, False, 2, 3)], 1, True),
        ([Step("add", 1, True, 0, 1), Step("get", None, False, 2, 3)], 1, False),
        ([Step("add", 1, True, 0, 2), Step("add", 2, True, 1, 3)], 1, False),
        ([Step("upsert", 1, True, 0, 2), Step("upsert", 2, True, 1, 3)], 1, True),
        ([Step("upsert", 1, True, 0, 1), Step("upsert", 2, True, 2, 3)], 1, False),
        ([Step("upsert", 1, True, 0, 1), Step("delete", None, False, 2, 3)], 1, False),
    ],
)
def test_the_checker_distinguishes_possible_from_impossible_histories(
    steps: list[Step], final: int, possible: bool
) -> None:
    assert is_linearizable(steps, final) is possible
