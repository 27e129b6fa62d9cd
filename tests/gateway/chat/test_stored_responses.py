"""Responses are stored, and continued by `previous_response_id`."""

from __future__ import annotations

from typing import Any

import httpx
import openai
import pytest
from openai import OpenAI

from tests.gateway.chat.test_faults import error_of
from tests.gateway.chat.test_rag import QUESTION
from tests.support.fake_upstream import FakeUpstream, stream_of

pytestmark = pytest.mark.process

FOLLOW_UP = "Which of them is the newest release?"
UNKNOWN = "resp_ragstore_" + "0" * 32


def test_a_response_is_continued_with_the_items_of_its_conversation(sdk: OpenAI, cited: FakeUpstream) -> None:
    first = sdk.responses.create(model="rag/m", instructions="You are a clerk.", input=QUESTION)
    second = sdk.responses.create(model="rag/m", input=FOLLOW_UP, previous_response_id=first.id)
    third = sdk.responses.create(model="rag/m", input="And its date?", previous_response_id=second.id)
    assert (first.previous_response_id, third.previous_response_id) == (None, second.id)
    messages = cited.last.json["messages"]
    # The first message is the gateway's own. Instructions are of one response.
    assert messages[1:-1] == [
        {"role": "user", "content": QUESTION},
        {"role": "assistant", "content": [{"type": "text", "text": "Hybrid search [1]."}]},
        {"role": "user", "content": FOLLOW_UP},
        {"role": "assistant", "content": [{"type": "text", "text": "Hybrid search [1]."}]},
    ]
    assert "And its date?" in messages[-1]["content"]
    assert "Qdrant 1.9 adds hybrid search" in messages[-1]["content"]


def test_a_streamed_response_is_stored_before_its_last_event(sdk: OpenAI, upstream: FakeUpstream) -> None:
    upstream.on("m", stream_of("Hybrid", " search [1]."))
    try:
        with sdk.responses.stream(model="rag/m", input=QUESTION) as stream:
            for event in stream:
                if event.type == "response.completed":
                    assert sdk.responses.retrieve(event.response.id).output_text == "Hybrid search [1]."
    finally:
        upstream.off("m")


def test_a_model_without_retrieval_continues_a_response(sdk: OpenAI, cited: FakeUpstream) -> None:
    first = sdk.responses.create(model="rag/m", input=QUESTION)
    second = sdk.responses.create(model="m", input="Thanks. And in short?", previous_response_id=first.id)
    assert second.output_text == "Hybrid search [1]."
    assert cited.last.target == "/v1/chat/completions"
    assert [message["role"] for message in cited.last.json["messages"]] == ["user", "assistant", "user"]
    assert cited.last.json["messages"][-1]["content"] == "Thanks. And in short?"


def test_a_stored_response_is_read_listed_and_deleted(sdk: OpenAI, cited: FakeUpstream) -> None:
    first = sdk.responses.create(model="rag/m", input=QUESTION)
    second = sdk.responses.create(model="rag/m", input=FOLLOW_UP, previous_response_id=first.id)
    assert sdk.responses.retrieve(second.id) == second
    items: list[Any] = list(sdk.responses.input_items.list(second.id, order="asc", limit=2))
    assert [(item.role, item.content[0].text) for item in items] == [
        ("user", QUESTION),
        ("assistant", "Hybrid search [1]."),
        ("user", FOLLOW_UP),
    ]
    sdk.responses.delete(first.id)
    for missing in (first.id, UNKNOWN):
        with pytest.raises(openai.NotFoundError, match="There is no stored response"):
            sdk.responses.retrieve(missing)
    # Its items are gone, so the conversation cannot be continued.
    before = len(cited.requests)
    for previous in (first.id, second.id, UNKNOWN, "resp_of_upstream"):
        with pytest.raises(openai.BadRequestError, match="There is no stored response") as raised:
            sdk.responses.create(model="rag/m", input=FOLLOW_UP, previous_response_id=previous)
        assert raised.value.param == "previous_response_id"
    assert len(cited.requests) == before


def test_a_response_is_not_stored_if_the_request_says_so(sdk: OpenAI, cited: FakeUpstream) -> None:
    response: Any = sdk.responses.create(model="rag/m", input=QUESTION, store=False)
    assert response.store is False
    with pytest.raises(openai.NotFoundError):
        sdk.responses.retrieve(response.id)


def test_a_response_exists_for_the_key_of_its_caller_only(keyed: Any, cited: FakeUpstream) -> None:
    body = {"model": "rag/m", "input": QUESTION}
    id = keyed("reader", path="/v1/responses", json=body).json()["id"]
    path = f"/v1/responses/{id}"
    assert keyed("reader", "GET", path).json()["id"] == id
    for other in ("other", "admin"):
        assert error_of(keyed(other, "GET", path), 404)["code"] == "response_not_found"
        assert error_of(keyed(other, "GET", f"{path}/input_items"), 404)["code"] == "response_not_found"
        assert error_of(keyed(other, "DELETE", path), 404)["code"] == "response_not_found"
        assert keyed(other, path="/v1/responses", json={**body, "previous_response_id": id}).status_code == 400
    assert keyed("reader", "DELETE", path).json() == {"id": id, "object": "response", "deleted": True}


def test_responses_of_the_upstream_need_an_admin(keyed: Any, upstream: FakeUpstream) -> None:
    for method in ("GET", "DELETE"):
        before = len(upstream.requests)
        assert keyed("reader", method, "/v1/responses/resp_1").status_code == 403
        assert len(upstream.requests) == before
        assert keyed("admin", method, "/v1/responses/resp_1").status_code == 200
        assert (upstream.last.method, upstream.last.target) == (method, "/v1/responses/resp_1")


def test_a_page_of_items_that_does_not_exist_is_404(sdk: OpenAI, http: httpx.Client, cited: FakeUpstream) -> None:
    id = sdk.responses.create(model="rag/m", input=QUESTION).id
    response = http.get(f"/v1/responses/{id}/input_items", params={"after": "msg_1"})
    assert error_of(response, 404)["code"] == "response_not_found"
