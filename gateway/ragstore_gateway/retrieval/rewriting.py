"""`rewritten`: a question that a model makes of a conversation."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from typing import Final

import aiohttp
import structlog

from ragstore.kit.errors import ServiceError
from ragstore_gateway.chat.conversation import MAX_EARLIER_CHARACTERS, Conversation, transcript
from ragstore_gateway.chat.rag_models import Complete
from ragstore_gateway.retrieval import metrics
from ragstore_gateway.retrieval.question import Question

MAX_MESSAGE: Final = 1_000
"""Maximum number of characters of each message before the question that the model reads."""

MAX_QUESTION: Final = 2_000
"""Maximum number of characters of a question that the model has made. A longer one is a reply, and is not used."""

SHARE: Final = 0.5
"""The share of the time of a retrieval that the model has, so that the search has the rest."""

_log = structlog.get_logger(__name__)


async def rewritten(
    question: Question, conversation: Conversation, complete: Complete | None, prompt: str, seconds: float
) -> Question:
    """A question with what a model makes of it. Without earlier messages, or if the model fails, it is unchanged.

    Args:
        complete: requests completions; None if there is no model for that.
        prompt: the system message.
        seconds: time limit of the whole retrieval.
    """
    if complete is None or not question.earlier:
        return question
    try:
        async with asyncio.timeout(SHARE * seconds):
            found = await complete(prompt, transcript(conversation, MAX_EARLIER_CHARACTERS, MAX_MESSAGE))
    except (ServiceError, aiohttp.ClientError, TimeoutError) as error:
        metrics.REWRITE_FAILURES.inc()
        _log.warning("question not rewritten", error=type(error).__name__)
        return question
    text = " ".join(found.split())
    if not text or len(text) > MAX_QUESTION:
        metrics.REWRITE_FAILURES.inc()
        _log.warning("question not rewritten", error="empty" if not text else "too long")
        return question
    return replace(question, rewritten=text)
