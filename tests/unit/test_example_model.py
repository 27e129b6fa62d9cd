"""The example model quotes the passages of the prompts of the gateway, in each of their forms."""

from __future__ import annotations

import pytest

from examples.extractive_model import Message, prompt_of, reply_to
from ragstore_client.context import ContextPassage
from ragstore_gateway.engines.engine_collection import Passage
from ragstore_gateway.retrieval.context import RELEVANT_CONTEXT, SEARCH_RESULTS, formatted, search_results_label
from ragstore_gateway.retrieval.source_prompt import NamedSources, PlainSources

QUESTION = "How often is the roof inspected?"
TEXTS = ("The kettle is warm.", "The roof is inspected in April.")
PASSAGES = [
    Passage(text, text, 0.9, {"document_name": f"{number}.txt", "document_id": str(number)}, base="docs")
    for number, text in enumerate(TEXTS, 1)
]
SOURCES = [
    ContextPassage(id=text, text=text, citation=f"{number}.txt", number=number, tokens=10)
    for number, text in enumerate(TEXTS, 1)
]

CONTEXT = f"You are helpful.{RELEVANT_CONTEXT}{formatted(PASSAGES)}"
CALLED = f"You are helpful.{SEARCH_RESULTS}{search_results_label('roofs', 1)}\n{TEXTS[1]}"
PARTS = [{"type": "text", "text": QUESTION}, {"type": "image_url", "image_url": {"url": "data:,"}}]


@pytest.mark.parametrize("question", [QUESTION, PARTS])
@pytest.mark.parametrize(("system", "number"), [(CONTEXT, 2), (CALLED, 1)])
def test_it_quotes_the_passages_of_a_system_message(question: object, system: str, number: int) -> None:
    messages = [Message("system", system), Message("user", "Thanks!"), Message("user", question), Message("tool", "1")]
    assert reply_to(prompt_of(messages)) == f"The roof is inspected in April. [{number}]"


@pytest.mark.parametrize("style", [PlainSources(), NamedSources()])
def test_it_quotes_the_numbered_sources_of_a_question(style: PlainSources | NamedSources) -> None:
    prompt = f"Question: {QUESTION}\n\n{style.context(SOURCES)}"
    assert reply_to(prompt_of([Message("user", prompt)])) == "The roof is inspected in April. [2]"


def test_without_a_passage_it_says_so() -> None:
    assert reply_to(prompt_of([Message("user", QUESTION)])) == "There is no source for that."
