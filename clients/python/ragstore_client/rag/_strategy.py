"""Which text stands for a user's message when archives are searched."""

from __future__ import annotations

import logging
from typing import Literal

import msgspec

logger = logging.getLogger("ragstore_client.rag")

Strategy = Literal["first message (raw query)", "follow-up (contextualized topic)"]


class QueryChoice(msgspec.Struct, frozen=True):
    """The text to embed.

    Attributes:
        text: the text.
        strategy: why this one.
    """

    text: str
    strategy: Strategy


def choose_query(user_message: str, current_topic: str | None = None) -> QueryChoice:
    """Choose the text to embed, and log why; never the text.

    A first message says all there is to say. A follow-up ("does it work with that, too?") means nothing without what
    came before, so the topic that the conversation has accumulated stands in for it.

    Args:
        user_message: what the user wrote.
        current_topic: the accumulated topic; None, empty or blank when there is none yet.

    Returns:
        The message as it is, or the topic with its white space normalised.
    """
    topic = " ".join((current_topic or "").split())
    choice = (
        QueryChoice(topic, "follow-up (contextualized topic)")
        if topic
        else QueryChoice(user_message, "first message (raw query)")
    )
    logger.info("Query strategy: %s", choice.strategy)
    return choice
