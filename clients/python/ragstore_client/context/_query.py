"""Chooses the text that is searched for: the question, or the topic that a conversation has accumulated."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Sequence
from typing import TypeAlias

from ragstore_client._exceptions import describe
from ragstore_client.context._messages import Message, text_of

logger = logging.getLogger("ragstore_client.context")

Summarise: TypeAlias = Callable[[Sequence[Message]], "str | Awaitable[str]"]


class TopicTracker:
    """Accumulates the topic of a conversation, so that a follow-up ("does it support that, too?") can be searched for.

    It has no state: a topic is made of the messages that are given.

    Args:
        summarise: makes the topic of messages, by a model in practice; a function or a coroutine function. When it is
            None, fails, or takes too long, the last messages of the user are joined.
        max_characters: maximum length of joined messages.
        timeout_seconds: time limit of `summarise`.
    """

    def __init__(
        self, summarise: Summarise | None = None, *, max_characters: int = 1000, timeout_seconds: float = 6.0
    ) -> None:
        self._summarise = summarise
        self._max_characters = max_characters
        self._timeout_seconds = timeout_seconds

    async def topic(self, messages: Sequence[Message]) -> str | None:
        """The topic of a conversation.

        Args:
            messages: the conversation, the current question last.

        Returns:
            The topic; None for the first question of a conversation, which is searched for as it is.
        """
        texts = [text_of(message).strip() for message in messages if message.get("role") == "user"]
        questions = [text for text in texts if text]
        if len(questions) < 2:
            return None
        return await self._summary(messages) or join_last(questions, self._max_characters)

    async def _summary(self, messages: Sequence[Message]) -> str:
        if self._summarise is None:
            return ""
        try:
            async with asyncio.timeout(self._timeout_seconds):
                made = self._summarise(messages)
                return " ".join((made if isinstance(made, str) else await made).split())
        except Exception as error:  # noqa: BLE001 - a summary is third-party code, and may raise anything
            logger.warning("Summarising the topic failed, using the last questions: %s", describe(error))
            return ""


def join_last(questions: Sequence[str], max_characters: int) -> str:
    """Join the last questions within a maximum length.

    Args:
        questions: the questions of the user, the current one last.
        max_characters: maximum length.

    Returns:
        As many whole questions as fit, in their order; the end of the current question if that alone does not fit.
    """
    chosen: list[str] = []
    length = 0
    for question in reversed([normal for question in questions if (normal := " ".join(question.split()))]):
        length += len(question) + (1 if chosen else 0)
        if chosen and length > max_characters:
            break
        chosen.append(question)
    return " ".join(reversed(chosen))[-max_characters:].strip()
