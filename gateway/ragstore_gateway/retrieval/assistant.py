"""`AssistantModel`: one version of an assistant as a model with retrieval."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from fnmatch import fnmatchcase
from typing import Final

import structlog
from msgspec import Raw, structs

from ragstore.kit.context import record_facts
from ragstore.kit.tracing.spans import span
from ragstore_client.context import ChatContext, Headings
from ragstore_gateway.chat import metrics
from ragstore_gateway.chat.conversation import Conversation, with_system
from ragstore_gateway.chat.prompt_passage import PromptPassage
from ragstore_gateway.chat.rag_models import Augmentation, Caller, Complete, no_question
from ragstore_gateway.configurations.assistant import Assistant
from ragstore_gateway.configurations.configuration import Configuration
from ragstore_gateway.configurations.knowledge_base import KnowledgeBase
from ragstore_gateway.conversations.step import Step, TaskTrace
from ragstore_gateway.retrieval.context import CITE_INSTRUCTION, NOT_SEARCHED, NOTHING_FOUND
from ragstore_gateway.retrieval.question import Question
from ragstore_gateway.retrieval.rewriting import rewritten
from ragstore_gateway.retrieval.source_prompt import style_of
from ragstore_gateway.retrieval.tasks import TaskContext, TaskRetrieval
from ragstore_gateway.retrieval.workflow import Workflows
from ragstore_gateway.settings import Settings, variable

GRACE_SECONDS: Final = 0.5
"""Time beyond the limit of a retrieval, after which it is left even if a part of it does not end."""

MAX_MATCHED: Final = 1_000
"""Maximum number of characters of a message that are compared with the patterns of tasks."""

MAX_SHOWN_QUESTION: Final = 1_000
"""Maximum number of characters of a text in the debug output that was searched for."""

EMPTY_CONTEXT: Final[Mapping[str, str]] = {
    "no_match": NOTHING_FOUND,
    "no_sources": NOTHING_FOUND,
    "failed": NOT_SEARCHED,
    "timeout": NOT_SEARCHED,
}
"""The text for a model if there are no passages, by the reason. Other reasons mean that nothing was searched for."""

_EPOCH: Final = datetime.fromtimestamp(0, UTC)
_log = structlog.get_logger(__name__)


@dataclass(frozen=True, slots=True)
class AssistantServices:
    """The services that assistants use.

    Attributes:
        workflows: looks knowledge bases up.
        retrieval: retrieves for tasks.
        record: records a step.
    """

    settings: Settings
    workflows: Workflows
    retrieval: TaskRetrieval
    record: Callable[[Step], Awaitable[None]]


@dataclass(frozen=True, slots=True)
class Retrieval:
    """The retrieval for a conversation.

    Attributes:
        reason: why there are no passages; empty if there are some.
        question: what was searched for; None if nothing was.
        contexts: the contexts of the tasks.
        seconds: its duration.
    """

    reason: str
    question: Question | None = None
    contexts: Sequence[TaskContext] = ()
    seconds: float = 0.0

    @property
    def failed(self) -> bool:
        """Whether the reason is a failure, and not a lack of passages."""
        return self.reason in ("failed", "timeout")

    @property
    def source_count(self) -> int:
        """The number of sources of the passages: each one has a number of its own."""
        return len({each.number for context in self.contexts for each in context.passages})


class AssistantModel:
    """An assistant.

    Args:
        configuration: the version of the assistant.
        services: what it uses.
    """

    def __init__(self, configuration: Configuration[Assistant], services: AssistantServices) -> None:
        self._configuration = configuration
        self._services = services

    @property
    def body(self) -> Assistant:
        """Its configuration."""
        return self._configuration.body

    @property
    def upstream_models(self) -> Sequence[str]:
        """The upstream's models that may serve it."""
        model = self._configuration.body.model or self._services.settings.model
        return [model] if model else []

    @property
    def no_upstream_model(self) -> str:
        """One sentence for the caller; see `RagModel`."""
        if model := self._configuration.body.model:
            return f"The model server has no model '{model}', which the assistant names"
        if model := self._services.settings.model:
            return f"The assistant names no model, and the model server has none of {variable('model')}, '{model}'"
        return f"The assistant names no model, and {variable('model')} is not set"

    def is_of(self, configuration: Configuration[Assistant]) -> bool:
        """Whether this is a version of an assistant.

        Args:
            configuration: the version.
        """
        own = self._configuration
        return (own.id, own.version) == (configuration.id, configuration.version)

    def without_question(self, messages: Raw | None) -> Augmentation:
        """The messages after the assistant's own system message; see `RagModel`."""
        self._record_assistant()
        system = self._configuration.body.own_system_message
        return no_question(with_system(messages, system) if system else None)

    async def augment(
        self, conversation: Conversation, caller: Caller, complete: Complete | None = None
    ) -> Augmentation:
        """Add what the tasks retrieve to the system message; see `RagModel`."""
        found = await self._retrieval(conversation, caller, complete)
        metrics.retrieval(found.reason or "used")
        if found.question is not None:
            metrics.RETRIEVAL_SECONDS.observe(found.seconds)
            step = self._step(caller, found.contexts, found.question)
            record_facts(step=step.id)
            await self._services.record(step)
        return self._augmentation(conversation, caller, found)

    async def trial(self, conversation: Conversation, caller: Caller) -> tuple[Retrieval, Augmentation]:
        """The same without a step, without metrics of chats, and without a model that rewrites the question.

        Args:
            caller: where the question comes from.

        Returns:
            The retrieval, whose candidates have their texts, and the augmentation of a chat.
        """
        found = await self._retrieval(conversation, caller, None, all_texts=True)
        return found, self._augmentation(conversation, caller, found)

    async def _retrieval(
        self, conversation: Conversation, caller: Caller, complete: Complete | None, *, all_texts: bool = False
    ) -> Retrieval:
        """Search, unless there is a reason not to."""
        settings = self._services.settings
        self._record_assistant()
        if not settings.rag_enabled or not (self.body.workflow or self.body.http_calls):
            return Retrieval("disabled")
        query = self._configuration.body.query or settings.rag_query
        question = Question.of(conversation, query)
        if reason := unsearched(question, settings.rag_task_patterns):
            return Retrieval(reason)
        with span("retrieval", attributes={"assistant": self._configuration.id}) as describe:
            started = time.perf_counter()
            limit = settings.rag_timeout_seconds
            deadline = asyncio.get_running_loop().time() + limit
            if query == "rewrite":
                with span("rewrite question"):
                    question = await rewritten(question, conversation, complete, settings.rag_rewrite_prompt, limit)
            contexts, error = await self._contexts(question, caller, deadline, all_texts=all_texts)
            reason = "" if any(context.passages for context in contexts) else error or _reason(question, contexts)
            found = Retrieval(reason, question, contexts, time.perf_counter() - started)
            describe("sources", found.source_count)
            describe("reason", reason)
        if found.failed:
            _log.warning("retrieval failed", reason=reason, assistant=self._configuration.id)
        _record_retrieval(found)
        return found

    def _record_assistant(self) -> None:
        """Add the assistant to the log line of the request. A plain model is none."""
        own = self._configuration
        if own.id:
            record_facts(assistant=own.body.name, assistant_id=own.id, assistant_version=own.version)

    async def _contexts(
        self, question: Question, caller: Caller, deadline: float, *, all_texts: bool
    ) -> tuple[list[TaskContext], str]:
        """The contexts of the tasks, and the reason if there are none."""
        try:
            async with asyncio.timeout_at(deadline + GRACE_SECONDS):
                assistant, bases = await self._found(caller)
                contexts = await self._services.retrieval.retrieve(
                    assistant, bases, question, deadline, caller.variables, all_texts=all_texts
                )
                return contexts, ""
        except TimeoutError:
            return [], "timeout"
        except Exception as error:  # noqa: BLE001 - whatever fails in retrieval, the chat continues
            _log.error("retrieval failed", error=type(error).__name__, assistant=self._configuration.id)
            return [], "failed"

    async def _found(self, caller: Caller) -> tuple[Assistant, Mapping[str, Configuration[KnowledgeBase]]]:
        """The assistant, and the bases of its workflow that exist for the caller."""
        return self.body, await self._services.workflows.bases_of(self.body, caller.bases)

    def _step(self, caller: Caller, contexts: Sequence[TaskContext], question: Question | None = None) -> Step:
        return Step(
            conversation=caller.conversation_id,
            key=caller.key,
            request_id=caller.request_id,
            assistant=self._configuration.body.name,
            assistant_id=self._configuration.id,
            assistant_version=self._configuration.version,
            tasks=[context.trace for context in contexts],
            searched="" if question is None else question.rewritten,
        )

    def _augmentation(self, conversation: Conversation, caller: Caller, found: Retrieval) -> Augmentation:
        settings = self._services.settings
        passages = [
            structs.replace(each, url=caller.origin + each.url) if each.url.startswith("/") else each
            for context in found.contexts
            for each in context.passages
        ]
        searched = () if found.question is None else found.question.embedded
        return Augmentation(
            self._messages(conversation, found.contexts, passages, found.reason),
            passages,
            found.reason,
            failed=found.failed,
            debug={
                **self._debug(conversation, found, passages),
                "searched": [text[:MAX_SHOWN_QUESTION] for text in searched],
            },
            list_sources=settings.rag_list_sources if self.body.list_sources is None else self.body.list_sources,
        )

    def _messages(
        self,
        conversation: Conversation,
        contexts: Sequence[TaskContext],
        passages: Sequence[PromptPassage],
        reason: str,
    ) -> Raw | None:
        """The messages with what was found; None for the caller's messages, unchanged."""
        own = self.body.own_system_message
        keep_history = self._services.settings.history == "keep"
        if self.body.prompt_style == "sources" and passages:
            style = style_of(self.body)
            system = self._with_instruction(own)
            if not own and self.body.cite_instruction is None:
                system = style.system
            return conversation.augmented(
                system, style.text(conversation.question, passages), keep_history=keep_history
            )
        system = own + "".join(context.text for context in contexts)
        if passages:
            system = self._with_instruction(system.rstrip("\n"))
        elif self.body.empty_context == "tell" and reason in EMPTY_CONTEXT:
            system = "\n\n".join(filter(None, (own, EMPTY_CONTEXT[reason])))
        return conversation.with_system(system, keep_history=keep_history) if system else None

    def _with_instruction(self, system: str) -> str:
        """A system message with the sentences that say how to cite."""
        given = self.body.cite_instruction
        instruction = CITE_INSTRUCTION if given is None else given
        return "\n\n".join(filter(None, (system, instruction)))

    def _debug(
        self, conversation: Conversation, found: Retrieval, passages: Sequence[PromptPassage]
    ) -> dict[str, object]:
        context = ChatContext(
            question=conversation.question,
            query=conversation.question,
            used=bool(passages),
            reason=None,
            style=Headings(),
            passages=list(passages),
            tokens=sum(passage.tokens for passage in passages),
        )
        traces = self._step(Caller(), found.contexts).traces
        own = {"assistant": self._configuration.body.name, "version": self._configuration.version}
        milliseconds = round(found.seconds * 1000, 1)
        return {**context.debug(), "reason": found.reason or None, "ms": milliseconds, **own, "traces": traces}


def unsaved(body: Assistant) -> Configuration[Assistant]:
    """An assistant that is not stored, so that it has no id and no version."""
    return Configuration("", 0, 0, body, _EPOCH, _EPOCH, deleted=False)


def unsearched(question: Question, task_patterns: Sequence[str]) -> str:
    """Why nothing is searched for: `task` or `short_question`; empty if something is.

    Args:
        task_patterns: patterns of requests of chat clients that are no questions.
    """
    beginning = question.text.lstrip()[:MAX_MATCHED]
    if any(fnmatchcase(beginning, pattern) for pattern in task_patterns):
        return "task"
    return "short_question" if question.is_small_talk else ""


def _record_retrieval(found: Retrieval) -> None:
    """Add a retrieval to the log line of its request, without content: the ids lead to its entry in the ledger."""
    searched = [each for context in found.contexts for each in context.trace.knowledge_bases or ()]
    bases = dict.fromkeys(each.id for each in searched if isinstance(each.id, str))
    errors = dict.fromkeys(error for context in found.contexts for error in _errors(context.trace))
    record_facts(retrieval_ms=round(found.seconds * 1000))
    if bases:
        record_facts(bases=",".join(bases))
    if errors:
        record_facts(errors=",".join(errors))


def _reason(question: Question, contexts: Sequence[TaskContext]) -> str:
    """Why there are no passages."""
    errors = [error for context in contexts for error in _errors(context.trace)]
    if errors:
        return "timeout" if all(error.endswith("timeout") for error in errors) else "failed"
    if all(context.is_missing or not context.trace.searches for context in contexts):
        return "no_sources"
    return "short_question" if question.is_short else "no_match"


def _errors(trace: TaskTrace) -> list[str]:
    found = [each.error for each in trace.knowledge_bases or () if isinstance(each.error, str)]
    if trace.http_call is not None and isinstance(trace.http_call.error, str):
        found.append(trace.http_call.error)
    return found
