"""`ConfigurationReader`: reads and lists configurations of one kind."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from typing import Any, ClassVar, Final, Generic

import msgspec
from msgspec import UNSET
from sqlalchemy import JSON, ColumnElement, Select, Text, and_, cast, func, or_, select
from sqlalchemy.ext.asyncio import AsyncSession

from ragstore.kit.auth.name_patterns import ALL_NAMES, NamePatterns
from ragstore_gateway.configurations.configuration import (
    Configuration,
    ConfigurationKind,
    ConfigurationVersion,
    Descriptor,
    T,
)
from ragstore_gateway.configurations.tables import ConfigurationRow, ConfigurationVersionRow
from ragstore_gateway.database.database import Database
from ragstore_gateway.database.versioned_cache import VersionedCache
from ragstore_gateway.errors import ConfigurationNotFound

ID: Final = re.compile(r"[0-9A-Za-z-]{1,36}")

NUL: Final = "\0"
"""No stored text has this character, and PostgreSQL's driver rejects it."""

NOUNS: Final[dict[ConfigurationKind, str]] = {
    "rags": "knowledge base",
    "assistants": "assistant",
    "questions": "question set",
}


class ConfigurationReader(Generic[T]):
    """The versions of configurations of one kind, and lists of them.

    Args:
        database: where they are.
        kind: their kind, which is a part of their path.
        type_: the struct of a version.

    Attributes:
        max_cached: maximum number of versions, and of names, that are remembered.
    """

    max_cached: ClassVar[int] = 1000

    def __init__(self, database: Database, kind: ConfigurationKind, type_: type[T]) -> None:
        self.kind: Final = kind
        self._database = database
        self._type: type[T] = type_
        self._versions: VersionedCache[tuple[str, int, bool], Configuration[T]] = VersionedCache(
            database, self.max_cached
        )
        self._by_name: VersionedCache[str, Configuration[T]] = VersionedCache(database, self.max_cached)

    def resource(self, id: str, version: int) -> str:
        """The path of a version."""
        return f"/ragstore/{self.kind}/{id}?version={version}"

    async def read(self, id: str, version: int = 0, *, deleted: bool = False) -> Configuration[T]:
        """Read a version.

        Args:
            id: the configuration.
            version: the version; 0 means the current one.
            deleted: whether the configuration may be deleted.

        Raises:
            ConfigurationNotFound: there is none.
            DatabaseUnavailable: the database cannot be used.
        """
        key = (id, version, deleted)

        async def load(_: object) -> dict[tuple[str, int, bool], Configuration[T]]:
            async with self._database.reading() as session:
                return {key: await self._read(session, id, version, deleted=deleted)}

        return (await self._versions.get([key], load))[key]

    async def versions(self, id: str, index: int, limit: int) -> tuple[list[ConfigurationVersion], int]:
        """A page of the versions of a configuration, newest first, and the number of all.

        Args:
            id: the configuration.
            index: number of the page, from 0.
            limit: maximum number of versions on the page.

        Raises:
            ConfigurationNotFound: there is none.
            DatabaseUnavailable: the database cannot be used.
        """
        query = (
            select(ConfigurationVersionRow.version, ConfigurationVersionRow.created_on)
            .where(ConfigurationVersionRow.configuration_id == id)
            .order_by(ConfigurationVersionRow.version.desc())
        )
        async with self._database.reading() as session:
            current = await self._read(session, id, 0)
            rows = await session.execute(query.limit(limit).offset(index * limit))
            return [ConfigurationVersion(version, created_on) for version, created_on in rows], current.current_version

    async def name_of(self, id: str) -> str | None:
        """The name of a configuration, which may be deleted; None if there is none.

        Raises:
            DatabaseUnavailable: the database cannot be used.
        """
        if not ID.fullmatch(id):
            return None
        query = select(ConfigurationRow.name).where(ConfigurationRow.id == id, ConfigurationRow.kind == self.kind)
        async with self._database.reading() as session:
            return (await session.execute(query)).scalar_one_or_none()

    async def visible_ids(self, visible: NamePatterns) -> Sequence[str]:
        """The ids of the configurations that are not deleted, and have names of a set.

        Args:
            visible: the names.

        Raises:
            DatabaseUnavailable: the database cannot be used.
        """
        query = select(ConfigurationRow.id, ConfigurationRow.name).where(
            ConfigurationRow.kind == self.kind, ConfigurationRow.deleted.is_(False)
        )
        async with self._database.reading() as session:
            return [id for id, name in await session.execute(query) if visible.matches(name)]

    async def descriptors(
        self, filter: str = "", index: int = 0, limit: int = 20, visible: NamePatterns = ALL_NAMES
    ) -> list[Descriptor]:
        """A page of the list of configurations, newest first.

        Args:
            filter: part of a name or of a description, in lower or upper case; empty means all.
            index: number of the page, from 0.
            limit: maximum number of configurations on a page.
            visible: the names of the configurations that exist for the caller.

        Raises:
            DatabaseUnavailable: the database cannot be used.
        """
        query = self._select().where(ConfigurationRow.deleted.is_(False))
        if NUL in filter:
            return []
        if not visible.matches_all:
            query = query.where(ConfigurationRow.id.in_(await self.visible_ids(visible)))
        if filter:
            description = self._field("description")
            query = query.where(
                or_(
                    ConfigurationRow.name.icontains(filter, autoescape=True),
                    description.icontains(filter, autoescape=True),
                )
            )
        query = query.order_by(ConfigurationRow.created_on.desc(), ConfigurationRow.id.desc())
        async with self._database.reading() as session:
            found = await session.execute(query.limit(limit).offset(index * limit))
            return [
                Descriptor(
                    self.resource(row.id, row.current_version),
                    row.name,
                    str(stored.body.get("description", "")),
                    row.created_on,
                    row.modified_on,
                    row.base or UNSET,
                )
                for row, stored in found
            ]

    async def find_by_name(self, name: str) -> Configuration[T] | None:
        """The current version of the configuration that has a name and is not deleted.

        Raises:
            DatabaseUnavailable: the database cannot be used.
        """
        return (await self._named([name])).get(name)

    async def find_all_by_name(self, names: Iterable[str]) -> dict[str, Configuration[T]]:
        """The current versions of the configurations that have one of several names and are not deleted, by name.

        Raises:
            DatabaseUnavailable: the database cannot be used.
        """
        return await self._named(names)

    async def _named(self, names: Iterable[str]) -> dict[str, Configuration[T]]:
        return await self._by_name.get((name for name in names if NUL not in name), self._read_by_name)

    async def _read_by_name(self, names: Sequence[str]) -> dict[str, Configuration[T]]:
        query = self._select().where(ConfigurationRow.name.in_(names), ConfigurationRow.deleted.is_(False))
        async with self._database.reading() as session:
            return {row.name: self._configuration(row, stored) for row, stored in await session.execute(query)}

    async def names(self, base: str = "") -> Sequence[str]:
        """The names of all configurations that are not deleted, sorted.

        Args:
            base: id of the knowledge base that they belong to; empty for a kind that belongs to none.

        Raises:
            DatabaseUnavailable: the database cannot be used.
        """
        query = select(ConfigurationRow.name).where(
            ConfigurationRow.kind == self.kind, ConfigurationRow.base == base, ConfigurationRow.deleted.is_(False)
        )
        async with self._database.reading() as session:
            return sorted((await session.execute(query)).scalars())

    async def field(self, field: str) -> dict[str, str]:
        """A text field of the configurations that are not deleted, by their names in order.

        Args:
            field: the field. The text is empty for a configuration without it.

        Raises:
            DatabaseUnavailable: the database cannot be used.
        """
        text = self._field(field)
        query = self._select().with_only_columns(ConfigurationRow.name, text).where(ConfigurationRow.deleted.is_(False))
        async with self._database.reading() as session:
            return {name: value or "" for name, value in sorted(await session.execute(query))}

    def _field(self, field: str) -> ColumnElement[str]:
        """A text field of a version. One with a NUL has a space for it on PostgreSQL.

        PostgreSQL reads no field of a JSON with an escaped NUL in any of them: one configuration would fail the query.
        """
        body: ColumnElement[Any] = ConfigurationVersionRow.body.expression
        if self._database.is_postgresql:
            body = cast(func.replace(cast(body, Text), r"\u0000", r"\u0020"), JSON)
        text: ColumnElement[str] = body[field].as_string()
        return text

    def _select(self) -> Select[ConfigurationRow, ConfigurationVersionRow]:
        """Configurations of this kind, each with its current version."""
        return (
            select(ConfigurationRow, ConfigurationVersionRow)
            .join(
                ConfigurationVersionRow,
                (ConfigurationVersionRow.configuration_id == ConfigurationRow.id)
                & (ConfigurationVersionRow.version == ConfigurationRow.current_version),
            )
            .where(ConfigurationRow.kind == self.kind)
        )

    async def _read(
        self, session: AsyncSession, id: str, version: int, *, deleted: bool = False, lock: bool = False
    ) -> Configuration[T]:
        self._check_id(id)
        own = (ConfigurationRow.id == id, ConfigurationRow.kind == self.kind)
        row: ConfigurationRow | None = None
        stored: ConfigurationVersionRow | None = None
        if lock:
            # A statement that waits for the lock would find the version that was current before.
            row = await session.scalar(select(ConfigurationRow).where(*own).with_for_update())
            if row is not None:
                stored = await session.get(ConfigurationVersionRow, (id, version or row.current_version))
        else:
            wanted = and_(
                ConfigurationVersionRow.configuration_id == ConfigurationRow.id,
                ConfigurationVersionRow.version == (version or ConfigurationRow.current_version),
            )
            both = select(ConfigurationRow, ConfigurationVersionRow).join(ConfigurationVersionRow, wanted, isouter=True)
            found = (await session.execute(both.where(*own))).one_or_none()
            if found is not None:
                row, stored = found
        if row is None or (row.deleted and not deleted):
            raise self._not_found(id)
        if stored is None:
            raise ConfigurationNotFound(f"The {NOUNS[self.kind]} {id} has no version {version}")
        return self._configuration(row, stored)

    def _configuration(self, row: ConfigurationRow, stored: ConfigurationVersionRow) -> Configuration[T]:
        body = msgspec.convert(stored.body, self._type)
        return Configuration(
            row.id, stored.version, row.current_version, body, row.created_on, row.modified_on, deleted=row.deleted
        )

    def _check_id(self, id: str) -> None:
        """Reject what cannot be an id, before the database does.

        Raises:
            ConfigurationNotFound: it is none.
        """
        if not ID.fullmatch(id):
            raise ConfigurationNotFound(f"There is no {NOUNS[self.kind]} of this id")

    def _not_found(self, id: str) -> ConfigurationNotFound:
        return ConfigurationNotFound(f"There is no {NOUNS[self.kind]} {id}")
