"""`TaskRetrieval`: what the tasks of an assistant add to the system message, and the trace of it."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final

import structlog

from ragstore.kit.errors import ServiceError
from ragstore.kit.tracing.spans import span
from ragstore_client import RagstoreError
from ragstore_gateway.api.request_variables import NO_VARIABLES, RequestVariables
from ragstore_gateway.chat.prompt_passage import PromptPassage
from ragstore_gateway.configurations.assistant import Assistant, Task
from ragstore_gateway.configurations.configuration import Configuration
from ragstore_gateway.configurations.knowledge_base import KnowledgeBase
from ragstore_gateway.conversations.step import HttpCallTrace, TaskTrace
from ragstore_gateway.engines.engine_collection import MAX_PASSAGES, Passage
from ragstore_gateway.retrieval import metrics
from ragstore_gateway.retrieval.candidates import BASE_MISSING, Candidate, Found, found_by, trace_of
from ragstore_gateway.retrieval.context import (
    RELEVANT_CONTEXT,
    SEARCH_RESULTS,
    ContextBudget,
    fit,
    formatted,
    search_results,
    search_results_label,
)
from ragstore_gateway.retrieval.http_calls import HttpCallFailed, HttpCalls
from ragstore_gateway.retrieval.library_passages import named, prompt_passage
from ragstore_gateway.retrieval.numbering import numbers_of
from ragstore_gateway.retrieval.question import Question
from ragstore_gateway.retrieval.ranking import FAN_OUT, Ranking, capped
from ragstore_gateway.retrieval.retriever import BaseQuery, BaseResult, KnowledgeRetriever
from ragstore_gateway.retrieval.source_prompt import (
    NAMED,
    SourceLimits,
    fitting_sources,
    nearest_sources,
    style_of,
    without_repetitions,
)
from ragstore_gateway.retrieval.workflow import TaskSearch, searches_of

MORE: Final = 8
"""Factor by which more passages are fetched if they are of too few sources."""

_log = structlog.get_logger(__name__)


@dataclass(frozen=True, slots=True)
class TaskContext:
    """The text and the passages that a task adds to a chat.

    Attributes:
        trace: how it came about.
        text: the end of the system message; empty if nothing was found.
        passages: the passages in the text, with their numbers.
        candidates: all passages that its searches have found.
        is_missing: whether there is nothing to search in any of its bases.
    """

    trace: TaskTrace
    text: str = ""
    passages: Sequence[PromptPassage] = ()
    candidates: Sequence[Candidate] = ()
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
        variables: RequestVariables = NO_VARIABLES,
        *,
        all_texts: bool = False,
    ) -> list[TaskContext]:
        """Retrieve for all tasks of an assistant: all searches and HTTP calls are concurrent.

        Args:
            bases: the bases of its workflow, by name.
            deadline: time on the event loop's clock at which searches, calls and rankings end.
            variables: the variables of the request.
            all_texts: whether passages below the minimum relevance keep their texts.

        Returns:
            The contexts of the tasks, in their order.
        """
        searches = [searches_of(task, assistant, bases, variables, all_texts=all_texts) for task in assistant.tasks]
        queries = [search.query for own in searches for search in own or () if search.query is not None]
        async with asyncio.TaskGroup() as group:
            searching = group.create_task(self._search(assistant, question, searches, queries, deadline))
            calling = [
                group.create_task(self._call(assistant, task, question.text, deadline)) for task in assistant.tasks
            ]
        results = {id(result.query): result for result in searching.result()}
        seen: set[tuple[str, str]] = set()
        found = [found_by(own, results, question, seen) for own in searches]
        choosing = [
            self._chosen(assistant, task, question.asked, own, deadline)
            for task, own in zip(assistant.tasks, found, strict=True)
        ]
        contexts: list[TaskContext] = []
        number = 1
        for task, own, choice, call in zip(
            assistant.tasks, found, await asyncio.gather(*choosing), calling, strict=True
        ):
            with span("context", attributes={"task": task.id}):
                contexts.append(self._context(assistant, task, own, choice, call.result(), number))
            number = max((each.number for each in contexts[-1].passages), default=number - 1) + 1
        return contexts

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

    async def _chosen(
        self, assistant: Assistant, task: Task, question: str, found: Found, deadline: float
    ) -> tuple[list[Passage], bool]:
        """The passages for a context in their order, and whether a ranking gave it."""
        passages = found.passages
        limits = {each.name: each.max_results for each in found.searches or ()}
        if assistant.prompt_style == "sources":
            passages, others = nearest_sources(passages, max(limits.values(), default=0))
        else:
            passages, others = without_repetitions(passages)
        found.leave_out(others)
        models = {result.model for result in found.results.values() if result.passages}
        return await self._ranked(
            task, question, passages, limits=limits, same_model=len(models) < 2, deadline=deadline
        )

    def _context(
        self,
        assistant: Assistant,
        task: Task,
        found: Found,
        choice: tuple[list[Passage], bool],
        call: _Call | None,
        first: int,
    ) -> TaskContext:
        """The context of one task, whose passages have the numbers from `first` on."""
        chosen, ranked = choice
        text = ""
        passages: list[PromptPassage] = []
        http_call = None
        if call is not None:
            shown = search_results(call.text, task.max_rag_context_chars) if call.text else ""
            http_call = HttpCallTrace(http_call=call.name, context_length=len(shown))
            if call.error:
                http_call = HttpCallTrace(http_call=call.name, error=call.error)
            if shown:
                text = SEARCH_RESULTS + search_results_label(call.name, first) + shown
                response = Passage(call.name, shown, 1.0, {}, base=call.name)
                passages.append(prompt_passage(response, first, address="", is_response=True))
        number = first + len(passages)
        tokens = task.max_rag_context_tokens or self._limits.token_budget
        if assistant.prompt_style == "sources":
            style = style_of(assistant)
            limits = self._limits
            if style is NAMED:
                limits = replace(limits, token_budget=tokens, max_context_characters=task.max_rag_context_chars)
            wanted = max((each.max_results for each in found.searches or ()), default=0)
            further = found.further(chosen, FAN_OUT * wanted - len(chosen))
            sources = fitting_sources([*chosen, *further], limits, style, number)
            used = {(each.base, each.id) for each in sources.used}
            taken = [each for each in further if (each.base, each.id) in used]
            found.take_in(taken)
            chosen = [*chosen, *taken]
            for each in sources.numbered:
                base = each.collection or ""
                is_further = (base, each.id) in sources.further
                address, base_id = found.address(base, each.id), found.base_id(base)
                passages.append(named(each, address=address, base_id=base_id, is_further=is_further))
            text = ""
            context = style.context(passages)
        else:
            fitting = fit(chosen, ContextBudget(task.max_rag_context_chars, tokens), ranked=ranked, first=number)
            if fitting:
                text += RELEVANT_CONTEXT + formatted(fitting, number)
            passages += _under_headings(fitting, found, number)
            context = text.strip()
        numbers = {(each.collection, each.id): each for each in passages if not each.is_response}
        by_base = {each.name: found.candidates(each.name, chosen, numbers) for each in found.searches or ()}
        traces = None
        if found.searches is not None:
            traces = [trace_of(each, found, by_base[each.name]) for each in found.searches]
        trace = TaskTrace(task=task.id, knowledge_bases=traces, http_call=http_call, context=context)
        is_missing = http_call is None and all(result.is_missing for result in found.results.values())
        candidates = [each for own in by_base.values() for each in own]
        return TaskContext(trace, text, passages, candidates, is_missing)

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
    if len(nearest_sources(found, wanted)[0]) >= wanted:
        return []
    return [query for query in queries if results[id(query)].may_have_more]


def _under_headings(used: Sequence[Passage], found: Found, first: int) -> list[PromptPassage]:
    """The passages of a context as a reply may cite them."""
    numbers = numbers_of(used, first)
    best: dict[int, Passage] = {}
    for number, each in zip(numbers, used, strict=True):
        best[number] = min(best.get(number, each), each, key=lambda own: own.place)
    counts: dict[str, int] = {}
    passages: list[PromptPassage] = []
    for number, each in zip(numbers, used, strict=True):
        counts[each.base] = counts.get(each.base, 0) + 1
        address = found.address(each.base, each.id)
        passages.append(
            prompt_passage(
                each,
                number,
                address=address,
                base_id=found.base_id(each.base),
                index=counts[each.base],
                is_further=each is not best[number],
            )
        )
    return passages
