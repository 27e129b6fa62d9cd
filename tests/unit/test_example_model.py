"""The example model quotes the passages of the prompts of the gateway."""

from __future__ import annotations

from examples.extractive_model import reply_to
from ragstore_gateway.engines.engine_collection import Passage
from ragstore_gateway.retrieval.context import RELEVANT_CONTEXT, formatted


def test_it_quotes_the_passages_of_an_assistants_prompt() -> None:
    texts = ["The kettle is warm.", "The roof is inspected in April."]
    passages = [
        Passage(str(number), text, 0.9, {"document_name": f"{number}.txt", "document_id": str(number)}, base="docs")
        for number, text in enumerate(texts)
    ]
    system = f"You are helpful.{RELEVANT_CONTEXT}{formatted(passages)}"
    assert reply_to(f"How often is the roof inspected?\n{system}") == "The roof is inspected in April. [2]"
