"""`rag/` models: what a name after the prefix means, and what it adds to a conversation."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Protocol

from msgspec import Raw

from ragstore_client.context import ContextPassage
from ragstore_gateway.chat.conversation import Conversation


@dataclass(frozen=True, slots=True)
class Augmentation:
    """The passages that retrieval adds to a conversation.

    Attributes:
        messages: the messages for the upstream; None for those of the caller, unchanged.
        passages: the passages in the messages; their numbers are what a response may cite.
        reason: why there are no passages; empty if there are some.
        failed: whether that is a failure, and not a lack of passages.
        debug: ids, metadata and scores of the passages, without texts.
    """

    messages: Raw | None = None
    passages: Sequence[ContextPassage] = ()
    reason: str = ""
    failed: bool = False
    debug: dict[str, object] = field(default_factory=dict)


class RagModel(Protocol):
    """A model with retrieval."""

    @property
    def upstream_models(self) -> Sequence[str]:
        """The upstream's models that may serve it, best first."""

    async def augment(self, conversation: Conversation) -> Augmentation:
        """Retrieve passages for a conversation, and add them.

        It is bounded in time, and returns an augmentation with a reason where it fails.

        Args:
            conversation: the conversation.
        """


class RagModels(Protocol):
    """A set of named models with retrieval: the assistants."""

    async def names(self) -> Sequence[str]:
        """The names, without the prefix."""

    async def find(self, name: str) -> RagModel | None:
        """Look a model up.

        Args:
            name: its name, without the prefix.
        """


class NoRagModels:
    """An empty set."""

    async def names(self) -> Sequence[str]:
        """No names."""
        return ()

    async def find(self, name: str) -> RagModel | None:
        """No model."""
        return None
