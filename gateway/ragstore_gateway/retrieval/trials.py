"""`RetrievalTrials`: the retrieval of a chat without its model, and with the fate of each passage."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Annotated, Final

import msgspec
from msgspec import UNSET, Meta, Struct, UnsetType

from ragstore.kit.auth.name_patterns import NamePatterns
from ragstore.kit.byte_budget import reserve
from ragstore.kit.errors import FieldError, InvalidRequest
from ragstore.kit.time_slices import run_whole
from ragstore.kit.tracing.spans import SpanTime, recorded_times
from ragstore_gateway.chat.body import encode_raw
from ragstore_gateway.chat.conversation import read_conversation
from ragstore_gateway.chat.rag_models import Caller
from ragstore_gateway.configurations.assistant import Assistant, KnowledgeBaseReference, Task
from ragstore_gateway.configurations.configurations import Configurations
from ragstore_gateway.configurations.hidden_bases import is_visible
from ragstore_gateway.configurations.knowledge_base import KnowledgeBase, MaxResults, MinScore, WhereTemplate
from ragstore_gateway.configurations.validate import AssistantValidator
from ragstore_gateway.configurations.where_template import check_where
from ragstore_gateway.conversations.step import Fate, HttpCallTrace
from ragstore_gateway.embeddings.schemas import NOT_BLANK
from ragstore_gateway.engines.engine_collection import DOCUMENT_KEY, DOCUMENT_NAME_KEY
from ragstore_gateway.errors import ConfigurationNotFound
from ragstore_gateway.retrieval.assistant import AssistantModel, Retrieval
from ragstore_gateway.retrieval.assistant_catalog import Assistants
from ragstore_gateway.retrieval.candidates import Candidate
from ragstore_gateway.retrieval.plain_models import PlainModels
from ragstore_gateway.retrieval.retriever import BYTES_PER_CHARACTER
from ragstore_gateway.retrieval.source_names import SourceName
from ragstore_gateway.retrieval.tasks import TaskContext

BASE_TASK: Final = "base"
"""Id of the task that searches a base."""

STAGES: Final = (
    "embed question",
    "search base",
    "search vectors",
    "search keywords",
    "http call",
    "diversity",
    "rerank",
    "context",
)
"""The spans that are stages of a retrieval."""


class TrialQuestion(Struct, frozen=True, forbid_unknown_fields=True, rename="camel"):
    """A question to an assistant or to a knowledge base; without either, to a plain `rag/` model."""

    question: Annotated[str, Meta(min_length=1, max_length=32_768, pattern=NOT_BLANK, description="The question.")]
    assistant: (
        Annotated[str, Meta(description="Name of an assistant, or an assistant that is not stored.")]
        | Assistant
        | UnsetType
    ) = UNSET
    base: (
        Annotated[str, Meta(description="Id of a knowledge base, as an assistant with defaults searches it.")]
        | UnsetType
    ) = UNSET
    max_results: MaxResults | UnsetType = UNSET
    min_score: MinScore | UnsetType = UNSET
    where: WhereTemplate = {}


class TrialMessage(Struct, frozen=True):
    """A message that the model would get."""

    role: Annotated[str, Meta(description="`system` or `user`.")]
    content: Annotated[str, Meta(description="Its text.")]


class TrialPassage(Struct, frozen=True, rename="camel", omit_defaults=True, kw_only=True):
    """A passage that a search has found."""

    task: Annotated[str, Meta(description="Id of the task.")]
    base: Annotated[str, Meta(description="Name of the knowledge base.")]
    base_id: Annotated[str, Meta(description="Id of the knowledge base.")]
    id: Annotated[str, Meta(description="Id of the chunk.")]
    fate: Annotated[Fate, Meta(description="Whether it is in the prompt, or why not.")]
    number: Annotated[int | UnsetType, Meta(description="Its number in the prompt; absent if it is not there.")] = UNSET
    score: Annotated[float, Meta(ge=0, le=1, description="Its relevance, (1 + cosine) / 2.")]
    title: Annotated[str, Meta(description="Its document, with its page or heading.")]
    url: Annotated[str | UnsetType, Meta(description="Web address of its document, if it has one.")] = UNSET
    document: Annotated[str | UnsetType, Meta(description="Id of its document.")] = UNSET
    document_name: Annotated[str | UnsetType, Meta(description="Name of its document.")] = UNSET
    page: Annotated[int | UnsetType, Meta(description="Number of its page.")] = UNSET
    start: Annotated[int | UnsetType, Meta(description="Index of its first character in the document's text.")] = UNSET
    end: Annotated[int | UnsetType, Meta(description="Index after its last character.")] = UNSET
    text: Annotated[str, Meta(description="Its text, whole also if the prompt has a part of it.")]


class TrialSearch(Struct, frozen=True, rename="camel", omit_defaults=True, kw_only=True):
    """The search of one knowledge base for a task."""

    task: Annotated[str, Meta(description="Id of the task.")]
    base: Annotated[str, Meta(description="Name of the knowledge base.")]
    base_id: Annotated[str | UnsetType, Meta(description="Its id.")] = UNSET
    version: Annotated[int | UnsetType, Meta(description="Version of its configuration.")] = UNSET
    max_results: Annotated[int | UnsetType, Meta(description="Maximum number of passages.")] = UNSET
    min_score: Annotated[float | UnsetType, Meta(description="Minimum relevance.")] = UNSET
    error: Annotated[str | UnsetType, Meta(description="Code of the error of a failed search.")] = UNSET


class TrialHttpCall(Struct, frozen=True, rename="camel", omit_defaults=True, kw_only=True):
    """The HTTP call of a task."""

    task: Annotated[str, Meta(description="Id of the task.")]
    name: Annotated[str, Meta(description="Name of the call.")]
    context_length: Annotated[int, Meta(description="Number of characters that it adds to the prompt.")]
    error: Annotated[str | UnsetType, Meta(description="Code of the error of a failed call.")] = UNSET


class TrialStage(Struct, frozen=True, rename="camel", omit_defaults=True):
    """The time of a part of the retrieval. Searches of several bases, and the parts of each, are concurrent."""

    name: Annotated[str, Meta(description="The part, such as `embed question` or `search keywords`.")]
    ms: Annotated[float, Meta(description="Milliseconds.")]
    base_id: Annotated[str | UnsetType, Meta(description="Id of the knowledge base, of a part of its search.")] = UNSET


class RetrievalTrial(Struct, frozen=True, rename="camel", omit_defaults=True, kw_only=True):
    """The passages that a question finds, the prompt that a chat makes of them, and the time of each part."""

    reason: Annotated[str | UnsetType, Meta(description="Why the prompt has no passages; absent if it has some.")] = (
        UNSET
    )
    passages: Annotated[list[TrialPassage], Meta(description="All passages that were found, by task and base.")]
    messages: Annotated[
        list[TrialMessage] | UnsetType,
        Meta(
            description="The messages for the model. They are absent for a key that is no admin's if they have the "
            "response of an HTTP call."
        ),
    ] = UNSET
    searches: Annotated[list[TrialSearch], Meta(description="The searches of the tasks.")]
    http_calls: Annotated[list[TrialHttpCall], Meta(description="The HTTP calls of the tasks.")]
    stages: Annotated[list[TrialStage], Meta(description="The parts of the retrieval, in the order of their ends.")]
    ms: Annotated[float, Meta(description="Milliseconds of the whole retrieval.")]


_MESSAGES: Final = msgspec.json.Decoder(list[TrialMessage])


class RetrievalTrials:
    """Retrieves as a chat does, and calls no model and writes no entry of the audit ledger.

    Args:
        assistants: the stored assistants.
        plain: makes the models that are no assistants.
        bases: the knowledge bases.
        validator: checks assistants that are not stored.
    """

    def __init__(
        self,
        assistants: Assistants,
        plain: PlainModels,
        bases: Configurations[KnowledgeBase],
        validator: AssistantValidator,
    ) -> None:
        self._assistants = assistants
        self._plain = plain
        self._bases = bases
        self._validator = validator

    async def retrieve(self, body: TrialQuestion, caller: Caller, *, shows_responses: bool) -> RetrievalTrial:
        """The retrieval for a question.

        Args:
            caller: where it comes from.
            shows_responses: whether the messages may have the responses of HTTP calls.

        Raises:
            ConfigurationNotFound: the assistant or the base does not exist for the caller.
            DatabaseUnavailable: whether it exists is unknown.
            InvalidRequest: the fields do not fit together, or the filter or the assistant is not valid.
            Overloaded: there is no room for the response.
        """
        model = await self._model(body, caller.bases)
        messages = encode_raw([{"role": "user", "content": body.question}])
        conversation = run_whole(read_conversation(messages))
        if conversation is None:
            raise InvalidRequest.at("$.question", "Must not be blank")
        with recorded_times() as times:
            found, added = await model.trial(conversation, caller)
        prompt = messages if added.messages is None else added.messages
        await reserve(BYTES_PER_CHARACTER * len(prompt))
        is_shown = shows_responses or not any(each.is_response for each in added.passages)
        return RetrievalTrial(
            reason=added.reason or UNSET,
            passages=[each for context in found.contexts for each in _passages(context)],
            messages=_MESSAGES.decode(prompt) if is_shown else UNSET,
            searches=[each for context in found.contexts for each in _searches(context)],
            http_calls=_http_calls(found),
            stages=_stages(times),
            ms=_milliseconds(found.seconds),
        )

    async def _model(self, body: TrialQuestion, visible: NamePatterns) -> AssistantModel:
        """The assistant of a question."""
        if body.base is not UNSET and body.assistant is not UNSET:
            raise InvalidRequest.at("$", "Must have at most one of assistant and base")
        if isinstance(body.base, str):
            return self._assistants.unsaved(await self._of_base(body.base, body, visible))
        given = {"maxResults": body.max_results, "minScore": body.min_score, "where": body.where or UNSET}
        if errors := [FieldError(f"$.{name}", "Needs base") for name, value in given.items() if value is not UNSET]:
            raise _invalid(errors)
        if isinstance(body.assistant, Assistant):
            await self._check(body.assistant, visible)
            return self._assistants.unsaved(body.assistant)
        if not isinstance(body.assistant, str):
            return self._plain.model([])
        found = await self._assistants.find(body.assistant)
        if found is None:
            raise ConfigurationNotFound("There is no assistant of this name")
        return found

    async def _of_base(self, id: str, body: TrialQuestion, visible: NamePatterns) -> Assistant:
        """An assistant that searches one base."""
        check_where(body.where, "$.where")
        name = await self._bases.name_of(id)
        if name is None or not is_visible(id, name, visible):
            raise ConfigurationNotFound(f"There is no knowledge base {id[:100]}")
        name = (await self._bases.read(id)).body.name
        reference = KnowledgeBaseReference(
            name=name,
            max_results=None if body.max_results is UNSET else body.max_results,
            min_score=None if body.min_score is UNSET else body.min_score,
        )
        return Assistant(
            name=name, workflow=[name], tasks=[Task(id=BASE_TASK, knowledge_bases=[reference], where=body.where)]
        )

    async def _check(self, assistant: Assistant, visible: NamePatterns) -> None:
        """Check an assistant that is not stored.

        Raises:
            InvalidRequest: it cannot work.
        """
        try:
            await self._validator.validate(assistant, visible)
        except InvalidRequest as error:
            raise _invalid(
                FieldError(each.path.replace("$", "$.assistant", 1), each.message) for each in error.field_errors
            ) from None


def _invalid(faults: Iterable[FieldError]) -> InvalidRequest:
    errors = list(faults)
    return InvalidRequest("; ".join(f"{each.message}: {each.path}" for each in errors), errors)


def _passages(context: TaskContext) -> Iterator[TrialPassage]:
    ids = {each.kb: each.id for each in context.trace.knowledge_bases or ()}
    for each in context.candidates:
        base_id = ids[each.passage.base]
        yield _passage(each, context.trace.task, "" if base_id is UNSET else base_id)


def _passage(candidate: Candidate, task: str, base_id: str) -> TrialPassage:
    passage = candidate.passage
    metadata = passage.metadata
    name = SourceName.of(metadata, passage.base)
    return TrialPassage(
        task=task,
        base=passage.base,
        base_id=base_id,
        id=passage.id,
        fate=candidate.fate,
        number=candidate.number or UNSET,
        score=min(1.0, max(0.0, round(passage.relevance, 6))),
        title=name.title,
        url=name.url or UNSET,
        document=_text(metadata.get(DOCUMENT_KEY)),
        document_name=_text(metadata.get(DOCUMENT_NAME_KEY)),
        page=_whole(metadata.get("page_number")),
        start=_whole(metadata.get("char_start")),
        end=_whole(metadata.get("char_end")),
        text=passage.text,
    )


def _text(value: object) -> str | UnsetType:
    return value if isinstance(value, str) and value else UNSET


def _whole(value: object) -> int | UnsetType:
    return value if isinstance(value, int) and not isinstance(value, bool) else UNSET


def _searches(context: TaskContext) -> Iterator[TrialSearch]:
    for each in context.trace.knowledge_bases or ():
        yield TrialSearch(
            task=context.trace.task,
            base=each.kb,
            base_id=each.id,
            version=each.version,
            max_results=each.max_results,
            min_score=each.min_score,
            error=each.error,
        )


def _http_calls(found: Retrieval) -> list[TrialHttpCall]:
    calls: list[tuple[str, HttpCallTrace]] = [
        (context.trace.task, context.trace.http_call)
        for context in found.contexts
        if context.trace.http_call is not None
    ]
    return [
        TrialHttpCall(task=task, name=call.http_call, context_length=call.context_length, error=call.error)
        for task, call in calls
    ]


def _stages(times: Sequence[SpanTime]) -> list[TrialStage]:
    return [
        TrialStage(each.name, _milliseconds(each.seconds), _text(each.attributes.get("base")))
        for each in times
        if each.name in STAGES
    ]


def _milliseconds(seconds: float) -> float:
    return round(seconds * 1000, 1)
