"""`QuestionSets`: the repository of question sets, each of which belongs to a knowledge base."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from sqlalchemy import delete, select
from sqlalchemy.ext.asyncio import AsyncSession
from sqlalchemy.orm import aliased

from ragstore.kit.auth.name_patterns import NamePatterns
from ragstore.kit.errors import InvalidRequest
from ragstore_gateway.configurations.configuration import Configuration, ConfigurationListener
from ragstore_gateway.configurations.configuration_reader import ID
from ragstore_gateway.configurations.configurations import Configurations
from ragstore_gateway.configurations.knowledge_base import KnowledgeBase
from ragstore_gateway.configurations.question_set import QuestionSet
from ragstore_gateway.configurations.tables import ConfigurationRow
from ragstore_gateway.database.database import Database

UNKNOWN_BASE: Final = "There is no knowledge base of this id"


class QuestionSets(Configurations[QuestionSet]):
    """The question sets of all knowledge bases.

    A set exists for the keys for which its base exists. Its name is unique among the sets of the base, so that a key
    cannot learn the name of a hidden set. It is removed when its base is removed permanently.

    Args:
        bases: the knowledge bases.
    """

    max_cached = 50

    def __init__(self, database: Database, bases: Configurations[KnowledgeBase]) -> None:
        super().__init__(database, "questions", QuestionSet, _completed)
        self.add_listener(_BaseLock())
        bases.add_listener(_Removal())

    async def base_name_of(self, id: str) -> str | None:
        """The name of the base of a set. Both may be deleted; None if there is no such set.

        Raises:
            DatabaseUnavailable: the database cannot be used.
        """
        if not ID.fullmatch(id):
            return None
        base = aliased(ConfigurationRow)
        query = (
            select(base.name)
            .join(ConfigurationRow, ConfigurationRow.base == base.id)
            .where(ConfigurationRow.id == id, ConfigurationRow.kind == self.kind)
        )
        async with self._database.reading() as session:
            return (await session.execute(query)).scalar_one_or_none()

    async def visible_ids(self, visible: NamePatterns) -> Sequence[str]:
        """The ids of the sets that are not deleted, and whose bases have names of a set; see `Configurations`."""
        base = aliased(ConfigurationRow)
        query = (
            select(ConfigurationRow.id, base.name)
            .join(base, ConfigurationRow.base == base.id)
            .where(ConfigurationRow.kind == self.kind, ConfigurationRow.deleted.is_(False))
        )
        async with self._database.reading() as session:
            return [id for id, name in await session.execute(query) if visible.matches(name)]

    def may_have_name(self, name: str, visible: NamePatterns) -> bool:
        """Whether a caller may give a set this name: any one, as patterns are about the names of bases."""
        return True

    def base_of(self, body: QuestionSet) -> str:
        """The id of the base of a set."""
        return body.base


def _completed(body: QuestionSet, before: QuestionSet | None) -> QuestionSet:
    if before is not None and body.base != before.base:
        # Versions of two bases could not be hidden from the keys of one of them.
        raise InvalidRequest.at("$.base", "Must be the knowledge base of the version before")
    return body


class _BaseLock(ConfigurationListener[QuestionSet]):
    """Keeps the base of a new set from being removed before the set is stored."""

    async def created(self, session: AsyncSession, after: Configuration[QuestionSet]) -> None:
        query = select(ConfigurationRow.id).where(
            ConfigurationRow.id == after.body.base,
            ConfigurationRow.kind == "rags",
            ConfigurationRow.deleted.is_(False),
        )
        if await session.scalar(query.with_for_update(read=True)) is None:
            raise InvalidRequest.at("$.base", UNKNOWN_BASE)


class _Removal(ConfigurationListener[KnowledgeBase]):
    """Removes the sets of a knowledge base that is removed permanently."""

    async def deleted(self, session: AsyncSession, before: Configuration[KnowledgeBase], *, permanent: bool) -> None:
        """Remove them in the transaction that removes the base."""
        if permanent:
            await session.execute(delete(ConfigurationRow).where(ConfigurationRow.base == before.id))
