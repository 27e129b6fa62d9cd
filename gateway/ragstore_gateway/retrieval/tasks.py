"""`TaskRetrieval`: what the tasks of an assistant add to the system message, and the trace of it."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Final

import structlog

from ragstore.kit.errors import ServiceError
from ragstore_client import RagstoreError
from ragstore_client.context import ContextPassage
from ragstore_gateway.configurations.assistant import Assistant, Task
from ragstore_gateway.configurations.configuration import Configuration
from ragstore_gateway.configurations.knowledge_base import KnowledgeBase
from ragstore_gateway.conversations.step import HttpCallTrace, KnowledgeBaseTrace, PassageTrace, TaskTrace
from ragstore_gateway.engines.engine_collection import DOCUMENT_KEY, MAX_PASSAGES, Passage
from ragstore_gateway.retrieval import metrics
from ragstore_gateway.retrieval.context import (
    RELEVANT_CONTEXT,
    SEARCH_RESULTS,
    fit,
    formatted,
    search_results,
)
from ragstore_gateway.retrieval.http_calls import HttpCallFailed, HttpCalls
from ragstore_gateway.retrieval.library_passages import cited
from ragstore_gateway.retrieval.question import MIN_COSINE, Question
from ragstore_gateway.retrieval.ranking import Ranking, capped
from ragstore_gateway.retrieval.retriever import BaseQuery, BaseResult, KnowledgeRetriever
from ragstore_gateway.retrieval.source_prompt import STYLE, SourceLimits, fitting_sources, nearest_sources
from ragstore_gateway.retrieval.workflow import TaskSearch, searches_of

BASE_MISSING: Final = "configuration_not_found"
"""Error of a search of a knowledge base that does not exist any more, or has another name now."""

MORE: Final = 8
"""Factor by which more passages are fetched if they are of too few sources."""

_log = structlog.get_logger(__name__)


@dataclass(frozen=True, slots=True)
class TaskContext:
    """The text and the passages that a task adds to a chat.

    Attributes:
        trace: how it came about.
        text: the end of the system message; empty if nothing was found.
        passages: the passages in the text. Their numbers are not set yet.
        is_missing: whether there is nothing to search in any of its bases.
    """

    trace: TaskTrace
    text: str = ""
    passages: Sequence[ContextPassage] = ()
    is_missing: bool = False


@dataclass(frozen=True, slots=True)
class _Call:
    """The result of an HTTP call."""

    name: str
    text: str = ""
    error: str = ""


class TaskRetrieval:
    """Retrieves for tasks.

    Args:
        retriever: searches knowledge bases.
        http_calls: sends HTTP calls.
        ranking: orders passages.
        limits: the limits of prompts with numbered sources.
    """

    def __init__(
        self, retriever: KnowledgeRetriever, http_calls: HttpCalls, ranking: Ranking, limits: SourceLimits
    ) -> None:
        self._retriever = retriever
        self._limits = limits
        self._http_calls = http_calls
        self._ranking = ranking

    async def retrieve(
        self,
        assistant: Assistant,
        bases: Mapping[str, Configuration[KnowledgeBase]],
        question: Question,
        deadline: float,
    ) -> list[TaskContext]:
        """Retrieve for all tasks of an assistant: all searches and HTTP calls are concurrent.

        Args:
            bases: the bases of its workflow, by name.
            deadline: time on the event loop's clock at which searches, calls and rankings end.

        Returns:
            The contexts of the tasks, in their order.
        """
        searches = [searches_of(task, assistant, bases) for task in assistant.tasks]
        queries = [search.query for own in searches for search in own or () if search.query is not None]
        async with asyncio.TaskGroup() as group:
            searching = group.create_task(self._search(assistant, question, searches, queries, deadline))
            calling = [
                group.create_task(self._call(assistant, task, question.text, deadline)) for task in assistant.tasks
            ]
        results = {id(result.query): result for result in _related(question, searching.result())}
        seen: set[tuple[str, str]] = set()
        found = [_new(own, results, seen) for own in searches]
        return list(
            await asyncio.gather(
                *(
                    self._context(
                        assistant,
                        task,
                        question.text,
                        own,
                        None if search is None else list(search),
                        call.result(),
                        deadline,
                    )
                    for task, own, search, call in zip(assistant.tasks, found, searches, calling, strict=True)
                )
            )
        )

    async def _search(
        self,
        assistant: Assistant,
        question: Question,
        searches: Sequence[Sequence[TaskSearch] | None],
        queries: Sequence[BaseQuery],
        deadline: float,
    ) -> Sequence[BaseResult]:
        """Search, and search for more passages where the found passages are of too few sources."""
        results = {id(each.query): each for each in await self._retriever.search(question, queries, deadline)}
        while assistant.prompt_style == "sources":
            wider = {
                id(query): replace(query, max_results=min(MORE * results[id(query)].wanted, MAX_PASSAGES))
                for own in searches
                for query in too_few_sources(own or (), results)
            }
            if not wider:
                break
            found = await self._retriever.search(question, list(wider.values()), deadline)
            for original, result in zip(wider, found, strict=True):
                # Earlier passages are kept if this search fails.
                results[original] = results[original] if result.error else result
                fetched = result.query.max_results if not result.error else MAX_PASSAGES
                results[original] = replace(results[original], fetched=fetched)
        return [replace(results[id(query)], query=query) for query in queries]

    async def _call(self, assistant: Assistant, task: Task, question: str, deadline: float) -> _Call | None:
        if not task.http_call_rag:
            return None
        name = task.http_call_rag
        call = assistant.http_calls.get(name)
        if call is None:
            return _Call(name, error=BASE_MISSING)
        left = deadline - asyncio.get_running_loop().time()
        try:
            return _Call(name, await self._http_calls.text(call, question, max(0.0, left)))
        except HttpCallFailed as error:
            _log.warning("httpCall failed", error=error.code)
            return _Call(name, error=error.code)
        except Exception as error:  # noqa: BLE001 - whatever fails in a call, the others continue
            _log.error("httpCall failed", error=type(error).__name__)
            return _Call(name, error="failed")

    async def _context(
        self,
        assistant: Assistant,
        task: Task,
        question: str,
        results: Mapping[str, BaseResult],
        searches: Sequence[TaskSearch] | None,
        call: _Call | None,
        deadline: float,
    ) -> TaskContext:
        """The context of one task."""
        text = ""
        passages: list[ContextPassage] = []
        http_call = None
        if call is not None:
            shown = search_results(call.text, task.max_rag_context_chars) if call.text else ""
            http_call = HttpCallTrace(http_call=call.name, context_length=len(shown))
            if call.error:
                http_call = HttpCallTrace(http_call=call.name, error=call.error)
            if shown:
                text = SEARCH_RESULTS + shown
                passages.append(cited(Passage(call.name, shown, 1.0, {}, base=call.name), 0, similarity=None))
        given = searches or ()
        found = [each for search in given if search.name in results for each in results[search.name].passages]
        limits = {each.name: each.max_results for each in given}
        models = {result.model for result in results.values() if result.passages}
        order = partial(self._ranked, task, question, limits=limits, same_model=len(models) < 2, deadline=deadline)
        if assistant.prompt_style == "sources":
            chosen, _ = await order(nearest_sources(found, max(limits.values(), default=0)))
            used, selected = fitting_sources(chosen, self._limits)
            passages += selected
            text = ""
            context = STYLE.context(passages)
        else:
            chosen, ranked = await order(found)
            used = fit(chosen, task.max_rag_context_chars, ranked=ranked)
            if used:
                text += RELEVANT_CONTEXT + formatted(used)
            passages += _under_headings(used)
            context = text.strip()
        traces = None if searches is None else [_trace(each, results.get(each.name), chosen, used) for each in searches]
        trace = TaskTrace(task=task.id, knowledge_bases=traces, http_call=http_call, context=context)
        is_missing = http_call is None and all(result.is_missing for result in results.values())
        return TaskContext(trace, text, passages, is_missing)

    async def _ranked(
        self,
        task: Task,
        question: str,
        passages: list[Passage],
        *,
        limits: dict[str, int],
        same_model: bool,
        deadline: float,
    ) -> tuple[list[Passage], bool]:
        """The passages, ordered, and whether a ranking ordered them."""
        if not passages or (task.rerank is None and task.diversity is None):
            return passages, False
        chosen = passages
        ranked = False
        try:
            async with asyncio.timeout_at(deadline):
                if task.diversity is not None:
                    chosen = await self._ranking.diverse(passages, task.diversity, same_model=same_model)
                    chosen = capped(chosen, limits)
                    ranked = True
                if task.rerank is not None:
                    chosen = await self._ranking.reranked(question, chosen, task.rerank)
                    ranked = True
        except (ServiceError, RagstoreError, TimeoutError) as error:
            metrics.RERANK_FAILURES.inc()
            _log.warning("passages not ranked", error=type(error).__name__)
        return capped(chosen, limits), ranked


def too_few_sources(searches: Sequence[TaskSearch], results: Mapping[int, BaseResult]) -> list[BaseQuery]:
    """The searches of a task to repeat for more passages: together, they have too few sources, and may find others.

    Args:
        searches: the searches of the task.
        results: their results so far, by the identity of the search.
    """
    queries = [search.query for search in searches if search.query is not None]
    found = [each for query in queries for each in results[id(query)].passages]
    wanted = max((search.max_results for search in searches), default=0)
    if len(nearest_sources(found, wanted)) >= wanted:
        return []
    return [query for query in queries if results[id(query)].may_have_more]


def _related(question: Question, results: Sequence[BaseResult]) -> Sequence[BaseResult]:
    """The results. For a short question, they have no passages, unless one of them is similar to it."""
    best = max((passage.cosine for result in results for passage in result.passages), default=1.0)
    if not question.is_short or best >= MIN_COSINE:
        return results
    return [replace(result, passages=()) for result in results]


def _new(
    searches: Sequence[TaskSearch] | None, results: Mapping[int, BaseResult], seen: set[tuple[str, str]]
) -> dict[str, BaseResult]:
    """The results of a task's searches by base, without passages that an earlier task has found."""
    own: dict[str, BaseResult] = {}
    for search in searches or ():
        if search.query is None:
            continue
        result = results[id(search.query)]
        base = search.query.base.id
        passages = [passage for passage in result.passages if (base, passage.id) not in seen]
        seen.update((base, passage.id) for passage in passages)
        own[search.name] = replace(result, passages=passages)
    return own


def _under_headings(used: Sequence[Passage]) -> list[ContextPassage]:
    """The passages of a context as a reply may cite them."""
    counts: dict[str, int] = {}
    passages: list[ContextPassage] = []
    for each in used:
        counts[each.base] = counts.get(each.base, 0) + 1
        passages.append(cited(each, counts[each.base], similarity=each.cosine))
    return passages


def _trace(
    search: TaskSearch, result: BaseResult | None, chosen: Sequence[Passage], used: Sequence[Passage]
) -> KnowledgeBaseTrace:
    """The trace of a search."""
    if search.query is None or result is None:
        return KnowledgeBaseTrace(kb=search.name, error=BASE_MISSING)
    base = search.query.base
    if result.error:
        return KnowledgeBaseTrace(kb=search.name, id=base.id, version=base.version, error=result.error)
    in_context = {each.id for each in used if each.base == search.name}
    found = [each for each in chosen if each.base == search.name]
    return KnowledgeBaseTrace(
        kb=search.name,
        id=base.id,
        version=base.version,
        provider=base.body.embedding_provider,
        store_type=base.body.store_type,
        max_results=search.max_results,
        min_score=search.query.min_score,
        retrieved_count=len(found),
        passages=[
            PassageTrace(
                each.id,
                round(each.relevance, 6),
                str(each.metadata.get(DOCUMENT_KEY, "")),
                each.id not in in_context,
            )
            for each in found
        ],
    )
