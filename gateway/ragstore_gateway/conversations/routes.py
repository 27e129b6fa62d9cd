"""The routes of conversations."""

from __future__ import annotations

from typing import Annotated, Any, Final, TypeAlias

from litestar import Request, delete, get, post
from litestar.di import NamedDependency
from litestar.handlers import HTTPRouteHandler
from litestar.params import PathParameter, QueryParameter, SkipValidation
from msgspec import Meta, Struct

from ragstore.kit.context import current_request, record_write
from ragstore.kit.misfits import described
from ragstore.kit.numbers import MAX_WHOLE
from ragstore.kit.openapi import ERRORS
from ragstore_gateway.api.bodies import decode_configuration
from ragstore_gateway.api.openapi import body_of
from ragstore_gateway.conversations.assembly import Conversations
from ragstore_gateway.conversations.conversation_id import MAX_LENGTH, PATTERN, check_id
from ragstore_gateway.conversations.repository import ConversationStep, ConversationSummary, Feedback
from ragstore_gateway.errors import ConversationNotFound, DatabaseUnavailable, StepNotFound
from ragstore_gateway.keys import READER, key_name_of, key_of
from ragstore_gateway.settings import Settings

MAX_PAGE: Final = 1000

MAX_COMMENT: Final = 4096
WITHOUT_NUL: Final = described(r"^[^\x00]*$(?!\n)", "Must have no NUL")
"""PostgreSQL's texts have none."""

ID_SCHEMA: Final = {"pattern": PATTERN, "min_length": 1, "max_length": MAX_LENGTH}

ConversationsDependency: TypeAlias = SkipValidation[NamedDependency[Conversations]]

Id: TypeAlias = Annotated[str, PathParameter(description="Id of the conversation.", schema_extra=ID_SCHEMA)]
Limit: TypeAlias = Annotated[int, QueryParameter(ge=1, le=MAX_PAGE, description="Maximum number of items.")]


class Conversation(Struct, frozen=True, rename="camel", kw_only=True):
    """A conversation, or a page of its steps."""

    conversation_id: Annotated[str, Meta(description="Id of the conversation.")]
    steps: Annotated[list[ConversationStep], Meta(description="The steps, the oldest one first.")]


class ConversationList(Struct, frozen=True, omit_defaults=True):
    """A page of conversations."""

    conversations: Annotated[list[ConversationSummary], Meta(description="The conversations, by their last steps.")]
    next: Annotated[int | None, Meta(description="`after` for the next page; absent if there is none.")] = None


class StepFeedback(Struct, frozen=True, rename="camel", kw_only=True, forbid_unknown_fields=True):
    """Feedback on a reply."""

    request_id: Annotated[
        str,
        Meta(
            min_length=1,
            max_length=128,
            pattern=WITHOUT_NUL,
            description="Id of the request of the reply: its header `X-Request-ID`.",
        ),
    ]
    helpful: Annotated[bool, Meta(description="Whether the reply was helpful.")]
    comment: Annotated[
        str,
        Meta(
            max_length=MAX_COMMENT,
            pattern=WITHOUT_NUL,
            description="Further text. It is content, and is kept if contexts are.",
        ),
    ] = ""


class StoredFeedback(Struct, frozen=True, rename="camel", kw_only=True):
    """The feedback that is stored."""

    step: Annotated[str, Meta(description="Id of the step.")]
    helpful: Annotated[bool, Meta(description="Whether the reply was helpful.")]
    comment_kept: Annotated[bool, Meta(description="Whether a comment is stored.")]


@get(
    "/conversations",
    opt={**READER, ERRORS: (DatabaseUnavailable,)},
    operation_id="listConversations",
    summary="List conversations",
    tags=["conversations"],
)
async def list_conversations(
    request: Request[Any, Any, Any],
    conversations: ConversationsDependency,
    after: Annotated[
        int, QueryParameter(ge=0, le=MAX_WHOLE, description="`next` of the page before; 0 for the first page.")
    ] = 0,
    limit: Limit = 100,
) -> ConversationList:
    """The conversations that have steps, by the time of the last one, newest first.

    A key sees the conversations of its own requests. An admin whose key is not limited to some knowledge bases sees
    the conversations of all keys.
    """
    await conversations.flush()
    found, following = await conversations.repository.summaries(_visible_key(request), after=after, limit=limit)
    return ConversationList(list(found), following)


@get(
    "/conversations/{conversation_id:str}",
    opt={**READER, ERRORS: (ConversationNotFound, DatabaseUnavailable)},
    operation_id="getConversation",
    summary="Read a conversation",
    tags=["conversations"],
)
async def get_conversation(
    request: Request[Any, Any, Any],
    conversations: ConversationsDependency,
    conversation_id: Id,
    index: Annotated[
        int, QueryParameter(ge=0, le=MAX_WHOLE // MAX_PAGE, description="Number of the page, from 0.")
    ] = 0,
    limit: Limit = 100,
) -> Conversation:
    """The steps of a conversation, and what was retrieved for each.

    A key reads the steps of its own requests. An admin whose key is not limited to some knowledge bases reads the
    steps of all keys.
    """
    name = check_id(conversation_id, "$.conversation_id")
    await conversations.flush()
    visible = _visible_key(request)
    steps = await conversations.repository.read(name, visible, offset=index * limit, limit=limit)
    if not steps and (index == 0 or not await conversations.repository.read(name, visible, offset=0, limit=1)):
        raise _not_found()
    return Conversation(conversation_id=name, steps=steps)


@delete(
    "/conversations/{conversation_id:str}",
    opt={**READER, ERRORS: (ConversationNotFound, DatabaseUnavailable)},
    operation_id="deleteConversation",
    summary="Delete a conversation",
    tags=["conversations"],
    status_code=204,
)
async def delete_conversation(
    request: Request[Any, Any, Any], conversations: ConversationsDependency, conversation_id: Id
) -> None:
    """Delete the steps of a conversation, and their contexts.

    A key deletes the steps that it can read. The entries of the audit ledger stay: they have no content. The deletion
    is an entry, too.
    """
    name = check_id(conversation_id, "$.conversation_id")
    await conversations.flush()
    current = current_request()
    count = await conversations.repository.delete(
        name,
        _visible_key(request),
        caller=key_name_of(request.scope),
        request_id="" if current is None else current.request_id,
    )
    if not count:
        raise _not_found()
    record_write(f"conversations/{name}", count)


@post(
    "/conversations/{conversation_id:str}/feedback",
    status_code=200,
    opt={**READER, ERRORS: (StepNotFound, DatabaseUnavailable), **body_of(StepFeedback)},
    operation_id="giveFeedback",
    summary="Give feedback on a reply",
    tags=["conversations"],
)
async def give_feedback(
    request: Request[Any, Any, Any],
    conversations: ConversationsDependency,
    settings: SkipValidation[NamedDependency[Settings]],
    conversation_id: Id,
) -> StoredFeedback:
    """Store whether a reply was helpful, in place of an earlier feedback on it.

    A key gives feedback on the steps that it can read. The feedback is shown with the step, and is an entry of the
    audit ledger, without the comment.
    """
    name = check_id(conversation_id, "$.conversation_id")
    body = decode_configuration(StepFeedback, await request.body())
    await conversations.flush()
    current = current_request()
    feedback = Feedback(body.request_id, body.helpful, body.comment, "" if current is None else current.request_id)
    step = await conversations.repository.give_feedback(
        name, _visible_key(request), feedback, caller=key_name_of(request.scope)
    )
    if step is None:
        raise StepNotFound("The conversation has no step of this request and this key")
    record_write(f"conversations/{name}", 1)
    return StoredFeedback(step=step, helpful=body.helpful, comment_kept=bool(body.comment) and settings.keep_contexts)


def _visible_key(request: Request[Any, Any, Any]) -> str | None:
    """The key whose steps a request may see; None for the steps of all keys.

    The steps of all keys name the passages of all knowledge bases, so a key that is limited to some sees its own.
    """
    key = key_of(request.scope)
    if key is None or key.scope is None:
        return None
    return None if key.scope.role == "admin" and key.scope.bases is None else key.name


def _not_found() -> ConversationNotFound:
    return ConversationNotFound("There is no such conversation, or it has no steps of this key")


ROUTES: Final[list[HTTPRouteHandler]] = [list_conversations, get_conversation, delete_conversation, give_feedback]
"""The routes of conversations."""
