"""`Configurations`: the repositories of knowledge bases, of assistants and of question sets."""

from __future__ import annotations

import typing
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from datetime import UTC, datetime
from typing import Any, Final
from uuid import uuid4

import msgspec
from sqlalchemy import CursorResult, Update, delete, update
from sqlalchemy.exc import IntegrityError
from sqlalchemy.ext.asyncio import AsyncSession

from ragstore.kit.auth.name_patterns import ALL_NAMES, NamePatterns
from ragstore.kit.errors import Forbidden
from ragstore_gateway.configurations.configuration import (
    AlsoWrite,
    Configuration,
    ConfigurationKind,
    ConfigurationListener,
    T,
)
from ragstore_gateway.configurations.configuration_reader import NOUNS, ConfigurationReader
from ragstore_gateway.configurations.copy_names import free_name
from ragstore_gateway.configurations.tables import ConfigurationRow, ConfigurationVersionRow
from ragstore_gateway.database.database import Database
from ragstore_gateway.errors import NameTaken, VersionConflict

MAX_ATTEMPTS: Final = 100
"""Maximum number of names that are tried for a duplicate while others take them."""


class Configurations(ConfigurationReader[T]):
    """Versioned configurations of one kind.

    Versions are immutable. Each write is one transaction, so that any number of replicas may share a database.

    Args:
        database: where they are.
        kind: their kind, which is a part of their path.
        type_: the struct of a version.
        complete: returns a configuration as it is stored, from the written configuration and the version before; None
            for configurations that are stored as they are written.
        place: chooses the fields of a new configuration that depend on others, before the transaction; None for none.
    """

    def __init__(
        self,
        database: Database,
        kind: ConfigurationKind,
        type_: type[T],
        complete: Callable[[T, T | None], T] | None = None,
        place: Callable[[T], Awaitable[T]] | None = None,
    ) -> None:
        # mypy checks this line for each type that T may be, and expects T itself.
        super().__init__(database, kind, type_)  # type: ignore[arg-type]
        self._complete: Callable[[T, T | None], T] = complete or (lambda body, _: body)
        self._place: Callable[[T], Awaitable[T]] | None = place
        self._listeners: list[ConfigurationListener[T]] = []

    def add_listener(self, listener: ConfigurationListener[T]) -> None:
        """Add an object that acts on changes.

        Args:
            listener: the object.
        """
        self._listeners.append(listener)

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
            raise Forbidden(f"The key may not write a {NOUNS[self.kind]} of this name")

    def may_have_name(self, name: str, visible: NamePatterns) -> bool:
        """Whether a caller may give a configuration this name.

        Args:
            visible: the names that the caller may use.
        """
        return visible.matches(name)

    def base_of(self, body: T) -> str:
        """The id of the knowledge base that a configuration belongs to; empty for none."""
        return ""

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

    def _conflict(self, id: str, current: int) -> VersionConflict:
        detail = f"The current version of the {NOUNS[self.kind]} {id} is {current}"
        return VersionConflict(detail, self.resource(id, current))

    @asynccontextmanager
    async def _writing(self, name: str) -> AsyncIterator[AsyncSession]:
        try:
            async with self._database.session() as session:
                yield session
        except IntegrityError as error:
            if "uq_configuration_name" not in str(error.orig) and "configuration.name" not in str(error.orig):
                raise
            raise NameTaken(f"Another {NOUNS[self.kind]} has the name {name}") from None

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
