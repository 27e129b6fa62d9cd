"""`Step`: what was retrieved for one request of a conversation. Names and keys are EDDI's; ids and scores are ours."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import Annotated, Any, Final, Literal, TypeAlias
from uuid import uuid4

import msgspec
from msgspec import UNSET, Meta, Struct, UnsetType

TRACE_KEY: Final = "rag:trace:"
CONTEXT_KEY: Final = "rag:context:"
HTTP_CALL_KEY: Final = "rag:httpcall:trace:"
"""Beginnings of the keys of a step; the id of the task follows."""

QUESTION_KEY: Final = "rag:question"
"""Key of the text that was searched for, if a model has made it. Questions of users are not stored."""

QUESTION_TASK: Final = ""
"""The task of that text among the contexts. Each task has an id that is not empty."""


FEEDBACK_KEY: Final = "rag:feedback"
"""Key of the feedback on a step."""

COMMENT_KEY: Final = "rag:feedback:comment"
"""Key of the comment of a feedback, and its task among the contexts: the id of a task has no colon. It is content."""


Fate: TypeAlias = Literal[
    "context", "cut", "no_room", "ranked_away", "same_source", "duplicate", "below_min_score", "unrelated"
]
"""Whether a candidate is in the context, or why not.

`context` and `cut`: it is, the latter one not to its end. `no_room`: it does not fit. `ranked_away`: others rank before
it. `same_source`: a better passage of its source represents it. `duplicate`: its text is in the context already.
`below_min_score`: its relevance is less than the minimum. `unrelated`: the question is short, and no passage is similar
to it.
"""


class PassageTrace(Struct, frozen=True, rename="camel", omit_defaults=True):
    """A candidate for the context."""

    id: Annotated[str, Meta(description="Id of the chunk.")]
    score: Annotated[float, Meta(description="Relevance, (1 + cosine) / 2.")]
    fate: Annotated[Fate, Meta(description="Whether it is in the context, or why not.")]
    document_id: Annotated[str, Meta(description="Id of its document.")] = ""
    number: Annotated[int, Meta(description="Its number in the prompt; absent if it is not there.")] = 0
    omitted: Annotated[bool, Meta(description="Whether it is not in the context, for lack of space.")] = False


class KnowledgeBaseTrace(Struct, frozen=True, rename="camel", kw_only=True):
    """The search of one knowledge base: its parameters and result, or the error."""

    kb: Annotated[str, Meta(description="Name of the knowledge base.")]
    id: Annotated[str | UnsetType, Meta(description="Its id.")] = UNSET
    version: Annotated[int | UnsetType, Meta(description="Version of its configuration.")] = UNSET
    provider: Annotated[str | UnsetType, Meta(description="Provider of embeddings.")] = UNSET
    store_type: Annotated[str | UnsetType, Meta(description="Engine.")] = UNSET
    max_results: Annotated[int | UnsetType, Meta(description="Maximum number of passages.")] = UNSET
    min_score: Annotated[float | UnsetType, Meta(description="Minimum relevance.")] = UNSET
    retrieved_count: Annotated[int | UnsetType, Meta(description="Number of passages found.")] = UNSET
    passages: Annotated[Sequence[PassageTrace] | UnsetType, Meta(description="The candidates, without texts.")] = UNSET
    error: Annotated[str | UnsetType, Meta(description="Code of the error of a failed search.")] = UNSET


class HttpCallTrace(Struct, frozen=True, rename="camel", kw_only=True):
    """An HTTP call for a context."""

    http_call: Annotated[str, Meta(description="Name of the call.")]
    context_length: Annotated[int, Meta(description="Number of characters that it added to the context.")] = 0
    error: Annotated[str | UnsetType, Meta(description="Code of the error of a failed call.")] = UNSET


class TaskTrace(Struct, frozen=True, kw_only=True):
    """The retrieval of one task of an assistant.

    Attributes:
        task: its id.
        knowledge_bases: the searches; None if the task searches none.
        http_call: the HTTP call; None if the task has none.
        context: the text that was added to the system message; empty if there is none.
    """

    task: str
    knowledge_bases: Sequence[KnowledgeBaseTrace] | None = None
    http_call: HttpCallTrace | None = None
    context: str = ""

    @property
    def searches(self) -> bool:
        """Whether the task searches anything."""
        return bool(self.knowledge_bases) or self.http_call is not None


class Step(Struct, frozen=True, kw_only=True):
    """One request of a conversation.

    Attributes:
        id: its id. A step that is written twice, because a commit was not acknowledged, is stored once.
        created_on: its time.
        conversation: id of the conversation; empty if the request names none.
        key: name of the caller's key; empty without keys.
        request_id: id of the request.
        assistant: name of the assistant.
        tasks: what its tasks retrieved.
        searched: the text that was searched for, if a model has made it. It is content.
    """

    id: str = msgspec.field(default_factory=lambda: str(uuid4()))
    created_on: datetime = msgspec.field(default_factory=lambda: datetime.now(UTC))
    conversation: str
    key: str
    request_id: str
    assistant: str
    assistant_id: str
    assistant_version: int
    tasks: Sequence[TaskTrace]
    searched: str = ""

    @property
    def traces(self) -> dict[str, Any]:
        """The traces by key, without content: of each task `rag:trace:` and `rag:httpcall:trace:`."""
        given: dict[str, Any] = {}
        for task in self.tasks:
            if task.http_call is not None:
                given[HTTP_CALL_KEY + task.task] = msgspec.to_builtins(task.http_call)
            if task.knowledge_bases is not None:
                given[TRACE_KEY + task.task] = msgspec.to_builtins(task.knowledge_bases)
        return given

    @property
    def contexts(self) -> Mapping[str, str]:
        """The contexts by task, and the text that was searched for under an empty one. They are content."""
        given = {task.task: task.context for task in self.tasks if task.context}
        return {QUESTION_TASK: self.searched, **given} if self.searched else given
