"""`Configuration`: a stored version of a knowledge base, an assistant or a question set."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated, Generic, Literal, Protocol, TypeAlias, TypeVar

import msgspec
from msgspec import UNSET, Meta, UnsetType
from sqlalchemy.ext.asyncio import AsyncSession

from ragstore_gateway.configurations.assistant import Assistant
from ragstore_gateway.configurations.knowledge_base import KnowledgeBase
from ragstore_gateway.configurations.question_set import QuestionSet

ConfigurationKind: TypeAlias = Literal["rags", "assistants", "questions"]
T = TypeVar("T", KnowledgeBase, Assistant, QuestionSet)


class Configuration(msgspec.Struct, Generic[T], frozen=True):
    """A stored version of a configuration.

    Attributes:
        id: the configuration's id, the same for all versions.
        version: this version, from 1.
        current_version: the newest version.
        body: the version itself.
        created_on: when the configuration was created.
        modified_on: when its newest version was written, or when it was deleted.
        deleted: whether it is deleted.
    """

    id: str
    version: int
    current_version: int
    body: T
    created_on: datetime
    modified_on: datetime
    deleted: bool


class ConfigurationVersion(msgspec.Struct, frozen=True, rename="camel"):
    """A version of a configuration in a list."""

    version: int
    created_on: datetime


class Descriptor(msgspec.Struct, frozen=True, rename="camel"):
    """A configuration in a list."""

    resource: str
    name: str
    description: str
    created_on: datetime
    last_modified_on: datetime
    base: Annotated[str | UnsetType, Meta(description="Id of the knowledge base of a question set.")] = UNSET


class AlsoWrite(Protocol[T]):
    """Writes in the transaction that stores a version of a configuration. If it raises, nothing is stored."""

    async def __call__(self, session: AsyncSession, after: Configuration[T], /) -> None:
        """Write.

        Args:
            session: the transaction.
            after: the version.
        """


class ConfigurationListener(Generic[T]):
    """Acts on changes of configurations, in their transactions. A method that is not overridden does nothing."""

    async def created(self, session: AsyncSession, after: Configuration[T]) -> None:
        """A configuration is created.

        Args:
            session: the transaction.
            after: its first version.
        """

    async def changed(self, session: AsyncSession, before: Configuration[T], after: Configuration[T]) -> None:
        """A new version is written.

        Args:
            session: the transaction.
            before: the version that was current.
            after: the version that is current when the transaction is committed.
        """

    async def deleted(self, session: AsyncSession, before: Configuration[T], *, permanent: bool) -> None:
        """A configuration is marked as deleted, or is removed permanently.

        Args:
            session: the transaction.
            before: its current version.
            permanent: whether all that belongs to it is to be removed.
        """

    async def committed(self, id: str) -> None:
        """The transaction of a change is committed.

        Args:
            id: the configuration's id.
        """
