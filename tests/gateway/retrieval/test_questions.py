"""Assistants search for a conversation, and not for small talk or for the tasks of chat clients."""

from __future__ import annotations

import json
import time
from collections.abc import Awaitable, Callable, Iterator
from typing import Any
from uuid import uuid4

import pytest

from ragstore_gateway.retrieval.assistant import unsearched
from ragstore_gateway.retrieval.question import MAX_SHORT, Question
from ragstore_gateway.settings import REWRITE_PROMPT
from tests.gateway.retrieval.conftest import Assisted
from tests.support.fake_upstream import Behaviour, Exchange, completion

WARRANTY = "How long is the warranty of the kettle?"


@pytest.fixture(scope="module")
def assisted(assistant_gateway: Assisted) -> Assisted:
    """The gateway, with a base of documents about several things."""
    documents = {
        "kettle.txt": "The warranty of the kettle lasts three years.",
        "toaster.txt": "The warranty of the toaster lasts one year.",
        "trains.txt": "The train to the airport costs four euros and takes twenty minutes.",
    }
    assistant_gateway.base("follow", documents, maxResults=1)
    for query in ("", "conversation", "last"):
        assistant_gateway.assistant(f"follow-{query or 'default'}", workflow=["follow"], query=query)
    return assistant_gateway


def chat(assisted: Assisted, model: str, *texts: str) -> dict[str, Any]:
    """Send the messages of a user, with replies between them; the details of the retrieval."""
    messages = []
    for text in texts:
        messages += [{"role": "user", "content": text}, {"role": "assistant", "content": "Indeed."}]
    body = {"model": f"rag/{model}", "messages": messages[:-1]}
    response = assisted.call("ann", "POST", "/v1/chat/completions", json=body)
    assert response.status_code == 200, response.text
    found: dict[str, Any] = response.json()["rag"]
    return found


@pytest.mark.parametrize("model", ["follow-default", "follow-conversation"])
def test_a_follow_up_is_searched_for_with_the_question_before_it(assisted: Assisted, model: str) -> None:
    chat(assisted, model, WARRANTY, "Is that the same in the third year?")
    assert "The warranty of the kettle" in assisted.system


def test_an_assistant_may_search_for_the_last_message_alone(assisted: Assisted) -> None:
    chat(assisted, "follow-last", WARRANTY, "How much does the ride to the airport cost?")
    assert "The train to the airport" in assisted.system
    assert "warranty" not in assisted.system


@pytest.mark.parametrize("text", ["hi", "Thanks!", "ok, thank you", "Danke", "!!"])
def test_small_talk_is_not_searched_for(assisted: Assisted, text: str) -> None:
    found = chat(assisted, "follow-default", WARRANTY, text)
    assert (found["used"], found["reason"]) == (False, "short_question")


def test_a_short_question_without_a_similar_passage_gets_none(assisted: Assisted) -> None:
    found = chat(assisted, "follow-default", "zzqx 55")
    assert (found["used"], found["reason"]) == (False, "short_question")
    assert chat(assisted, "follow-default", "kettle?")["used"] is True


def test_the_tasks_of_chat_clients_are_not_searched_for(assisted: Assisted) -> None:
    text = "### Task:\nGenerate 1-3 broad tags for the kettle.\n<chat_history>USER: kettle</chat_history>"
    found = chat(assisted, "follow-default", text)
    assert (found["used"], found["reason"]) == (False, "task")


def test_an_unknown_way_to_search_is_400(assisted: Assisted) -> None:
    response = assisted.call("root", "POST", "/ragstore/assistants", json={"name": "x", "query": "all", "tasks": [{}]})
    assert response.status_code == 400
    assert response.json()["errors"][0]["path"] == "$.query"


def test_a_search_of_a_base_takes_earlier_messages(assisted: Assisted) -> None:
    path = next(
        each["resource"].partition("?")[0]
        for each in assisted.call("ann", "GET", "/ragstore/rags/descriptors?filter=follow").json()
    )
    body = {"query": "And that of the other one?", "earlier": ["How long is the warranty of the toaster?"]}
    found = assisted.call("ann", "POST", f"{path}/query", json=body).json()["results"]
    assert found[0]["text"].startswith("The warranty of the toaster")


def test_a_question_is_embedded_with_the_end_of_all_messages() -> None:
    question = Question("last", ["a" * 5000, "before"])
    assert question.embedded == ["last", ("a" * 5000 + "\nbefore\nlast")[-4000:]]
    assert question.keywords == "before\nlast"
    assert Question("last").embedded == ["last"]


@pytest.mark.parametrize(("text", "short"), [("a" * MAX_SHORT, True), ("a" * (MAX_SHORT + 1), False), (" hi ", True)])
def test_the_length_of_a_short_question(text: str, short: bool) -> None:
    assert Question(text).is_short is short


REWRITTEN = "What does a ride to the airport cost?"


@pytest.fixture
def rewriting(assisted: Assisted) -> Iterator[str]:
    """An assistant that searches for what its model makes of a conversation; its model's name."""
    model = f"rewriter-{uuid4().hex[:8]}"
    assisted.assistant(model, workflow=["follow"], query="rewrite", model="m")
    yield model
    assisted.upstream.off("m")


def replies(*replies: str) -> Callable[[Exchange], Awaitable[None]]:
    """A behaviour of the upstream: these replies, one after the other."""
    left = list(replies)

    async def reply(exchange: Exchange) -> None:
        await exchange.respond(json.dumps(completion(left.pop(0))).encode())

    return reply


def test_a_model_rewrites_a_follow_up_and_its_question_is_searched_for(assisted: Assisted, rewriting: str) -> None:
    assisted.upstream.on("m", replies(f" {REWRITTEN}\n", "Four euros."))
    found = chat(assisted, rewriting, WARRANTY, "And the ride there?")
    assert "The train to the airport" in assisted.system
    assert found["searched"] == [REWRITTEN]
    request, answered = assisted.upstream.chats()[-2:]
    assert request.json["messages"] == [
        {"role": "system", "content": REWRITE_PROMPT},
        {"role": "user", "content": f"user: {WARRANTY}\nassistant: Indeed.\nuser: And the ride there?"},
    ]
    assert answered.json["messages"][-1] == {"role": "user", "content": "And the ride there?"}


def test_a_first_message_is_not_rewritten(assisted: Assisted, rewriting: str) -> None:
    assisted.upstream.on("m", replies("Three years."))
    assert chat(assisted, rewriting, WARRANTY)["searched"] == [WARRANTY]


@pytest.mark.parametrize("reply", ["", "word " * 500])
def test_a_reply_that_is_no_question_is_not_searched_for(assisted: Assisted, rewriting: str, reply: str) -> None:
    assisted.upstream.on("m", replies(reply, "Three years."))
    found = chat(assisted, rewriting, WARRANTY, "Is that the same in the third year?")
    assert found["searched"] == Question("Is that the same in the third year?", [WARRANTY]).embedded
    assert "The warranty of the kettle" in assisted.system


def test_a_model_that_fails_or_is_too_slow_leaves_the_conversation(assisted: Assisted, rewriting: str) -> None:
    for behaviour in (failing, hanging):
        calls = iter((behaviour, replies("Three years.")))

        async def next_one(exchange: Exchange, calls: Iterator[Behaviour] = calls) -> None:
            await next(calls)(exchange)

        assisted.upstream.on("m", next_one)
        started = time.monotonic()
        found = chat(assisted, rewriting, WARRANTY, "Is that the same in the third year?")
        assert (found["used"], len(found["searched"])) == (True, 2)
        assert time.monotonic() - started < 3, "it has half of the retrieval's three seconds"


async def failing(exchange: Exchange) -> None:
    await exchange.respond(b"{}", status="500 Internal Server Error")


async def hanging(exchange: Exchange) -> None:
    await exchange.until_closed()


def test_the_text_that_was_searched_for_is_in_a_conversation_whose_contexts_are_kept(
    assisted: Assisted, rewriting: str
) -> None:
    assisted.upstream.on("m", replies(REWRITTEN, "Four euros."))
    messages = [{"role": "user", "content": WARRANTY}, {"role": "user", "content": "And the ride there?"}]
    assisted.call(
        "ann",
        "POST",
        "/v1/chat/completions",
        json={"model": f"rag/{rewriting}", "messages": messages},
        headers={"X-Conversation-Id": rewriting},
    )
    assert assisted.data(rewriting)["rag:question"] == REWRITTEN


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("### Task:\nGenerate a title", "task"),
        ("  ### Task: x", "task"),
        ("Make a title: kettle", "task"),
        ("Who says '### Task:' to a kettle?", ""),
    ],
)
def test_patterns_say_which_requests_are_no_questions(text: str, reason: str) -> None:
    assert unsearched(Question(text), ["### Task:*", "Make a title:*"]) == reason
