"""A long question is searched by its beginning, and the upstream gets all of it."""

from __future__ import annotations

import json
from typing import Any

import pytest
from msgspec import Raw

from ragstore.kit.time_slices import run_whole
from ragstore_client.context import Numbered
from ragstore_gateway.chat.conversation import MAX_QUESTION_BYTES, Conversation, read_conversation
from tests.gateway.chat.test_streams import PASSAGES

STYLE = Numbered()
IMAGE = {"type": "image_url", "image_url": {"url": "data:,x"}}


def conversation(content: object, *, ascii_only: bool = True) -> Conversation:
    messages = [{"role": "user", "content": "Earlier"}, {"role": "user", "content": content, "name": "a"}]
    found = run_whole(read_conversation(Raw(json.dumps(messages, ensure_ascii=ascii_only).encode())))
    assert found is not None
    return found


def sent(found: Conversation) -> list[Any]:
    """The messages for the upstream, with sources."""
    text = STYLE.text(found.question, PASSAGES)
    decoded: list[Any] = json.loads(bytes(found.augmented(STYLE.system, text, keep_history=True)))
    return decoded


@pytest.mark.parametrize("ascii_only", [True, False])
@pytest.mark.parametrize("word", ["boiler ", "k\u00e4se ", '"\\\n', "\U0001f600"])
def test_the_beginning_is_the_question_and_the_upstream_gets_the_whole(word: str, ascii_only: bool) -> None:
    text = word * 30_000
    found = conversation(text, ascii_only=ascii_only)
    assert text.startswith(found.question)
    assert MAX_QUESTION_BYTES - 4 < len(found.question.encode()) <= MAX_QUESTION_BYTES
    last = sent(found)[-1]
    assert last["content"] == STYLE.text(text, PASSAGES)
    assert last["name"] == "a"


def test_a_long_question_in_parts_is_joined_and_keeps_its_image() -> None:
    part = "boiler " * 6_000
    found = conversation([{"type": "text", "text": part}, IMAGE, {"type": "text", "text": part}])
    assert len(found.question.encode()) == MAX_QUESTION_BYTES
    content = sent(found)[-1]["content"]
    assert content == [{"type": "text", "text": STYLE.text(f"{part}\n{part}", PASSAGES)}, IMAGE]


def test_a_system_message_is_added_to_a_long_question_unchanged() -> None:
    text = "boiler " * 30_000
    messages = json.loads(bytes(conversation(text).with_system("Be brief.", keep_history=True)))
    assert [message["content"] for message in messages] == ["Be brief.", "Earlier", text]


def test_a_short_question_is_whole() -> None:
    found = conversation("boiler")
    assert (found.question, found.whole) == ("boiler", b"")


def test_a_text_that_begins_with_more_blanks_than_a_question_may_have_is_no_question() -> None:
    messages = json.dumps([{"role": "user", "content": " " * MAX_QUESTION_BYTES + "boiler"}]).encode()
    assert run_whole(read_conversation(Raw(messages))) is None
