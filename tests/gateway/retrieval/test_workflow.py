"""The knowledge bases that a task searches, and its parameters."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import msgspec

from ragstore_gateway.api.request_variables import NO_VARIABLES
from ragstore_gateway.configurations.assistant import Assistant
from ragstore_gateway.configurations.configuration import Configuration
from ragstore_gateway.configurations.knowledge_base import KnowledgeBase
from ragstore_gateway.retrieval.workflow import searches_of

NOW = datetime.now(UTC)


def base(name: str, max_results: int, min_score: float) -> Configuration[KnowledgeBase]:
    body = KnowledgeBase(name=name, max_results=max_results, min_score=min_score)
    return Configuration(f"id-{name}", 1, 1, body, NOW, NOW, deleted=False)


BASES = {each.body.name: each for each in (base("docs", 7, 0.7), base("faq", 5, 0.6))}


def parameters(**task: Any) -> list[tuple[str, int, float] | str] | None:
    given = {"name": "a", "workflow": ["docs", "faq", "gone"], "tasks": [{"id": "t", **task}]}
    assistant = msgspec.convert(given, Assistant)
    searches = searches_of(assistant.tasks[0], assistant, BASES, NO_VARIABLES)
    if searches is None:
        return None
    return [
        each.name if each.query is None else (each.name, each.query.max_results, each.query.min_score)
        for each in searches
    ]


def test_explicit_references_name_bases_and_override_their_parameters() -> None:
    references = [{"name": "faq", "maxResults": 3}, {"name": "docs", "minScore": 0.1}]
    assert parameters(knowledgeBases=references) == [("faq", 3, 0.6), ("docs", 7, 0.1)]


def test_a_zero_overrides_too() -> None:
    assert parameters(knowledgeBases=[{"name": "docs", "minScore": 0.0}]) == [("docs", 7, 0.0)]


def test_enable_workflow_rag_takes_all_bases_of_the_workflow() -> None:
    assert parameters(enableWorkflowRag=True) == [("docs", 7, 0.7), ("faq", 5, 0.6), "gone"]


def test_rag_defaults_precede_each_bases_own_values() -> None:
    defaults = {"maxResults": 2}
    assert parameters(enableWorkflowRag=True, ragDefaults=defaults)[:2] == [("docs", 2, 0.7), ("faq", 2, 0.6)]  # type: ignore[index]


def test_explicit_references_precede_enable_workflow_rag_and_its_defaults() -> None:
    found = parameters(knowledgeBases=[{"name": "faq"}], enableWorkflowRag=True, ragDefaults={"maxResults": 1})
    assert found == [("faq", 5, 0.6)]


def test_without_either_no_base_is_searched() -> None:
    assert parameters(httpCallRag="x") is None


def test_a_ranking_chooses_among_three_times_the_results() -> None:
    rerank = {"provider": "tei", "baseUrl": "http://r"}
    assert parameters(knowledgeBases=[{"name": "docs"}], diversity=0.5) == [("docs", 21, 0.7)]
    assert parameters(knowledgeBases=[{"name": "docs"}], rerank=rerank) == [("docs", 21, 0.7)]
