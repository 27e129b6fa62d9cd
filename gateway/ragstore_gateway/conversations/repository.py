"""`ConversationRepository`: steps and contexts in the database."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Annotated, Any, Final
from uuid import uuid4

import msgspec
from msgspec import Meta, Struct
from sqlalchemy import delete, exists, func, select
from sqlalchemy.ext.asyncio import AsyncSession
from sqlalchemy.orm import aliased

from ragstore_gateway.conversations.ledger import Ledger, NewEntry
from ragstore_gateway.conversations.step import (
    COMMENT_KEY,
    CONTEXT_KEY,
    FEEDBACK_KEY,
    QUESTION_KEY,
    QUESTION_TASK,
    Step,
)
from ragstore_gateway.conversations.tables import ContextRow, StepRow
from ragstore_gateway.database.database import Database
from ragstore_gateway.database.purge import purge

_OTHER_TEXTS: Final = {QUESTION_TASK: QUESTION_KEY, COMMENT_KEY: COMMENT_KEY}
"""Keys of the texts that are no contexts, by the tasks under which they are stored."""


@dataclass(frozen=True, slots=True)
class Feedback:
    """Feedback on a step.

    Attributes:
        step_request_id: id of the request of the step.
        helpful: whether the reply was helpful.
        comment: a text of the reader; empty for none.
        request_id: id of the request that brings it.
    """

    step_request_id: str
    helpful: bool
    comment: str
    request_id: str


class ConversationStep(Struct, frozen=True, rename="camel", kw_only=True):
    """A step of a conversation: one request, and what was retrieved for it."""

    id: Annotated[str, Meta(description="Id of the step, and of its entry in the audit ledger.")]
    created_on: Annotated[datetime, Meta(description="Time of the request.")]
    request_id: Annotated[str, Meta(description="Id of the request.")]
    key: Annotated[str, Meta(description="Name of the caller's key; empty without keys.")]
    assistant: Annotated[str, Meta(description="Name of the assistant.")]
    assistant_version: Annotated[int, Meta(description="Version of the assistant.")]
    data: Annotated[
        Mapping[str, Any],
        Meta(
            description=(
                "The traces by key: `rag:trace:TASK` lists the searches of knowledge bases, "
                "`rag:httpcall:trace:TASK` has the HTTP call, `rag:feedback` has the feedback on the reply, and "
                "`rag:context:TASK` is the text that was added to the system message, if contexts are kept."
            )
        ),
    ]


class ConversationSummary(Struct, frozen=True, rename="camel", kw_only=True):
    """A conversation in a list."""

    conversation_id: Annotated[str, Meta(description="Id of the conversation.")]
    steps: Annotated[int, Meta(description="Number of its steps that the key may see.")]
    first_step_on: Annotated[datetime, Meta(description="Time of the first one.")]
    last_step_on: Annotated[datetime, Meta(description="Time of the last one.")]
    key: Annotated[str, Meta(description="Name of the key of the last one; empty without keys.")]
    assistant: Annotated[str, Meta(description="Name of the assistant of the last one.")]


class ConversationRepository:
    """Steps and contexts.

    Args:
        ledger: the audit ledger.
        keep_contexts: whether contexts are kept.
        retention: how long they are kept.
    """

    def __init__(self, database: Database, ledger: Ledger, *, keep_contexts: bool, retention: timedelta) -> None:
        self._database = database
        self._ledger = ledger
        self._keep_contexts = keep_contexts
        self._retention = retention

    async def write(self, steps: Sequence[Step]) -> None:
        """Write steps, and an entry of the audit ledger for each, in one transaction.

        Args:
            steps: the steps. One that was written before is ignored; one without a conversation has its entry only.
        """
        async with self._database.session() as session:
            await self._ledger.append(session, [_entry(step) for step in steps])
            named = {step.id: step for step in steps if step.conversation}
            if not named:
                return
            for known in await session.scalars(select(StepRow.id).where(StepRow.id.in_(list(named)))):
                del named[known]
            rows = {step.id: _row(step) for step in named.values()}
            session.add_all(rows.values())
            await session.flush()
            if self._keep_contexts:
                session.add_all(
                    ContextRow(step=rows[step.id].number, task=task, created_on=step.created_on, text=context)
                    for step in named.values()
                    for task, context in step.contexts.items()
                )

    async def read(self, conversation: str, key: str | None, *, offset: int, limit: int) -> list[ConversationStep]:
        """Read steps, the oldest one first.

        Args:
            key: name of the key whose steps are visible; None for the steps of all keys.
            offset: number of steps to skip.
            limit: maximum number of steps.
        """
        query = select(StepRow).where(*_visible(conversation, key)).order_by(StepRow.number)
        async with self._database.reading() as session:
            rows = (await session.scalars(query.offset(offset).limit(limit))).all()
            contexts = await self._contexts(session, [row.number for row in rows])
        return [_step(row, contexts.get(row.number, {})) for row in rows]

    async def summaries(
        self, key: str | None, *, after: int, limit: int
    ) -> tuple[Sequence[ConversationSummary], int | None]:
        """List conversations by their last steps, the newest one first.

        Args:
            key: name of the key whose steps are visible; None for the steps of all keys.
            after: where the page before ended; 0 for the first page.
            limit: maximum number of conversations.

        Returns:
            The conversations, and `after` for the next page; None if there is none.
        """
        later = aliased(StepRow)
        own = [] if key is None else [StepRow.key == key]
        is_later = [later.conversation == StepRow.conversation, later.number > StepRow.number]
        if key is not None:
            is_later.append(later.key == key)
        query = select(StepRow).where(*own, ~exists().where(*is_later)).order_by(StepRow.number.desc())
        if after:
            query = query.where(StepRow.number < after)
        async with self._database.reading() as session:
            found = (await session.scalars(query.limit(limit + 1))).all()
            last = found[:limit]
            numbers = (
                select(StepRow.conversation, func.count(), func.min(StepRow.created_on))
                .where(*own, StepRow.conversation.in_([row.conversation for row in last]))
                .group_by(StepRow.conversation)
            )
            counted = {name: (count, first) for name, count, first in await session.execute(numbers)}
        given = [
            ConversationSummary(
                conversation_id=row.conversation,
                steps=counted[row.conversation][0],
                first_step_on=counted[row.conversation][1],
                last_step_on=row.created_on,
                key=row.key,
                assistant=row.assistant,
            )
            for row in last
        ]
        return given, last[-1].number if len(found) > limit else None

    async def give_feedback(self, conversation: str, key: str | None, feedback: Feedback, *, caller: str) -> str | None:
        """Store the feedback on a step, in place of an earlier one, and append an entry to the audit ledger.

        Args:
            key: name of the key whose steps are visible; None for the steps of all keys.
            feedback: the feedback. Its comment is content, and is kept as the contexts are.
            caller: name of the caller's key.

        Returns:
            The id of the step; None if there is none of this request.
        """
        query = select(StepRow).where(*_visible(conversation, key), StepRow.request_id == feedback.step_request_id)
        now = datetime.now(UTC)
        async with self._database.session() as session:
            row = await session.scalar(query.order_by(StepRow.number.desc()).limit(1).with_for_update())
            if row is None:
                return None
            row.data = {**row.data, FEEDBACK_KEY: {"helpful": feedback.helpful, "createdOn": msgspec.to_builtins(now)}}
            own = (ContextRow.step == row.number, ContextRow.task == COMMENT_KEY)
            await session.execute(delete(ContextRow).where(*own))
            if feedback.comment and self._keep_contexts:
                session.add(ContextRow(step=row.number, task=COMMENT_KEY, created_on=now, text=feedback.comment))
            entry = NewEntry(
                id=str(uuid4()),
                created_on=now,
                kind="feedback",
                conversation=conversation,
                key=caller,
                request_id=feedback.request_id,
                assistant=row.assistant,
                assistant_version=row.assistant_version,
                data={"step": row.id, "helpful": feedback.helpful},
            )
            await self._ledger.append(session, [entry])
            return row.id

    async def delete(self, conversation: str, key: str | None, *, caller: str, request_id: str) -> int:
        """Delete steps with their contexts, and append an entry to the audit ledger. Earlier entries stay.

        Args:
            key: name of the key whose steps are deleted; None for the steps of all keys.
            caller: name of the caller's key.
            request_id: id of the request.

        Returns:
            The number of steps deleted.
        """
        visible = _visible(conversation, key)
        async with self._database.session() as session:
            count = await session.scalar(select(func.count()).select_from(StepRow).where(*visible)) or 0
            if not count:
                return 0
            await self._database.overwrite_deleted(session)
            own = select(StepRow.number).where(*visible)
            await session.execute(delete(ContextRow).where(ContextRow.step.in_(own)))
            await session.execute(delete(StepRow).where(*visible))
            entry = NewEntry(
                id=str(uuid4()),
                created_on=datetime.now(UTC),
                kind="deletion",
                conversation=conversation,
                key=caller,
                request_id=request_id,
                data={"steps": count},
            )
            await self._ledger.append(session, [entry])
        await self._database.checkpoint()
        return count

    async def purge(self) -> int:
        """Remove contexts that are older than the retention; all contexts if none are kept.

        Returns:
            Their number.
        """
        expired = select(ContextRow.step, ContextRow.task)
        if self._keep_contexts:
            expired = expired.where(ContextRow.created_on < self._oldest())
        purged = await purge(
            self._database,
            expired,
            lambda rows: (
                delete(ContextRow).where(ContextRow.step == step, ContextRow.task == task) for step, task in rows
            ),
        )
        if purged:
            await self._database.checkpoint()
        return purged

    async def _contexts(self, session: AsyncSession, steps: Sequence[int]) -> dict[int, dict[str, str]]:
        found: dict[int, dict[str, str]] = {}
        if self._keep_contexts:
            query = select(ContextRow).where(ContextRow.step.in_(steps), ContextRow.created_on >= self._oldest())
            for row in await session.scalars(query):
                found.setdefault(row.step, {})[_OTHER_TEXTS.get(row.task, CONTEXT_KEY + row.task)] = row.text
        return found

    def _oldest(self) -> datetime:
        return datetime.now(UTC) - self._retention


def _visible(conversation: str, key: str | None) -> list[Any]:
    own = [StepRow.conversation == conversation]
    return own if key is None else [*own, StepRow.key == key]


def _row(step: Step) -> StepRow:
    return StepRow(
        id=step.id,
        conversation=step.conversation,
        key=step.key,
        created_on=step.created_on,
        request_id=step.request_id,
        assistant=step.assistant,
        assistant_version=step.assistant_version,
        data=step.traces,
    )


def _step(row: StepRow, contexts: Mapping[str, str]) -> ConversationStep:
    step = msgspec.convert(row, ConversationStep, from_attributes=True)
    return msgspec.structs.replace(step, data={**row.data, **contexts})


def _entry(step: Step) -> NewEntry:
    return NewEntry(
        id=step.id,
        created_on=step.created_on,
        kind="retrieval",
        conversation=step.conversation,
        key=step.key,
        request_id=step.request_id,
        assistant=step.assistant,
        assistant_id=step.assistant_id,
        assistant_version=step.assistant_version,
        data=step.traces,
    )
