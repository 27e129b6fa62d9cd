"""The topic of a conversation."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Sequence

from hypothesis import given
from hypothesis import strategies as st

from ragstore_client.context import TopicTracker
from ragstore_client.context._messages import Message
from ragstore_client.context._query import join_last
from tests.client.context.virtual_clock import run_virtually

FIRST: list[Message] = [{"role": "system", "content": "Be brief."}, {"role": "user", "content": "What is InstructLab?"}]
FOLLOW_UP: list[Message] = [
    *FIRST,
    {"role": "assistant", "content": "A method."},
    {
        "role": "user",
        "content": [{"type": "text", "text": "Does it integrate with OpenShift AI?"}, {"type": "image_url"}],
    },
]
JOINED = "What is InstructLab? Does it integrate with OpenShift AI?"


def topic(tracker: TopicTracker, messages: Sequence[Message] = FOLLOW_UP) -> str | None:
    return run_virtually(tracker.topic(messages))


def test_the_first_question_has_no_topic() -> None:
    assert topic(TopicTracker(lambda _: "never used"), FIRST) is None


def test_a_summary_of_the_messages_is_the_topic() -> None:
    assert TopicTracker(lambda messages: f" {len(messages)}  messages\n").topic_sync(FOLLOW_UP) == "4 messages"


def test_a_function_that_summarises_blocks_neither_the_event_loop_nor_the_chat() -> None:
    release = threading.Event()

    def blocks(_: Sequence[Message]) -> str:
        release.wait(30)
        return "too late"

    async def run() -> tuple[str | None, bool]:
        waiting = asyncio.create_task(TopicTracker(blocks, timeout_seconds=0.05).topic(FOLLOW_UP))
        await asyncio.sleep(0)
        loop_is_free = not waiting.done()
        found = await waiting
        release.set()
        return found, loop_is_free

    assert asyncio.run(run()) == (JOINED, True)


def test_a_summary_may_be_a_coroutine() -> None:
    async def summarise(messages: Sequence[Message]) -> str:
        await asyncio.sleep(1)
        return "InstructLab and OpenShift AI integration"

    assert topic(TopicTracker(summarise)) == "InstructLab and OpenShift AI integration"


def test_without_a_summary_the_last_questions_are_joined() -> None:
    assert topic(TopicTracker()) == JOINED


def test_a_summary_that_fails_or_hangs_or_is_empty_is_replaced_by_the_last_questions() -> None:
    def fails(_: Sequence[Message]) -> str:
        raise ZeroDivisionError

    async def hangs(_: Sequence[Message]) -> str:
        await asyncio.sleep(3600)
        return ""

    assert topic(TopicTracker(hangs)) == JOINED
    assert TopicTracker(fails).topic_sync(FOLLOW_UP) == TopicTracker(lambda _: " ").topic_sync(FOLLOW_UP) == JOINED


@given(st.lists(st.text(max_size=30), max_size=8), st.integers(1, 80))
def test_joined_questions_are_the_last_ones_within_the_bound(questions: list[str], max_characters: int) -> None:
    joined = join_last(questions, max_characters)
    assert len(joined) <= max_characters
    assert " ".join(" ".join(questions).split()).endswith(joined)


def test_a_question_is_not_cut_to_fit_another_one() -> None:
    assert join_last(["An early question", "late"], 12) == "late"
