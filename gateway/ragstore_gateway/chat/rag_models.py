"""`rag/` models: what a name after the prefix means, and what it adds to a conversation."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final, Protocol

from msgspec import Raw

from ragstore.kit.auth.name_patterns import ALL_NAMES, NamePatterns
from ragstore_gateway.api.request_variables import RequestVariables
from ragstore_gateway.chat.conversation import Conversation
from ragstore_gateway.chat.prompt_passage import PromptPassage


@dataclass(frozen=True, slots=True)
class Augmentation:
    """The passages that retrieval adds to a conversation.

    Attributes:
        messages: the messages for the upstream; None for the caller's messages, unchanged.
        passages: the passages in the messages; their numbers are what a response may cite.
        reason: why there are no passages; empty if there are some.
        failed: whether that is a failure, and not a lack of passages.
        debug: ids, metadata and scores of the passages, without texts.
        list_sources: whether the response ends with a list of the sources that it cites.
    """

    messages: Raw | None = None
    passages: Sequence[PromptPassage] = ()
    reason: str = ""
    failed: bool = False
    debug: dict[str, object] = field(default_factory=dict)
    list_sources: bool = False

    @property
    def source_count(self) -> int:
        """The number of sources of the passages: each one has a number of its own."""
        return len({passage.number for passage in self.passages})


@dataclass(frozen=True, slots=True)
class Caller:
    """Where a chat comes from.

    Attributes:
        key: name of the caller's key; empty without keys.
        request_id: id of the request.
        conversation_id: the conversation that the request names; empty for none.
        bases: names of the knowledge bases that exist for the caller.
        origin: scheme and host of the gateway, as the caller reaches it; empty if unknown.
        session_id: the session of the request; empty for none.
        user: the user that the request names; empty for none.
    """

    key: str = ""
    request_id: str = ""
    conversation_id: str = ""
    bases: NamePatterns = ALL_NAMES
    origin: str = ""
    session_id: str = ""
    user: str = ""

    @property
    def variables(self) -> RequestVariables:
        """The variables of filters."""
        return RequestVariables(self.session_id, self.conversation_id, self.user, self.key)


class Complete(Protocol):
    """Requests a completion of the model that serves a chat."""

    async def __call__(self, system: str, text: str) -> str:
        """The reply of the model; empty if it has none.

        Args:
            system: the system message.
            text: the message of the user.

        Raises:
            ServiceError: the model server failed, or the caller's key has no tokens left.
        """


class RagModel(Protocol):
    """A model with retrieval."""

    @property
    def upstream_models(self) -> Sequence[str]:
        """The upstream's models that may serve it, best first."""

    @property
    def no_upstream_model(self) -> str:
        """One sentence for the caller of a model that the upstream has no model for."""

    async def augment(
        self, conversation: Conversation, caller: Caller, complete: Complete | None = None
    ) -> Augmentation:
        """Retrieve passages for a conversation, and add them.

        It is bounded in time, and returns an augmentation with a reason where it fails.

        Args:
            caller: where it comes from.
            complete: requests completions; None if there is no model for that.

        Raises:
            AuditUnavailable: the retrieval must be in the audit ledger, and cannot be written there.
        """

    def without_question(self, messages: Raw | None) -> Augmentation:
        """The augmentation of a conversation without a question."""


class RagModels(Protocol):
    """A set of named models with retrieval: the assistants."""

    async def upstream_models(self) -> Mapping[str, str]:
        """The upstream's model of each one, by name without the prefix; empty for one that has none.

        Raises:
            DatabaseUnavailable: the models are unknown.
        """

    async def find(self, name: str) -> RagModel | None:
        """Look a model up.

        Args:
            name: its name, without the prefix.

        Returns:
            The model; None if there is none.

        Raises:
            DatabaseUnavailable: whether there is one is unknown.
        """


class PlainModels(Protocol):
    """The models with retrieval that have no name of their own: `rag/X` where X is no assistant."""

    def model(self, upstream_models: Sequence[str]) -> RagModel:
        """A model.

        Args:
            upstream_models: the upstream's models that may serve it, best first.
        """


NO_QUESTION: Final = "no_question"


def no_question(messages: Raw | None = None) -> Augmentation:
    """An augmentation without a question.

    Args:
        messages: the messages for the upstream; None for the caller's messages, unchanged.
    """
    return Augmentation(messages, reason=NO_QUESTION, debug={"used": False, "reason": NO_QUESTION})


class NoRagModels:
    """An empty set."""

    async def upstream_models(self) -> Mapping[str, str]:
        """No models."""
        return {}

    async def find(self, name: str) -> RagModel | None:
        """No model."""
        return None
