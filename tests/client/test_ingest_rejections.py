"""An ingestion never condemns a good document: exactly the documents fail that are wrong, each with its own error."""

from __future__ import annotations

import json
import math
import random

import numpy as np
import pytest

from ragstore_client import (
    BadRequest,
    BatchLimits,
    Client,
    InvalidInput,
    NewDocument,
    NewDocumentLike,
    NotTried,
    Outcome,
)
from tests.client.clients import ClientFactory
from tests.client.fake_servers import LocalServer, Request, Response


def good(number: int) -> NewDocument:
    return NewDocument(id=f"d{number}", text=f"text {number}", embedding=[1.0, float(number), 0.5])


def wrong_dimension(number: int) -> NewDocument:
    return NewDocument(id=f"d{number}", text="x", embedding=[1.0, 2.0])


def failed(outcomes: list[Outcome]) -> list[int]:
    return [outcome.index for outcome in outcomes if not outcome.stored]


@pytest.mark.parametrize("index", [0, 1, 999, 1000, 2999])
def test_a_wrong_dimension_anywhere_costs_no_other_document(client: Client, client_collection: str, index: int) -> None:
    documents = [wrong_dimension(number) if number == index else good(number) for number in range(3000)]
    # One request after the other: in a new collection, the first one decides on the dimension.
    outcomes = list(client.ingest(client_collection, documents, concurrency=1))
    assert failed(outcomes) == [index]
    assert client.count(client_collection) == 2999


def test_an_error_names_the_document_in_what_was_passed(client: Client, client_collection: str) -> None:
    client.upsert_documents(client_collection, [good(0)])
    documents = [wrong_dimension(number) if number in (7, 23) else good(number) for number in range(30)]
    outcomes = list(client.ingest(client_collection, documents, limits=BatchLimits(documents=10)))
    for index in (7, 23):
        error = outcomes[index].error
        assert isinstance(error, BadRequest)
        assert str(error).startswith(f"document {index} ('d{index}'): ")
        assert f"$.documents[{index}].embedding" in str(error)
        assert [field.path for field in error.errors] == [f"$.documents[{index}].embedding"]


def bad_document(number: int, kind: int) -> NewDocumentLike:
    kinds: list[dict[str, object]] = [
        {"embedding": [1.0, 2.0]},
        {"embedding": [1.0, math.nan, 2.0]},
        {"embedding": [1.0, 1e39, 2.0]},
        {"metadata": {"mixed": [1, "x"]}},
        {"metadata": {"empty": []}},
        {"metadata": {"$reserved": 1}},
        {"metadata": {"large": 2**70}},
        {"text": None},
        {"embedding": []},
        {"metadata": {"x": float("nan")}},
        {"id": ""},
    ]
    return {"id": f"d{number}", "text": "x", "embedding": [1.0, 2.0, 3.0], **kinds[kind % len(kinds)]}


def test_however_many_are_wrong_all_others_are_stored(client: Client, client_collection: str) -> None:
    client.upsert_documents(client_collection, [good(0)])
    bad = set(random.Random(5).sample(range(1, 1000), 150))
    documents = [bad_document(number, number) if number in bad else good(number) for number in range(1000)]
    outcomes = list(client.ingest(client_collection, documents))
    assert set(failed(outcomes)) == bad
    assert client.count(client_collection) == 1000 - len(bad)
    for outcome in outcomes:
        assert outcome.error is None or str(outcome.error).startswith(f"document {outcome.index}")


def test_values_that_numpy_and_pandas_make_are_taken_or_refused_one_by_one(
    client: Client, client_collection: str
) -> None:
    import pandas as pd

    taken = {
        "id": np.str_("numpy"),
        "text": np.str_("text"),
        "embedding": np.array([1, 2], dtype="int8"),
        "metadata": {"text": np.str_("a"), "number": np.int32(3), "half": np.float16(0.5), np.str_("yes"): np.bool_(1)},
    }
    refused: dict[str, dict[str, object]] = {
        "an array": {"metadata": {"a": np.array([1, 2])}},
        "an array of one": {"metadata": {"a": np.array([1])}},
        "a time of numpy": {"metadata": {"a": np.datetime64("2024-01-01")}},
        "a time of pandas": {"metadata": {"a": pd.Timestamp("2024-01-01")}},
        "no time": {"metadata": {"a": pd.NaT}},
        "no value": {"metadata": {"a": pd.NA}},
        "NaN": {"metadata": {"a": np.float64("nan")}},
        "complex metadata": {"metadata": {"a": np.complex64(1j)}},
        "bytes": {"metadata": {"a": b"x"}},
        "a complex vector": {"embedding": np.array([1j, 2])},
        "a vector of times": {"embedding": np.array(["2024-01-01"], dtype="datetime64[D]")},
        "a text as vector": {"embedding": "where is the heating"},
        "no text": {"text": 5},
        "an id that is a number": {"id": 5},
        "an unknown field": {"vector": [1.0]},
    }
    documents: list[NewDocumentLike] = [taken]
    documents += [{"id": name, "text": "x", "embedding": [1.0, 2.0], **more} for name, more in refused.items()]
    outcomes = list(client.ingest(client_collection, documents))
    assert failed(outcomes) == list(range(1, len(documents)))
    assert all(isinstance(outcome.error, InvalidInput) for outcome in outcomes[1:])
    assert "$.documents[1].metadata.a" in str(outcomes[1].error)
    stored = client.get_document(client_collection, "numpy")
    assert stored.metadata == {"text": "a", "number": 3, "half": 0.5, "yes": True}


class SilentService:
    """A service that rejects requests with certain documents, and does not say which."""

    def __init__(self, *rejected: str) -> None:
        self.rejected = set(rejected)
        self.requests = 0

    def respond(self, request: Request) -> Response:
        self.requests += 1
        ids = [document["id"] for document in json.loads(request.body)["documents"]]
        if self.rejected.isdisjoint(ids):
            return Response(200, {"status": "upserted", "collection": "abc", "count": len(ids), "ids": ids})
        return Response(400, {"title": "No", "detail": "something is wrong", "code": "invalid_documents"})


def test_a_rejection_that_names_no_document_is_isolated_by_halving(make_client: ClientFactory) -> None:
    bad = {f"d{number}" for number in range(0, 60, 5)}
    service = SilentService(*bad)
    with LocalServer(service.respond) as server:
        outcomes = list(make_client(server.url).ingest("abc", map(good, range(60))))
    assert {outcome.id for outcome in outcomes if not outcome.stored} == bad


def test_documents_that_were_not_sent_say_so(make_client: ClientFactory) -> None:
    service = SilentService("d0", "d1", "d2", "d3")
    with LocalServer(service.respond) as server:
        limits = BatchLimits(requests=3)
        outcomes = list(make_client(server.url).ingest("abc", map(good, range(8)), limits=limits))
    assert service.requests == 3
    assert {type(outcome.error) for outcome in outcomes} == {NotTried}
    assert str(outcomes[5].error) == "document 5 ('d5'): not tried"


def test_rejected_documents_that_are_named_are_not_sent_again(make_client: ClientFactory) -> None:
    sent: list[list[str]] = []

    def respond(request: Request) -> Response:
        ids = [document["id"] for document in json.loads(request.body)["documents"]]
        sent.append(ids)
        errors = [
            {"path": f"$.documents[{at}].metadata.a", "message": "wrong"}
            for at, key in enumerate(ids)
            if key in "d2 d5"
        ]
        if errors:
            problem = {"title": "No", "detail": "no", "code": "invalid_documents", "errors": errors}
            return Response(400, {**problem, "errors_omitted": 0})
        return Response(200, {"status": "upserted", "collection": "abc", "count": len(ids), "ids": ids})

    with LocalServer(respond) as server:
        outcomes = list(make_client(server.url).ingest("abc", map(good, range(8))))
    assert failed(outcomes) == [2, 5]
    assert [len(ids) for ids in sent] == [8, 6]
    assert str(outcomes[5].error) == "document 5 ('d5'): wrong: $.documents[5].metadata.a"
