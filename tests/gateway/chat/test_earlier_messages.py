"""The texts of the user's earlier messages, which are searched for together with the question."""

from __future__ import annotations

from typing import Any

import msgspec
from msgspec import Raw

from ragstore_gateway.chat.conversation import MAX_EARLIER_CHARACTERS, read_conversation


def earlier(*messages: tuple[str, Any]) -> list[str]:
    """The earlier messages of a conversation."""
    given = [{"role": role, "content": content} for role, content in messages]
    steps = read_conversation(Raw(msgspec.json.encode(given)))
    while True:
        try:
            next(steps)
        except StopIteration as end:
            return list(end.value.earlier)


def test_the_messages_of_the_user_are_in_their_order_without_the_question() -> None:
    assert earlier(
        ("system", "s"), ("user", "first"), ("assistant", "a"), ("user", "second"), ("assistant", "b"), ("user", "last")
    ) == ["first", "second"]


def test_a_first_question_has_no_earlier_messages() -> None:
    assert earlier(("system", "s"), ("user", "only")) == []


def test_parts_that_are_not_text_and_empty_messages_are_left_out() -> None:
    parts = [{"type": "text", "text": "one"}, {"type": "image_url", "image_url": {}}, {"type": "text", "text": "two"}]
    assert earlier(("user", parts), ("user", ""), ("user", None), ("user", "last")) == ["one\ntwo"]


def test_the_latest_messages_count_and_long_ones_by_their_beginning() -> None:
    long = "b" * (MAX_EARLIER_CHARACTERS + 1000)
    assert earlier(("user", "a"), ("user", long), ("user", "last")) == [long[:MAX_EARLIER_CHARACTERS]]
    found = earlier(("user", "old"), *[("user", "c" * 1500)] * 4, ("user", "last"))
    assert found == ["c" * 1500] * 3
