"""`POST /v1/vector_stores/ID/search`."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Final

import httpx
import openai
import pytest
from openai import OpenAI
from openai.types import VectorStore

from tests.gateway.openai_vector_stores.conftest import BOILER, KEYS, RENT, Handbook, attach, upload

QUESTION = "When is the boiler serviced?"
MANUAL: Final = Path(__file__).resolve().parents[1] / "extraction/files/manual.pdf"


def names(sdk: OpenAI, handbook: Handbook, filters: Any) -> list[str]:
    """The names of the files that a search with a filter finds, sorted."""
    found = sdk.vector_stores.search(handbook.store.id, query=QUESTION, filters=filters)
    return sorted(result.filename for result in found)


def test_a_search_returns_passages_best_first_with_their_files(sdk: OpenAI, handbook: Handbook) -> None:
    found = sdk.vector_stores.search(handbook.store.id, query=QUESTION)
    assert found.object == "vector_store.search_results.page"
    best, *others = found.data
    assert best.filename == "boiler.txt"
    assert best.file_id == handbook.files["boiler.txt"].id
    assert [(content.type, content.text) for content in best.content] == [("text", BOILER)]
    assert best.attributes == {"topic": "heating", "year": 2020, "public": True}
    assert {content.text for result in others for content in result.content} == {KEYS, RENT}
    scores = [result.score for result in found.data]
    assert scores == sorted(scores, reverse=True)
    assert 0.5 < scores[0] <= 1


def test_the_score_is_the_relevance_of_the_base(sdk: OpenAI, plain: httpx.Client, handbook: Handbook) -> None:
    vectors = plain.post("/embed", json={"inputs": [BOILER], "kind": "document"}).json()["vectors"]
    question = plain.post("/embed", json={"inputs": [QUESTION], "kind": "query"}).json()["vectors"][0]
    cosine = sum(a * b for a, b in zip(vectors[0], question, strict=True))
    [best] = sdk.vector_stores.search(handbook.store.id, query=QUESTION, max_num_results=1).data
    assert best.score == pytest.approx((1 + cosine) / 2, abs=1e-5)


def test_the_number_of_results_and_the_threshold_limit_a_search(sdk: OpenAI, handbook: Handbook) -> None:
    every = sdk.vector_stores.search(handbook.store.id, query=QUESTION).data
    assert len(every) == 3
    assert sdk.vector_stores.search(handbook.store.id, query=QUESTION, max_num_results=2).data == every[:2]
    threshold = every[0].score
    above = sdk.vector_stores.search(
        handbook.store.id, query=QUESTION, ranking_options={"ranker": "auto", "score_threshold": threshold}
    )
    assert above.data == every[:1]


def test_several_queries_are_searched_and_each_passage_is_returned_once(sdk: OpenAI, handbook: Handbook) -> None:
    alone = sdk.vector_stores.search(handbook.store.id, query="Rent is due").data
    found = sdk.vector_stores.search(handbook.store.id, query=[QUESTION, "Rent is due"])
    assert len(found.data) == 3
    best = {result.filename: result.score for result in found.data}
    assert best["rent.html"] == next(result.score for result in alone if result.filename == "rent.html")


def test_explicit_nulls_count_as_absent(plain: httpx.Client, handbook: Handbook) -> None:
    body = {
        "query": QUESTION,
        "filters": None,
        "max_num_results": None,
        "ranking_options": None,
        "rewrite_query": None,
        "something_new": 1,
    }
    response = plain.post(f"/v1/vector_stores/{handbook.store.id}/search", json=body)
    assert (response.status_code, len(response.json()["data"])) == (200, 3)
    assert response.json() == {**response.json(), "has_more": False, "next_page": None, "search_query": [QUESTION]}


@pytest.mark.parametrize(
    ("filters", "expected"),
    [
        ({"type": "eq", "key": "topic", "value": "heating"}, ["boiler.txt"]),
        ({"type": "ne", "key": "topic", "value": "heating"}, ["keys.md", "rent.html"]),
        ({"type": "gt", "key": "year", "value": 2022}, ["keys.md"]),
        ({"type": "gte", "key": "year", "value": 2022}, ["keys.md", "rent.html"]),
        ({"type": "lt", "key": "year", "value": 2022}, ["boiler.txt"]),
        ({"type": "lte", "key": "year", "value": 2022.0}, ["boiler.txt", "rent.html"]),
        ({"type": "in", "key": "topic", "value": ["heating", "money"]}, ["boiler.txt", "rent.html"]),
        ({"type": "nin", "key": "topic", "value": ["heating", "money"]}, ["keys.md"]),
        ({"type": "eq", "key": "public", "value": True}, ["boiler.txt"]),
        ({"type": "eq", "key": "public", "value": 1}, []),
        ({"type": "ne", "key": "public", "value": True}, ["keys.md", "rent.html"]),
        ({"type": "eq", "key": "nowhere", "value": "x"}, []),
        (
            {
                "type": "and",
                "filters": [
                    {"type": "gte", "key": "year", "value": 2020},
                    {
                        "type": "or",
                        "filters": [
                            {"type": "eq", "key": "topic", "value": "money"},
                            {"type": "eq", "key": "public", "value": False},
                        ],
                    },
                ],
            },
            ["keys.md", "rent.html"],
        ),
    ],
)
def test_each_filter_of_openai_selects_by_attributes(
    sdk: OpenAI, handbook: Handbook, filters: Any, expected: list[str]
) -> None:
    assert names(sdk, handbook, filters) == expected


@pytest.mark.parametrize(
    ("filters", "param"),
    [
        ({"type": "near", "key": "a", "value": 1}, "filters.type"),
        ({"key": "a", "value": 1}, "filters.type"),
        ({"type": "eq", "value": 1}, "filters.key"),
        ({"type": "eq", "key": "$or", "value": [1]}, "filters.key"),
        ({"type": "gt", "key": "a", "value": "x"}, "filters.value"),
        ({"type": "eq", "key": "a", "value": None}, "filters.value"),
        ({"type": "in", "key": "a", "value": []}, "filters.value"),
        ({"type": "and", "filters": []}, "filters.filters"),
        ({"type": "or", "filters": [{"type": "eq", "key": "a", "value": {}}]}, "filters.filters[0].value"),
    ],
)
def test_an_invalid_filter_is_400_that_names_its_part(
    sdk: OpenAI, handbook: Handbook, filters: Any, param: str
) -> None:
    with pytest.raises(openai.BadRequestError) as caught:
        sdk.vector_stores.search(handbook.store.id, query=QUESTION, filters=filters)
    assert caught.value.param == param
    assert caught.value.code == "invalid_request"


@pytest.mark.parametrize(
    ("body", "param"),
    [
        ({}, "query"),
        ({"query": ""}, "query"),
        ({"query": "  "}, "query"),
        ({"query": []}, "query"),
        ({"query": ["a", " "]}, "query[1]"),
        ({"query": "a", "max_num_results": 51}, "max_num_results"),
        ({"query": "a", "ranking_options": {"score_threshold": 1.5}}, "ranking_options.score_threshold"),
        ({"query": "a", "ranking_options": {"ranker": "weighted"}}, "ranking_options.ranker"),
        ({"query": "a", "ranking_options": {"hybrid_search": {"text_weight": 1}}}, "ranking_options.hybrid_search"),
    ],
)
def test_an_invalid_search_is_400_that_names_the_field(
    plain: httpx.Client, handbook: Handbook, body: dict[str, Any], param: str
) -> None:
    response = plain.post(f"/v1/vector_stores/{handbook.store.id}/search", json=body)
    assert response.status_code == 400
    error = response.json()["error"]
    assert error["type"] == "invalid_request_error"
    assert param in (error["param"] or error["message"])


def test_a_search_of_a_store_that_does_not_exist_is_404_in_openais_shape(sdk: OpenAI) -> None:
    with pytest.raises(openai.NotFoundError) as caught:
        sdk.vector_stores.search("nowhere", query="a")
    assert (caught.value.code, caught.value.type) == ("configuration_not_found", "not_found_error")


def test_a_search_of_an_empty_store_finds_nothing(sdk: OpenAI, store: VectorStore) -> None:
    assert sdk.vector_stores.search(store.id, query="a").data == []


def test_changed_attributes_filter_the_next_search(sdk: OpenAI, store: VectorStore) -> None:
    file = attach(sdk, store.id, "a.txt", BOILER, topic="old")
    changed = sdk.vector_stores.files.update(file.id, vector_store_id=store.id, attributes={"topic": "new", "n": 1})
    assert changed.attributes == {"topic": "new", "n": 1}
    for topic, expected in (("old", 0), ("new", 1)):
        found = sdk.vector_stores.search(
            store.id, query="boiler", filters={"type": "eq", "key": "topic", "value": topic}
        )
        assert len(found.data) == expected
    assert sdk.vector_stores.files.update(file.id, vector_store_id=store.id, attributes=None).attributes == {}


def test_a_base_of_the_configuration_api_is_searched_with_its_minimum_score(plain: httpx.Client, sdk: OpenAI) -> None:
    created = plain.post("/ragstore/rags", json={"name": "configured", "minScore": 0.99})
    base_id = created.headers["Location"].partition("?")[0].rpartition("/")[2]
    file = attach(sdk, base_id, "a.txt", BOILER)
    assert file.status == "completed"
    assert sdk.vector_stores.search(base_id, query="something else").data == []
    lower = sdk.vector_stores.search(base_id, query="something else", ranking_options={"score_threshold": 0})
    assert len(lower.data) == 1
    sdk.vector_stores.delete(base_id)


def test_a_result_has_the_heading_of_its_passage_unless_its_file_has_one(sdk: OpenAI, store: VectorStore) -> None:
    files: dict[str, tuple[str, dict[str, str | float | bool] | None]] = {
        "heat.md": (f"# Heating\n\n{BOILER}", None),
        "own.md": (f"# Access\n\n{KEYS}", {"section_heading": "mine"}),
    }
    for name, (text, attributes) in files.items():
        file = upload(sdk, name, text)
        sdk.vector_stores.files.create_and_poll(
            file.id, vector_store_id=store.id, attributes=attributes, poll_interval_ms=50
        )
    found = {each.filename: each.attributes for each in sdk.vector_stores.search(store.id, query=QUESTION)}
    assert found == {"heat.md": {"section_heading": "Heating"}, "own.md": {"section_heading": "mine"}}


@pytest.mark.parametrize(("own", "places"), [(15, ["page_number"]), (16, [])])
def test_a_result_has_at_most_16_attributes_and_all_of_its_file(
    sdk: OpenAI, store: VectorStore, own: int, places: list[str]
) -> None:
    attributes: dict[str, str | float | bool] = {f"key-{index}": index for index in range(own)}
    attach(sdk, store.id, "manual.pdf", MANUAL.read_bytes(), **attributes)
    found = sdk.vector_stores.search(store.id, query=QUESTION).data
    assert found
    for each in found:
        assert each.attributes is not None
        assert list(each.attributes) == [*attributes, *places]
