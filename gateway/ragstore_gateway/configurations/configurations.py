"""`Configurations`: the repositories of knowledge bases, of assistants and of question sets."""

from __future__ import annotations

import re
import typing
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Sequence
from contextlib import asynccontextmanager
from datetime import UTC, datetime
from typing import Any, ClassVar, Final, Generic
from uuid import uuid4

import msgspec
from msgspec import UNSET
from sqlalchemy import JSON, ColumnElement, CursorResult, Select, Text, Update, cast, delete, func, or_, select, update
from sqlalchemy.exc import IntegrityError
from sqlalchemy.ext.asyncio import AsyncSession

from ragstore.kit.auth.name_patterns import ALL_NAMES, NamePatterns
from ragstore.kit.errors import Forbidden
from ragstore_gateway.configurations.configuration import (
    AlsoWrite,
    Configuration,
    ConfigurationKind,
    ConfigurationListener,
    ConfigurationVersion,
    Descriptor,
    T,
)
from ragstore_gateway.configurations.copy_names import free_name
from ragstore_gateway.configurations.tables import ConfigurationRow, ConfigurationVersionRow
from ragstore_gateway.database.database import Database
from ragstore_gateway.database.versioned_cache import VersionedCache
from ragstore_gateway.errors import ConfigurationNotFound, NameTaken, VersionConflict

ID: Final = re.compile(r"[0-9A-Za-z-]{1,36}")

NUL: Final = "\0"
"""No stored text has this character, and PostgreSQL's driver rejects it."""

MAX_ATTEMPTS: Final = 100
"""Maximum number of names that are tried for a duplicate while others take them."""

_NOUN: Final[dict[ConfigurationKind, str]] = {
    "rags": "knowledge base",
    "assistants": "assistant",
    "questions": "question set",
}


class Configurations(Generic[T]):
    """Versioned configurations of one kind.

    Versions are immutable. Each write is one transaction, so that any number of replicas may share a database.

    Args:
        database: where they are.
        kind: their kind, which is a part of their path.
        type_: the struct of a version.
        complete: returns a configuration as it is stored, from the written configuration and the version before; None
            for configurations that are stored as they are written.
        place: chooses the fields of a new configuration that depend on others, before the transaction; None for none.

    Attributes:
        max_cached: maximum number of versions, and of names, that are remembered.
    """

    max_cached: ClassVar[int] = 1000

    def __init__(
        self,
        database: Database,
        kind: ConfigurationKind,
        type_: type[T],
        complete: Callable[[T, T | None], T] | None = None,
        place: Callable[[T], Awaitable[T]] | None = None,
    ) -> None:
        self.kind: Final = kind
        self._database = database
        self._type: type[T] = type_
        self._complete: Callable[[T, T | None], T] = complete or (lambda body, _: body)
        self._place: Callable[[T], Awaitable[T]] | None = place
        self._listeners: list[ConfigurationListener[T]] = []
        self._versions: VersionedCache[tuple[str, int, bool], Configuration[T]] = VersionedCache(
            database, self.max_cached
        )
        self._by_name: VersionedCache[str, Configuration[T]] = VersionedCache(database, self.max_cached)

    def add_listener(self, listener: ConfigurationListener[T]) -> None:
        """Add an object that acts on changes.

        Args:
            listener: the object.
        """
        self._listeners.append(listener)

    def resource(self, id: str, version: int) -> str:
        """The path of a version."""
        return f"/ragstore/{self.kind}/{id}?version={version}"

    async def create(
        self, body: T, created_by: str = "", also: AlsoWrite[T] | None = None, id: str = "", tenant: str = ""
    ) -> Configuration[T]:
        """Store a new configuration, as version 1.

        Args:
            body: the configuration.
            created_by: name of the key that writes it.
            also: writes in the same transaction.
            id: its id, which no other one may have; a new one when empty.
            tenant: the tenant that it belongs to; empty for none.

        Raises:
            DatabaseUnavailable: the database cannot be used.
            NameTaken: another configuration has the name.
        """
        now = datetime.now(UTC)
        if self._place is not None:
            body = await self._place(body)
        body = self._complete(body, None)
        row = ConfigurationRow(
            id=id or str(uuid4()),
            kind=self.kind,
            name=body.name,
            base=self.base_of(body),
            tenant=tenant,
            current_version=1,
            deleted=False,
            created_on=now,
            modified_on=now,
        )
        async with self._writing(body.name) as session:
            session.add(row)
            await session.flush()
            session.add(_version(row.id, 1, body, now, created_by))
            await session.flush()
            created = Configuration(row.id, 1, 1, body, now, now, deleted=False)
            for listener in self._listeners:
                await listener.created(session, created)
            if also is not None:
                await also(session, created)
        await self._committed(row.id)
        return created

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

    async def update(
        self, id: str, version: int, body: T, created_by: str = "", also: AlsoWrite[T] | None = None
    ) -> Configuration[T]:
        """Store a new version. Of several concurrent updates of one version, one succeeds.

        Args:
            id: the configuration.
            version: the version that the update is based on. It must be the current one.
            body: the configuration.
            created_by: name of the key that writes it.
            also: writes in the same transaction.

        Raises:
            ConfigurationNotFound: there is none.
            DatabaseUnavailable: the database cannot be used.
            NameTaken: another configuration has the name.
            VersionConflict: the version is not the current one.
        """
        now = datetime.now(UTC)
        async with self._writing(body.name) as session:
            await self._change(session, id, version, {"current_version": version + 1, "name": body.name}, now)
            before = await self._read(session, id, version)
            body = self._complete(body, before.body)
            session.add(_version(id, version + 1, body, now, created_by))
            await session.flush()
            after = await self._read(session, id, version + 1)
            for listener in self._listeners:
                await listener.changed(session, before, after)
            if also is not None:
                await also(session, after)
        await self._committed(id)
        return after

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

    async def duplicate(
        self,
        id: str,
        version: int = 0,
        created_by: str = "",
        visible: NamePatterns = ALL_NAMES,
        also: AlsoWrite[T] | None = None,
        tenant: str = "",
    ) -> Configuration[T]:
        """Store a copy of a version as a new configuration, whose name has a suffix.

        Args:
            id: the configuration.
            version: the version; 0 means the current one.
            created_by: name of the key that writes it.
            visible: the names that the key may use.
            also: writes in the same transaction.
            tenant: the tenant of the copy; empty for none.

        Raises:
            ConfigurationNotFound: there is none.
            DatabaseUnavailable: the database cannot be used.
            Forbidden: the key may not use the name of the copy.
            NameTaken: others took the names meanwhile, repeatedly.
        """
        body = (await self.read(id, version, deleted=version > 0)).body
        base = self.base_of(body)
        for _ in range(MAX_ATTEMPTS):
            taken = {each for each in await self.names(base) if self.may_have_name(each, visible)}
            name = free_name(body.name, taken)
            self.check_name(name, visible)
            try:
                return await self.create(msgspec.structs.replace(body, name=name), created_by, also, tenant=tenant)
            except NameTaken:
                continue
        raise NameTaken("Others take each name of a duplicate; try again")

    async def delete(self, id: str, version: int = 0, *, permanent: bool = False) -> None:
        """Mark a configuration as deleted, so that its name is free; or remove all its versions.

        Args:
            id: the configuration.
            version: the version that the caller knows, which must be the current one; 0 means whichever is.
            permanent: whether its versions are removed. It may be marked as deleted already.

        Raises:
            ConfigurationNotFound: there is none.
            DatabaseUnavailable: the database cannot be used.
            VersionConflict: the version is not the current one.
        """
        async with self._writing("") as session:
            before = await self._read(session, id, 0, deleted=permanent, lock=True)
            if version not in (0, before.current_version):
                raise self._conflict(id, before.current_version)
            if permanent:
                await session.execute(delete(ConfigurationRow).where(ConfigurationRow.id == id))
            else:
                await self._change(session, id, before.current_version, {"deleted": True}, datetime.now(UTC))
            for listener in self._listeners:
                await listener.deleted(session, before, permanent=permanent)
        await self._committed(id)

    def check_name(self, name: str, visible: NamePatterns) -> None:
        """Check that a caller may give a configuration this name, whether or not another one has it.

        Args:
            visible: the names that the caller may use.

        Raises:
            Forbidden: it may not.
        """
        if not self.may_have_name(name, visible):
            raise Forbidden(f"The key may not write a {_NOUN[self.kind]} of this name")

    def may_have_name(self, name: str, visible: NamePatterns) -> bool:
        """Whether a caller may give a configuration this name.

        Args:
            visible: the names that the caller may use.
        """
        return visible.matches(name)

    def base_of(self, body: T) -> str:
        """The id of the knowledge base that a configuration belongs to; empty for none."""
        return ""

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
        query = select(ConfigurationRow).where(ConfigurationRow.id == id, ConfigurationRow.kind == self.kind)
        row = (await session.execute(query.with_for_update() if lock else query)).scalar_one_or_none()
        if row is None or (row.deleted and not deleted):
            raise self._not_found(id)
        stored = await session.get(ConfigurationVersionRow, (id, version or row.current_version))
        if stored is None:
            raise ConfigurationNotFound(f"The {_NOUN[self.kind]} {id} has no version {version}")
        return self._configuration(row, stored)

    async def _change(
        self, session: AsyncSession, id: str, version: int, values: dict[str, Any], now: datetime
    ) -> None:
        """Change a configuration if a version is its current one."""
        self._check_id(id)
        changed = await _updated(
            session,
            update(ConfigurationRow)
            .where(
                ConfigurationRow.id == id,
                ConfigurationRow.kind == self.kind,
                ConfigurationRow.current_version == version,
                ConfigurationRow.deleted.is_(False),
            )
            .values({**values, "modified_on": now}),
        )
        if not changed:
            current = await self._read(session, id, 0)
            raise self._conflict(id, current.current_version)

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
            raise ConfigurationNotFound(f"There is no {_NOUN[self.kind]} of this id")

    def _not_found(self, id: str) -> ConfigurationNotFound:
        return ConfigurationNotFound(f"There is no {_NOUN[self.kind]} {id}")

    def _conflict(self, id: str, current: int) -> VersionConflict:
        detail = f"The current version of the {_NOUN[self.kind]} {id} is {current}"
        return VersionConflict(detail, self.resource(id, current))

    @asynccontextmanager
    async def _writing(self, name: str) -> AsyncIterator[AsyncSession]:
        try:
            async with self._database.session() as session:
                yield session
        except IntegrityError as error:
            if "uq_configuration_name" not in str(error.orig) and "configuration.name" not in str(error.orig):
                raise
            raise NameTaken(f"Another {_NOUN[self.kind]} has the name {name}") from None

    async def _committed(self, id: str) -> None:
        for listener in self._listeners:
            await listener.committed(id)


def _version(id: str, version: int, body: T, now: datetime, created_by: str) -> ConfigurationVersionRow:
    return ConfigurationVersionRow(
        configuration_id=id,
        version=version,
        body=msgspec.to_builtins(body),
        created_on=now,
        created_by=created_by,
    )


async def _updated(session: AsyncSession, statement: Update) -> bool:
    result = typing.cast("CursorResult[Any]", await session.execute(statement))
    return result.rowcount == 1
