"""The routes of conversations and of the audit ledger."""

from __future__ import annotations

import re
from datetime import UTC, datetime
from typing import Annotated, Any, Final, TypeAlias

import msgspec
from litestar import Request, Response, delete, get
from litestar.di import NamedDependency
from litestar.params import PathParameter, QueryParameter, SkipValidation
from msgspec import Meta, Struct

from ragstore.kit.context import current_request, record_write
from ragstore.kit.errors import Forbidden, InvalidRequest
from ragstore.kit.numbers import MAX_WHOLE
from ragstore.kit.openapi import ERRORS
from ragstore_gateway.conversations.assembly import Conversations
from ragstore_gateway.conversations.chain import ChainedEntry
from ragstore_gateway.conversations.conversation_id import MAX_LENGTH, PATTERN, check_id
from ragstore_gateway.conversations.repository import ConversationStep
from ragstore_gateway.errors import AuditDamaged, ConversationNotFound, DatabaseUnavailable
from ragstore_gateway.keys import ADMIN, READER, key_name_of, key_of, visible_bases

MAX_PAGE: Final = 1000

_ID_SCHEMA: Final = {"pattern": PATTERN, "min_length": 1, "max_length": MAX_LENGTH}
_TIME: Final = re.compile(
    r"(\d{4})(-\d{2}-\d{2})[Tt ](\d{2}:\d{2}:)(\d{2})(\.\d{1,9})?([Zz]|[+-]\d{2}:\d{2})", re.ASCII
)

ConversationsDependency: TypeAlias = SkipValidation[NamedDependency[Conversations]]

Id: TypeAlias = Annotated[str, PathParameter(description="Id of the conversation.", schema_extra=_ID_SCHEMA)]
Limit: TypeAlias = Annotated[int, QueryParameter(ge=1, le=MAX_PAGE, description="Maximum number of items.")]


class Conversation(Struct, frozen=True, rename="camel", kw_only=True):
    """A conversation, or a page of its steps."""

    conversation_id: Annotated[str, Meta(description="Id of the conversation.")]
    steps: Annotated[list[ConversationStep], Meta(description="The steps, the oldest one first.")]


class AuditEntry(Struct, frozen=True, rename="camel", kw_only=True):
    """An entry of the audit ledger."""

    sequence: Annotated[int, Meta(description="Number of the entry, from 1, without gaps.")]
    id: Annotated[str, Meta(description="Id of the event; that of the step of a conversation.")]
    created_on: Annotated[datetime, Meta(description="Time of the event.")]
    kind: Annotated[str, Meta(description="`retrieval`, or `deletion` of a conversation.")]
    conversation: Annotated[str, Meta(description="Id of the conversation; empty for none.")]
    key: Annotated[str, Meta(description="Name of the caller's key; empty without keys.")]
    request_id: Annotated[str, Meta(description="Id of the request.")]
    assistant: Annotated[str, Meta(description="Name of the assistant; empty for none.")]
    assistant_id: Annotated[str, Meta(description="Id of the assistant.")]
    assistant_version: Annotated[int, Meta(description="Version of the assistant.")]
    data: Annotated[dict[str, Any], Meta(description="The traces of a retrieval by key, or the number of `steps`.")]
    previous_hash: Annotated[str, Meta(description="Hash of the entry before it; zeros for the first one.")]
    hash: Annotated[str, Meta(description="SHA-256 of all other fields as JSON: sorted keys, no spaces, UTF-8.")]


class AuditHead(Struct, frozen=True):
    """The end of the ledger, which is stored apart from its entries."""

    count: Annotated[int, Meta(description="Number of entries.")]
    hash: Annotated[str, Meta(description="Hash of the last one.")]


class AuditPage(Struct, frozen=True, omit_defaults=True):
    """A page of the audit ledger."""

    entries: Annotated[list[AuditEntry], Meta(description="The entries, the oldest one first.")]
    head: Annotated[AuditHead | None, Meta(description="The end of the ledger; null if it is missing.")]
    next: Annotated[int | None, Meta(description="`after` for the next page; absent if there is none.")] = None


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


@get(
    "/audit",
    opt={**ADMIN, ERRORS: (DatabaseUnavailable, AuditDamaged)},
    operation_id="listAuditEntries",
    summary="Read the audit ledger",
    tags=["conversations"],
)
async def list_audit_entries(
    request: Request[Any, Any, Any],
    conversations: ConversationsDependency,
    conversation: Annotated[
        str | None, QueryParameter(description="Id of a conversation; all if absent.", schema_extra=_ID_SCHEMA)
    ] = None,
    since: Annotated[
        str | None,
        QueryParameter(
            description="Minimum time of the entries, such as `2026-11-22T10:00:00Z`.",
            schema_extra={"format": "date-time"},
        ),
    ] = None,
    after: Annotated[
        int, QueryParameter(ge=0, le=MAX_WHOLE, description="Number of an entry, after which to begin.")
    ] = 0,
    limit: Limit = 100,
) -> Response[AuditPage]:
    """The retrievals of all keys, without content: ids, scores, numbers and errors.

    Each entry contains the hash of the entry before it. `ragstore-gateway audit verify` checks the chain. It is one
    chain for all knowledge bases, so a key that is limited to some gets 403.
    """
    if not visible_bases(request.scope).matches_all:
        raise Forbidden("The audit ledger has the retrievals from all knowledge bases; the key is limited to some")
    if conversation is not None:
        check_id(conversation, "$.conversation")
    start = None if since is None else _time(since)
    await conversations.flush()
    head = await conversations.ledger.head()
    found = await conversations.ledger.read(conversation=conversation or "", since=start, after=after, limit=limit + 1)
    page = AuditPage(
        [_entry(each) for each in found[:limit]],
        None if head is None else AuditHead(head.count, head.hash),
        found[limit - 1].sequence if len(found) > limit else None,
    )
    return Response(page)


def _time(text: str) -> datetime:
    """A time of RFC 3339.

    Raises:
        InvalidRequest: it is of another form.
    """
    found = _TIME.fullmatch(text)
    if found is not None:
        year, date, minutes, second, fraction, zone = found.groups("")
        # Python's years begin with 1, and it has no leap seconds.
        given = f"{max(year, '0001')}{date}T{minutes}{min(second, '59')}{fraction[:7]}{zone.upper()}"
        try:
            return datetime.fromisoformat(given).astimezone(UTC)
        except OverflowError:
            return (datetime.max if year == "9999" else datetime.min).replace(tzinfo=UTC)
        except ValueError:
            pass
    raise InvalidRequest.at("$.since", "Must be a time such as 2026-11-22T10:00:00Z")


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


def _entry(stored: ChainedEntry) -> AuditEntry:
    try:
        fields = msgspec.json.decode(stored.body)
        return msgspec.convert({**fields, "hash": stored.hash}, AuditEntry)
    except (msgspec.MsgspecError, TypeError):
        raise AuditDamaged(
            f"Entry {stored.sequence} cannot be read: `ragstore-gateway audit verify` shows why"
        ) from None
