"""Steps of conversations."""

from __future__ import annotations

from typing import Any

from ragstore_gateway.conversations.step import HttpCallTrace, KnowledgeBaseTrace, PassageTrace, Step, TaskTrace

CONTEXT = "CANARY-TEXT of a passage"


def step(number: int = 0, conversation: str = "c-1", **fields: Any) -> Step:
    """A step with a trace of everything, and a context."""
    found = KnowledgeBaseTrace(
        kb="docs",
        id="b1",
        version=2,
        provider="local",
        store_type="ragstore",
        max_results=5,
        min_score=0.6,
        retrieved_count=1,
        passages=[PassageTrace(f"p{number}", 0.7312, "context", "d1", 1)],
    )
    task = TaskTrace(
        task="answer",
        knowledge_bases=[found, KnowledgeBaseTrace(kb="faq", error="timeout")],
        http_call=HttpCallTrace(http_call="search-api", context_length=12),
        context=CONTEXT,
    )
    given = {
        "conversation": conversation,
        "key": "ann",
        "request_id": f"r{number}",
        "assistant": "support",
        "assistant_id": "a1",
        "assistant_version": 3,
        "tasks": [task],
        **fields,
    }
    return Step(**given)
