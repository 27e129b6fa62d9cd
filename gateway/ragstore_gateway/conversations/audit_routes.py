"""The routes of the audit ledger."""

from __future__ import annotations

import asyncio
import re
from collections.abc import AsyncIterator, Sequence
from datetime import UTC, datetime
from typing import Annotated, Any, Final, Literal

import msgspec
from litestar import Request, Response, get, post
from litestar.handlers import HTTPRouteHandler
from litestar.params import QueryParameter
from litestar.response import Stream
from msgspec import Meta, Struct

from ragstore.kit.auth.roles import READS
from ragstore.kit.errors import Forbidden, InvalidRequest
from ragstore.kit.numbers import MAX_WHOLE
from ragstore.kit.openapi import ERRORS
from ragstore_gateway.api.bodies import decode_configuration
from ragstore_gateway.api.openapi import body_of
from ragstore_gateway.api.piecewise import pieces_of
from ragstore_gateway.conversations.chain import ChainedEntry, Head, exported
from ragstore_gateway.conversations.conversation_id import check_id
from ragstore_gateway.conversations.ledger import EntryFilter, Ledger
from ragstore_gateway.conversations.routes import ID_SCHEMA, ConversationsDependency, Limit
from ragstore_gateway.errors import AuditDamaged, DatabaseUnavailable, TooManyVerifications, VerificationTimeout
from ragstore_gateway.keys import ADMIN, visible_bases

MAX_NAME: Final = 128

_TIME: Final = re.compile(
    r"(\d{4})(-\d{2}-\d{2})[Tt ](\d{2}:\d{2}:)(\d{2})(\.\d{1,9})?([Zz]|[+-]\d{2}:\d{2})", re.ASCII
)


class AuditEntry(Struct, frozen=True, rename="camel", kw_only=True):
    """An entry of the audit ledger."""

    sequence: Annotated[int, Meta(description="Number of the entry, from 1, without gaps.")]
    id: Annotated[str, Meta(description="Id of the event; that of the step of a conversation.")]
    created_on: Annotated[datetime, Meta(description="Time of the event.")]
    kind: Annotated[str, Meta(description="`retrieval`, `deletion` of a conversation, or `feedback` on a step.")]
    conversation: Annotated[str, Meta(description="Id of the conversation; empty for none.")]
    key: Annotated[str, Meta(description="Name of the caller's key; empty without keys.")]
    request_id: Annotated[str, Meta(description="Id of the request.")]
    assistant: Annotated[str, Meta(description="Name of the assistant; empty for none.")]
    assistant_id: Annotated[str, Meta(description="Id of the assistant.")]
    assistant_version: Annotated[int, Meta(description="Version of the assistant.")]
    data: Annotated[
        dict[str, Any],
        Meta(description="The traces of a retrieval, the number of deleted `steps`, or `step` and `helpful`."),
    ]
    previous_hash: Annotated[str, Meta(description="Hash of the entry before it; zeros for the first one.")]
    hash: Annotated[str, Meta(description="SHA-256 of all other fields as JSON: sorted keys, no spaces, UTF-8.")]


class AuditHead(Struct, frozen=True):
    """The end of the ledger, which is stored apart from its entries."""

    count: Annotated[int, Meta(description="Number of entries.")]
    hash: Annotated[str, Meta(description="Hash of the last one.")]


class AuditPage(Struct, frozen=True, omit_defaults=True):
    """A page of the audit ledger."""

    entries: Annotated[list[AuditEntry], Meta(description="The entries, in the order of the request.")]
    head: Annotated[AuditHead | None, Meta(description="The end of the ledger; null if it is missing.")]
    next: Annotated[int | None, Meta(description="`after` for the next page; absent if there is none.")] = None


class AuditVerificationRequest(Struct, frozen=True, forbid_unknown_fields=True):
    """How the ledger is verified."""

    head: Annotated[
        str,
        Meta(
            pattern=r"^([0-9]{1,18}:[0-9a-f]{64})?$(?!\n)",
            description="An earlier end of the ledger, `COUNT:HASH`, which was recorded elsewhere; empty for none.",
        ),
    ] = ""


class AuditProblem(Struct, frozen=True):
    """Why the ledger is not intact."""

    sequence: Annotated[int, Meta(description="Number of the entry.")]
    message: Annotated[str, Meta(description="The problem, without content.")]


class AuditVerification(Struct, frozen=True):
    """The result of a verification."""

    intact: Annotated[bool, Meta(description="Whether no entry was changed, inserted, moved or removed.")]
    entries: Annotated[int, Meta(description="Number of entries.")]
    head: Annotated[str, Meta(description="The end of the ledger, `COUNT:HASH`, to be recorded elsewhere.")]
    problems: Annotated[list[AuditProblem], Meta(description="The first 20 problems.")]


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
        str | None, QueryParameter(description="Id of a conversation; all if absent.", schema_extra=ID_SCHEMA)
    ] = None,
    since: Annotated[
        str | None,
        QueryParameter(
            description="Minimum time of the entries, such as `2026-11-22T10:00:00Z`.",
            schema_extra={"format": "date-time"},
        ),
    ] = None,
    until: Annotated[
        str | None,
        QueryParameter(description="The time before which the entries are.", schema_extra={"format": "date-time"}),
    ] = None,
    kind: Annotated[
        Literal["retrieval", "deletion", "feedback"] | None,
        QueryParameter(description="Kind of the entries; all if absent."),
    ] = None,
    key: Annotated[
        str | None,
        QueryParameter(max_length=MAX_NAME, description="Name of the caller's key; empty for callers without one."),
    ] = None,
    assistant: Annotated[
        str | None, QueryParameter(max_length=MAX_NAME, description="Name of the assistant; all if absent or empty.")
    ] = None,
    order: Annotated[
        Literal["oldest", "newest"], QueryParameter(description="The entries that come first.")
    ] = "oldest",
    after: Annotated[
        int,
        QueryParameter(
            ge=0, le=MAX_WHOLE, description="Number of an entry, after which to begin, in this order; 0 for the first."
        ),
    ] = 0,
    limit: Limit = 100,
) -> Response[AuditPage]:
    """The retrievals of all keys, without content: ids, scores, numbers and errors.

    Each entry contains the hash of the entry before it. `ragstore-gateway audit verify` checks the chain. It is one
    chain for all knowledge bases, so a key that is limited to some gets 403. With `kind`, `key` or `assistant`, a page
    may have fewer entries than its limit, also none, while `next` is present: 10,000 entries are searched for a page.
    """
    _check_sees_all(request)
    if conversation is not None:
        check_id(conversation, "$.conversation")
    chosen = EntryFilter(
        conversation=conversation or "",
        kind=kind or "",
        key=key,
        assistant=assistant or "",
        since=None if since is None else _time(since, "$.since"),
        until=None if until is None else _time(until, "$.until"),
    )
    await conversations.flush()
    head = await conversations.ledger.head()
    found = await conversations.ledger.read(chosen, after=after, limit=limit, newest=order == "newest")
    page = AuditPage(
        [_entry(each) for each in found.entries], None if head is None else AuditHead(head.count, head.hash), found.next
    )
    return Response(page)


def _time(text: str, path: str) -> datetime:
    """A time of RFC 3339.

    Args:
        path: path of the parameter, for the error.

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
    raise InvalidRequest.at(path, "Must be a time such as 2026-11-22T10:00:00Z")


@post(
    "/audit/verification",
    status_code=200,
    opt={
        **ADMIN,
        **READS,
        ERRORS: (DatabaseUnavailable, TooManyVerifications, VerificationTimeout),
        **body_of(AuditVerificationRequest),
    },
    operation_id="verifyAuditLedger",
    summary="Verify the audit ledger",
    tags=["conversations"],
)
async def verify_audit_ledger(
    request: Request[Any, Any, Any], conversations: ConversationsDependency
) -> AuditVerification:
    """Check that no entry of the ledger was changed, inserted, moved or removed, as `ragstore-gateway audit verify`.

    All entries are read. One verification runs at a time, and takes at most 300 s.
    """
    _check_sees_all(request)
    body = decode_configuration(AuditVerificationRequest, await request.body())
    check = await conversations.verify(Head.parse(body.head) if body.head else None)
    problems = [AuditProblem(each.sequence, each.message) for each in check.problems]
    return AuditVerification(check.intact, check.head.count, str(check.head), problems)


@get(
    "/audit/export",
    opt={**ADMIN, ERRORS: (DatabaseUnavailable,)},
    operation_id="exportAuditLedger",
    summary="Export the audit ledger",
    tags=["conversations"],
    media_type="application/x-ndjson",
)
async def export_audit_ledger(request: Request[Any, Any, Any], conversations: ConversationsDependency) -> Stream:
    """All entries as JSON, one a line, and the end of the ledger, for `ragstore-gateway audit verify --file`.

    An entry that is not JSON ends the response before its end.
    """
    _check_sees_all(request)
    await conversations.flush()
    # The database fails before the response begins, if it does.
    await conversations.ledger.head()
    headers = {"Content-Disposition": 'attachment; filename="audit.jsonl"'}
    return Stream(_exported(conversations.ledger), media_type="application/x-ndjson", headers=headers)


async def _exported(ledger: Ledger) -> AsyncIterator[bytes]:
    async for part in ledger.export():
        lines = await asyncio.to_thread(_lines, part)
        async for piece in pieces_of([lines]):
            yield piece


def _lines(part: Sequence[ChainedEntry | Head]) -> bytes:
    return "".join(map(exported, part)).encode()


def _check_sees_all(request: Request[Any, Any, Any]) -> None:
    if not visible_bases(request.scope).matches_all:
        raise Forbidden("The audit ledger has the retrievals from all knowledge bases; the key is limited to some")


def _entry(stored: ChainedEntry) -> AuditEntry:
    try:
        fields = msgspec.json.decode(stored.body)
        return msgspec.convert({**fields, "hash": stored.hash}, AuditEntry)
    except (msgspec.MsgspecError, TypeError):
        raise AuditDamaged(
            f"Entry {stored.sequence} cannot be read: `ragstore-gateway audit verify` shows why"
        ) from None


ROUTES: Final[list[HTTPRouteHandler]] = [list_audit_entries, verify_audit_ledger, export_audit_ledger]
"""The routes of the audit ledger."""
