"""`Found`: the candidates for the context of a task, and the traces of their searches."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

from ragstore_gateway.chat.prompt_passage import PromptPassage
from ragstore_gateway.conversations.step import Fate, KnowledgeBaseTrace, PassageTrace
from ragstore_gateway.engines.engine_collection import DOCUMENT_KEY, Passage
from ragstore_gateway.retrieval.numbering import source_of
from ragstore_gateway.retrieval.passage_address import passage_path
from ragstore_gateway.retrieval.question import MIN_COSINE, Question
from ragstore_gateway.retrieval.retriever import BaseResult
from ragstore_gateway.retrieval.source_prompt import written_once
from ragstore_gateway.retrieval.workflow import TaskSearch

BASE_MISSING: Final = "configuration_not_found"
"""Error of a search of a knowledge base that does not exist any more, or has another name now."""

RANKED: Final = ("context", "cut", "no_room")
"""The fates of the passages that were ranked for the context."""


@dataclass(frozen=True, slots=True)
class Candidate:
    """A passage that a search has found, and whether it is in the context, or why not.

    Attributes:
        number: its number in the prompt; 0 if it is not there.
    """

    passage: Passage
    fate: Fate
    number: int = 0


@dataclass
class Found:
    """The candidates that the searches of a task have found.

    Attributes:
        searches: the searches; None if the task searches no knowledge base.
        results: their results, by the name of the base.
        passages: the candidates for the context.
        left_out: the other candidates, and why they are none.
    """

    searches: Sequence[TaskSearch] | None
    results: dict[str, BaseResult] = field(default_factory=dict)
    passages: list[Passage] = field(default_factory=list)
    left_out: list[tuple[Passage, Fate]] = field(default_factory=list)

    def leave_out(self, others: Iterable[tuple[Passage, Fate]]) -> None:
        """Add candidates that cannot be in the context."""
        self.left_out += others

    def further(self, chosen: Sequence[Passage], count: int) -> list[Passage]:
        """Further passages of the sources that are represented by one passage, the best ones first.

        Args:
            chosen: a passage of each source.
            count: maximum number of passages. A text that one of `chosen` has is left out.
        """
        sources = {source_of(each) for each in chosen}
        texts = {written_once(each) for each in chosen}
        passages: list[Passage] = []
        for each in sorted(
            (each for each, fate in self.left_out if fate == "same_source"), key=lambda each: each.place
        ):
            if len(passages) >= count:
                break
            if source_of(each) in sources and written_once(each) not in texts:
                texts.add(written_once(each))
                passages.append(each)
        return passages

    def take_in(self, passages: Iterable[Passage]) -> None:
        """Passages that were left out are in the context."""
        taken = {(each.base, each.id) for each in passages}
        self.left_out = [(each, fate) for each, fate in self.left_out if (each.base, each.id) not in taken]

    def candidates(
        self, base: str, chosen: Sequence[Passage], used: Mapping[tuple[str | None, str], PromptPassage]
    ) -> list[Candidate]:
        """All passages of a base that were found: the ranked ones in their order, and then the others.

        Args:
            chosen: the passages of all bases that were ranked for the context.
            used: the passages of the prompt, by base and id.
        """
        own = [each for each in chosen if each.base == base]
        left_out = [(each, fate) for each, fate in self.left_out if each.base == base]
        known = {each.id for each in own} | {each.id for each, _ in left_out}
        away = [each for each in self.passages if each.base == base and each.id not in known]
        return [
            *(_ranked(each, used.get((each.base, each.id))) for each in own),
            *(Candidate(each, "ranked_away") for each in away),
            *(Candidate(each, fate) for each, fate in left_out),
        ]

    def address(self, base: str, passage_id: str) -> str:
        """The path of the gateway that shows a passage of a base."""
        return passage_path(self.base_id(base), passage_id)

    def base_id(self, base: str) -> str:
        """The id of a base that was searched."""
        return self.results[base].query.base.id


def found_by(
    searches: Sequence[TaskSearch] | None,
    results: Mapping[int, BaseResult],
    question: Question,
    seen: set[tuple[str, str]],
) -> Found:
    """The candidates that the searches of a task have found.

    Args:
        results: the results, by the identity of the search.
        question: the question. For a short one there are no candidates, unless a passage of any task is similar to it.
        seen: the ids of the candidates of earlier tasks, by base. Those of this task are added.
    """
    found = Found(searches)
    best = max((passage.cosine for result in results.values() for passage in result.passages), default=1.0)
    is_unrelated = question.is_short and best < MIN_COSINE
    for search in searches or ():
        if search.query is None:
            continue
        result = results[id(search.query)]
        found.results[search.name] = result
        for each in result.passages:
            key = search.query.base.id, each.id
            if is_unrelated:
                found.left_out.append((each, "unrelated"))
            elif key in seen:
                found.left_out.append((each, "duplicate"))
            else:
                found.passages.append(each)
            seen.add(key)
        found.leave_out((each, "below_min_score") for each in result.below)
    return found


def trace_of(search: TaskSearch, found: Found, candidates: Sequence[Candidate]) -> KnowledgeBaseTrace:
    """The trace of a search.

    Args:
        candidates: the passages that it has found.
    """
    result = found.results.get(search.name)
    if search.query is None or result is None:
        return KnowledgeBaseTrace(kb=search.name, error=BASE_MISSING)
    base = search.query.base
    if result.error:
        return KnowledgeBaseTrace(kb=search.name, id=base.id, version=base.version, error=result.error)
    return KnowledgeBaseTrace(
        kb=search.name,
        id=base.id,
        version=base.version,
        provider=base.body.embedding_provider,
        store_type=base.body.store_type,
        max_results=search.max_results,
        min_score=search.query.min_score,
        retrieved_count=sum(each.fate in RANKED for each in candidates),
        passages=[_passage_trace(each) for each in candidates],
    )


def _ranked(passage: Passage, used: PromptPassage | None) -> Candidate:
    """A passage that was ranked for the context."""
    if used is None:
        return Candidate(passage, "no_room")
    return Candidate(passage, "context" if used.text == passage.text else "cut", used.number)


def _passage_trace(candidate: Candidate) -> PassageTrace:
    passage = candidate.passage
    return PassageTrace(
        passage.id,
        round(passage.relevance, 6),
        candidate.fate,
        str(passage.metadata.get(DOCUMENT_KEY, "")),
        candidate.number,
        candidate.fate == "no_room",
    )
