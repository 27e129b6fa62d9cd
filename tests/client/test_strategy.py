"""The choice of the text to search for. The tests are named after the scenarios of the specification."""

from __future__ import annotations

import pytest

from ragstore_client import choose_query
from tests.client.corpus import CANARY_QUERY


def test_first_message_query_strategy(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level("INFO"):
        choice = choose_query(f"  What is {CANARY_QUERY}?  ")
    assert choice.text == f"  What is {CANARY_QUERY}?  "
    assert choice.strategy == "first message (raw query)"
    assert "first message (raw query)" in caplog.text


def test_follow_up_message_query_strategy(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level("INFO"):
        choice = choose_query(CANARY_QUERY, "InstructLab and OpenShift AI integration")
    assert choice.text == "InstructLab and OpenShift AI integration"
    assert "follow-up (contextualized topic)" in caplog.text


def test_pronoun_resolution_via_topic_context() -> None:
    choice = choose_query("Does it integrate with OpenShift AI?", " InstructLab  and\nOpenShift AI integration ")
    assert choice.text == "InstructLab and OpenShift AI integration"


@pytest.mark.parametrize("blank", [None, "", " ", "\n\t "])
def test_query_text_selection_logic_treats_a_blank_topic_as_none(blank: str | None) -> None:
    choice = choose_query("raw", blank)
    assert (choice.text, choice.strategy) == ("raw", "first message (raw query)")
