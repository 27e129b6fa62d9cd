"""`Workflow`: the knowledge bases of an assistant, and which of them a task searches with which parameters."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Final

from ragstore.kit.auth.name_patterns import ALL_NAMES, NamePatterns
from ragstore_gateway.api.request_variables import RequestVariables
from ragstore_gateway.configurations.assistant import Assistant, RagDefaults, Task, WorkflowBase
from ragstore_gateway.configurations.configuration import Configuration
from ragstore_gateway.configurations.configurations import Configurations
from ragstore_gateway.configurations.knowledge_base import KnowledgeBase
from ragstore_gateway.engines.engine_collection import MAX_PASSAGES
from ragstore_gateway.errors import ConfigurationNotFound
from ragstore_gateway.retrieval.ranking import FAN_OUT
from ragstore_gateway.retrieval.retriever import BaseQuery

MAX_PINNED: Final = 1000
"""Maximum number of versions of knowledge bases that are kept. A version never changes."""


@dataclass(frozen=True, slots=True)
class TaskSearch:
    """A search that a task needs.

    Attributes:
        name: name of the knowledge base.
        query: the search; None if there is no such base.
        max_results: maximum number of passages. A ranking chooses them among more passages.
    """

    name: str
    query: BaseQuery | None
    max_results: int = 0


class Workflows:
    """Looks the knowledge bases of workflows up.

    Args:
        bases: the knowledge bases.
    """

    def __init__(self, bases: Configurations[KnowledgeBase]) -> None:
        self._bases = bases
        self._pinned: dict[tuple[str, int], Configuration[KnowledgeBase]] = {}

    async def bases_of(
        self, assistant: Assistant, visible: NamePatterns = ALL_NAMES
    ) -> dict[str, Configuration[KnowledgeBase]]:
        """The bases of an assistant's workflow, by name: the current version, unless the workflow names one.

        Args:
            visible: the names of the bases that exist for the caller.

        Returns:
            The bases. One that is deleted, has another name now, or does not exist for the caller, is absent.

        Raises:
            DatabaseUnavailable: the database cannot be used.
        """
        found = await self._bases.find_all_by_name(
            [each.name for each in assistant.bases if visible.matches(each.name)]
        )
        for each in assistant.bases:
            if each.version and each.name in found:
                pinned = await self._version(each, found[each.name])
                if pinned is None:
                    del found[each.name]
                else:
                    found[each.name] = pinned
        return found

    async def _version(
        self, entry: WorkflowBase, current: Configuration[KnowledgeBase]
    ) -> Configuration[KnowledgeBase] | None:
        if entry.version == current.version:
            return current
        key = current.id, entry.version
        if key not in self._pinned:
            try:
                read = await self._bases.read(current.id, entry.version)
            except ConfigurationNotFound:
                return None
            while len(self._pinned) >= MAX_PINNED:
                del self._pinned[next(iter(self._pinned))]
            self._pinned[key] = read
        return self._pinned[key]


def searches_of(
    task: Task,
    assistant: Assistant,
    bases: Mapping[str, Configuration[KnowledgeBase]],
    variables: RequestVariables,
    *,
    all_texts: bool = False,
) -> Sequence[TaskSearch] | None:
    """The searches of a task. Explicit references override a base's own parameters; `ragDefaults` do for all bases.

    Args:
        bases: the bases of the workflow.
        variables: the variables of the request.
        all_texts: whether passages below the minimum relevance keep their texts.

    Returns:
        The searches; None if the task searches no knowledge base.
    """
    # One passage of each source: others may have several among the nearest.
    chooses = task.rerank is not None or task.diversity is not None or assistant.prompt_style == "sources"
    search = partial(_search, bases=bases, task=task, variables=variables, chooses=chooses, all_texts=all_texts)
    if task.knowledge_bases:
        return [search(each.name, each.max_results, each.min_score) for each in task.knowledge_bases]
    if not task.enable_workflow_rag:
        return None
    defaults = task.rag_defaults or RagDefaults()
    return [search(each.name, defaults.max_results, defaults.min_score) for each in assistant.bases]


def _search(
    name: str,
    max_results: int | None,
    min_score: float | None,
    *,
    bases: Mapping[str, Configuration[KnowledgeBase]],
    task: Task,
    variables: RequestVariables,
    chooses: bool,
    all_texts: bool,
) -> TaskSearch:
    """A search of a task.

    Args:
        chooses: whether passages are chosen among more passages.
    """
    base = bases.get(name)
    if base is None:
        return TaskSearch(name, None)
    count = base.body.max_results if max_results is None else max_results
    score = base.body.min_score if min_score is None else min_score
    fetched = min(FAN_OUT * count, MAX_PASSAGES) if chooses else count
    query = BaseQuery.of(
        base,
        max(count, fetched),
        score,
        variables,
        filters=[task.where],
        with_vectors=task.diversity is not None,
        chunks_only=True,
        all_texts=all_texts,
    )
    return TaskSearch(name, query, count)
