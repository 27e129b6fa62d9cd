"""The choice of the text that is embedded for a user's message."""

from __future__ import annotations

import logging
from typing import Literal

import msgspec

logger = logging.getLogger("ragstore_client.rag")

Strategy = Literal["first message (raw query)", "follow-up (contextualized topic)"]


class QueryChoice(msgspec.Struct, frozen=True):
    """The text to embed.

    Attributes:
        strategy: why it was chosen.
    """

    text: str
    strategy: Strategy


def choose_query(user_message: str, current_topic: str | None = None) -> QueryChoice:
    """Choose the text to embed. The strategy is logged, never the text.

    A first message is complete in itself. A follow-up ("does it work with that, too?") means nothing without the
    messages before it, so the topic that the conversation has accumulated is used in its place.

    Args:
        user_message: the user's message.
        current_topic: the accumulated topic; None, empty or blank when there is none yet.

    Returns:
        The unchanged message, or the topic with its white space normalised.
    """
    topic = " ".join((current_topic or "").split())
    choice = (
        QueryChoice(topic, "follow-up (contextualized topic)")
        if topic
        else QueryChoice(user_message, "first message (raw query)")
    )
    logger.info("Query strategy: %s", choice.strategy)
    return choice
