"""`PlainModels`: `rag/X` where X is no assistant. It is an assistant with defaults, which the settings choose."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

from msgspec import Raw, structs

from ragstore_gateway.chat.rag_models import Augmentation, Caller, no_question
from ragstore_gateway.configurations.assistant import Assistant, RagDefaults, Task
from ragstore_gateway.configurations.configuration import Configuration
from ragstore_gateway.configurations.knowledge_base import KnowledgeBase
from ragstore_gateway.retrieval.assistant import AssistantModel, AssistantServices, unsaved
from ragstore_gateway.settings import Settings

TASK: Final = "rag"
"""Id of the task, in traces."""


def plain_assistant(settings: Settings) -> Assistant:
    """The assistant that the settings describe. Its name is empty, which no stored one has.

    Args:
        settings: the settings `RAGSTORE_GATEWAY_RAG_*`.
    """
    task = Task(
        id=TASK,
        enable_workflow_rag=True,
        rag_defaults=RagDefaults(max_results=settings.rag_top_k, min_score=(1 + settings.rag_similarity_threshold) / 2),
        diversity=settings.rag_diversity or None,
        where=settings.rag_where,
    )
    return Assistant(
        name="",
        workflow=list(settings.collections),
        prompt_style="sources",
        # The flow that plain models follow has no system message without passages.
        empty_context="silent",
        tasks=[task],
    )


class PlainModel(AssistantModel):
    """A plain `rag/` model.

    Args:
        upstream_models: the upstream's models that may serve it, best first.
        services: the services that it uses.
    """

    def __init__(self, upstream_models: Sequence[str], services: AssistantServices) -> None:
        super().__init__(unsaved(plain_assistant(services.settings)), services)
        self._upstream_models = upstream_models

    @property
    def upstream_models(self) -> Sequence[str]:
        """The upstream's models that may serve it, best first."""
        return self._upstream_models

    @property
    def no_upstream_model(self) -> str:
        """One sentence for the caller; see `RagModel`."""
        tried = ", ".join(map(repr, self._upstream_models))
        return f"There is no such assistant, and the model server has none of the models {tried}"

    def without_question(self, messages: Raw | None) -> Augmentation:
        """The messages unchanged; see `RagModel`."""
        return no_question()

    async def _found(self, caller: Caller) -> tuple[Assistant, Mapping[str, Configuration[KnowledgeBase]]]:
        """The assistant with the bases that exist for the caller."""
        assistant, bases = await super()._found(caller)
        return structs.replace(assistant, workflow=[name for name in self.body.workflow if name in bases]), bases


class PlainModels:
    """Makes plain `rag/` models.

    Args:
        services: the services that they use.
    """

    def __init__(self, services: AssistantServices) -> None:
        self._services = services

    def model(self, upstream_models: Sequence[str]) -> PlainModel:
        """A plain `rag/` model; see `PlainModels` of chats."""
        return PlainModel(upstream_models, self._services)
