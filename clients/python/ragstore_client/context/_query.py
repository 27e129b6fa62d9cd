"""Chooses the text that is searched for: the question, or the topic that a conversation has accumulated."""

from __future__ import annotations

import asyncio
import inspect
import logging
from collections.abc import Awaitable, Callable, Sequence
from typing import TypeAlias, cast

from ragstore_client._exceptions import describe
from ragstore_client.context._messages import Message, text_of
from ragstore_client.rag._connections import LoopThread

logger = logging.getLogger("ragstore_client.context")

Summarise: TypeAlias = Callable[[Sequence[Message]], "str | Awaitable[str]"]


class TopicTracker:
    """Accumulates the topic of a conversation, so that a follow-up ("does it support that, too?") can be searched for.

    It has no state: a topic is made of the messages that are given.

    Args:
        summarise: makes the topic of messages, by a model in practice; a coroutine function, or a plain one, which runs
            in a thread. When it is None, fails, or takes too long, the last messages of the user are joined.
        max_characters: maximum length of joined messages.
        timeout_seconds: time limit of `summarise`.
        loop_thread: runs `topic_sync`; a new thread, when it is called, when None.
    """

    def __init__(
        self,
        summarise: Summarise | None = None,
        *,
        max_characters: int = 1000,
        timeout_seconds: float = 6.0,
        loop_thread: LoopThread | None = None,
    ) -> None:
        self._summarise = summarise
        self._loop_thread = loop_thread or LoopThread()
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

    def topic_sync(self, messages: Sequence[Message]) -> str | None:
        """The topic of a conversation, for synchronous callers. See `topic`."""
        return self._loop_thread.run(self.topic(messages))

    async def _summary(self, messages: Sequence[Message]) -> str:
        if self._summarise is None:
            return ""
        try:
            async with asyncio.timeout(self._timeout_seconds):
                made: str | Awaitable[str]
                if inspect.iscoroutinefunction(self._summarise):
                    made = self._summarise(messages)
                else:
                    made = await asyncio.to_thread(
                        cast("Callable[[Sequence[Message]], str]", self._summarise), messages
                    )
                return " ".join((await made if isinstance(made, Awaitable) else made).split())
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
