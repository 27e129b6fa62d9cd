"""The routes of configurations, the same for knowledge bases, for assistants and for question sets."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from typing import Annotated, Any, Final, Generic, TypeAlias, TypeVar

import msgspec
from litestar import Request, Response, delete, get, post, put
from litestar.datastructures import ResponseHeader
from litestar.handlers import HTTPRouteHandler
from litestar.params import PathParameter, QueryParameter
from litestar.types import Scope
from msgspec import Meta, Struct
from sqlalchemy.ext.asyncio import AsyncSession

from ragstore.kit.auth.name_patterns import NamePatterns
from ragstore.kit.context import record_write
from ragstore.kit.errors import ServiceError
from ragstore.kit.openapi import ERRORS, ref
from ragstore_gateway.api.bodies import decode_configuration
from ragstore_gateway.api.openapi import OPERATION
from ragstore_gateway.configurations.assistant import Assistant
from ragstore_gateway.configurations.configuration import AlsoWrite, Configuration, ConfigurationVersion, Descriptor
from ragstore_gateway.configurations.configurations import Configurations
from ragstore_gateway.configurations.json_schema import ParameterChoice, json_schema
from ragstore_gateway.configurations.knowledge_base import KnowledgeBase
from ragstore_gateway.configurations.question_set import QuestionSet
from ragstore_gateway.configurations.validate import Validator
from ragstore_gateway.errors import (
    BaseTooLarge,
    ConfigurationNotFound,
    DatabaseUnavailable,
    NameTaken,
    QueueFull,
    VersionConflict,
)
from ragstore_gateway.keys import ADMIN, READER, key_name_of, tenant_of, visible_bases
from ragstore_gateway.tenants.errors import TENANT_LIMITS, TenantBasesExceeded

T = TypeVar("T", KnowledgeBase, Assistant, QuestionSet)

MAX_VERSION: Final = 2**31 - 1
MAX_PAGE: Final = 1000
MAX_INDEX: Final = 1_000_000

Id: TypeAlias = Annotated[str, PathParameter(description="Id of the configuration.")]
Version: TypeAlias = Annotated[
    int, QueryParameter(ge=0, le=MAX_VERSION, description="Version; 0 or absent means the current one.")
]
BaseVersion: TypeAlias = Annotated[
    int, QueryParameter(ge=1, le=MAX_VERSION, description="The current version, which the change is based on.")
]
KnownVersion: TypeAlias = Annotated[
    int,
    QueryParameter(
        ge=0, le=MAX_VERSION, description="The current version, as the caller knows it; 0 or absent means whichever is."
    ),
]
Permanent: TypeAlias = Annotated[
    bool, QueryParameter(description="Whether to remove all versions, and all that belongs to them.")
]
Filter: TypeAlias = Annotated[
    str, QueryParameter(description="Part of a name or of a description, in any case.", max_length=1024)
]
Index: TypeAlias = Annotated[int, QueryParameter(ge=0, le=MAX_INDEX, description="Number of the page, from 0.")]
Limit: TypeAlias = Annotated[
    int, QueryParameter(ge=1, le=MAX_PAGE, description="Maximum number of configurations on the page.")
]
VersionLimit: TypeAlias = Annotated[
    int, QueryParameter(ge=1, le=MAX_PAGE, description="Maximum number of versions on the page.")
]
WithDocuments: TypeAlias = Annotated[
    bool, QueryParameter(description="Whether the documents are copied, too. Their kept texts are embedded again.")
]

CopyDocuments: TypeAlias = Callable[[AsyncSession, str, Configuration[T]], Awaitable[None]]
"""Copies what belongs to a configuration, by its id, to a new one, in the transaction that creates that."""

LOCATION: Final = [
    ResponseHeader(name="Location", description="Path of the version that was written.", documentation_only=True),
    ResponseHeader(name="X-Resource-URI", description="The same path.", documentation_only=True),
]
RESOURCE: Final = [
    ResponseHeader(name="X-Resource-URI", description="Path of the version, with its number.", documentation_only=True)
]


@dataclass(frozen=True)
class Names:
    """Names of the routes of a kind.

    Attributes:
        tag: the tag in the OpenAPI document.
        noun: a configuration, in a summary.
        operation: a configuration, in an operation id.
    """

    tag: str
    noun: str
    operation: str


KNOWLEDGE_BASES: Final = Names("knowledge bases", "knowledge base", "KnowledgeBase")
ASSISTANTS: Final = Names("assistants", "assistant", "Assistant")
QUESTION_SETS: Final = Names("questions", "question set", "QuestionSet")


class VersionList(Struct, frozen=True):
    """A page of the versions of a configuration, newest first."""

    versions: list[ConfigurationVersion]
    total: Annotated[int, Meta(ge=0, description="Number of all versions.")]


class ConfigurationRoutes(Generic[T]):
    """The routes of one kind of configuration.

    Args:
        configurations: the repository.
        type_: the struct of a configuration.
        validator: checks a configuration before it is stored.
        names: names of the routes.
        visible: the names of the configurations that exist for a request.
        choices: objects of a configuration whose fields depend on another field.
        copy_documents: copies the documents of a configuration; None for a kind without documents.
    """

    def __init__(
        self,
        configurations: Configurations[T],
        type_: type[T],
        validator: Validator[T],
        names: Names,
        visible: Callable[[Scope], NamePatterns],
        choices: Sequence[ParameterChoice] = (),
        copy_documents: CopyDocuments[T] | None = None,
    ) -> None:
        self._configurations: Configurations[T] = configurations
        self._type: type[T] = type_
        self._validator: Validator[T] = validator
        self._names = names
        self._visible = visible
        self._copy_documents: CopyDocuments[T] | None = copy_documents
        self._schema = msgspec.json.encode(json_schema(type_, choices))
        self._path = f"/ragstore/{configurations.kind}"
        self._body = {
            "requestBody": {"required": True, "content": {"application/json": {"schema": ref(type_.__name__)}}}
        }

    def handlers(self) -> list[HTTPRouteHandler]:
        """The routes, as Litestar needs them."""
        return [*self._lists(), *self._reads(), *self._writes()]

    def _lists(self) -> list[HTTPRouteHandler]:
        configurations, schema, visible = self._configurations, self._schema, self._visible

        @get(
            f"{self._path}/jsonSchema",
            opt=READER,
            **self._named("get", "JsonSchema", "JSON Schema of a {}"),
            sync_to_thread=False,
        )
        def read_schema() -> Response[dict[str, Any]]:
            """The JSON Schema (2020-12) of a configuration, for validation and for generators of forms."""
            return Response(msgspec.Raw(schema), media_type="application/json")  # type: ignore[arg-type]  # encoded

        @get(
            f"{self._path}/descriptors",
            opt={**READER, ERRORS: (DatabaseUnavailable,)},
            **self._named("list", "s", "List of {}s"),
        )
        async def list_descriptors(
            request: Request[Any, Any, Any], filter: Filter = "", index: Index = 0, limit: Limit = 20
        ) -> list[Descriptor]:
            """A page of the configurations that are not deleted, newest first."""
            return await configurations.descriptors(filter, index, limit, visible(request.scope))

        return [read_schema, list_descriptors]

    def _reads(self) -> list[HTTPRouteHandler]:
        configurations = self._configurations

        async def read(id: Id, version: Version = 0) -> Response[T]:
            """Read a version. A deleted configuration can be read by the number of a version only."""
            found = await configurations.read(id, version, deleted=version > 0)
            return Response(found.body, headers={"X-Resource-URI": configurations.resource(id, found.version)})

        decorated = get(
            f"{self._path}/{{id:str}}",
            opt={**READER, ERRORS: (ConfigurationNotFound, DatabaseUnavailable)},
            response_headers=RESOURCE,
            **self._named("get", "", "Read a {}"),
        )

        @get(
            f"{self._path}/{{id:str}}/versions",
            opt={**READER, ERRORS: (ConfigurationNotFound, DatabaseUnavailable)},
            **self._named("list", "Versions", "Versions of {}s"),
        )
        async def list_versions(id: Id, index: Index = 0, limit: VersionLimit = 20) -> VersionList:
            """A page of the versions of a configuration, newest first, each with the time when it was written."""
            return VersionList(*await configurations.versions(id, index, limit))

        return [decorated(self._returning(read)), list_versions]

    def _writes(self) -> list[HTTPRouteHandler]:
        configurations, validator, type_ = self._configurations, self._validator, self._type
        visible = self._visible
        errors = (ConfigurationNotFound, NameTaken, VersionConflict, DatabaseUnavailable)

        async def create(request: Request[Any, Any, Any]) -> Response[T]:
            """Create a configuration, as version 1. No configuration that is not deleted may have its name."""
            body = decode_configuration(type_, await request.body())
            await validator.validate(body, visible_bases(request.scope))
            configurations.check_name(body.name, visible(request.scope))
            return self._written(
                await configurations.create(body, key_name_of(request.scope), tenant=tenant_of(request.scope))
            )

        async def update(request: Request[Any, Any, Any], id: Id, version: BaseVersion) -> Response[T]:
            """Write a new version. If `version` is not the current one, the response is 409 and names that."""
            body = decode_configuration(type_, await request.body())
            await validator.validate(body, visible_bases(request.scope))
            configurations.check_name(body.name, visible(request.scope))
            return self._written(await configurations.update(id, version, body, key_name_of(request.scope)))

        @delete(
            f"{self._path}/{{id:str}}",
            status_code=200,
            opt={
                **ADMIN,
                ERRORS: (ConfigurationNotFound, VersionConflict, DatabaseUnavailable),
                OPERATION: {"responses": {"200": {"description": "Deleted."}}},
            },
            **self._named("delete", "", "Delete a {}"),
        )
        async def remove(id: Id, version: KnownVersion = 0, permanent: Permanent = False) -> Response[bytes]:
            """Mark a configuration as deleted, or remove all its versions and all that belongs to it."""
            await configurations.delete(id, version, permanent=permanent)
            return Response(b"")

        creating: tuple[type[ServiceError], ...] = (NameTaken, DatabaseUnavailable)
        if self._copy_documents is not None:
            creating = (*creating, TenantBasesExceeded)
        with_body = {**ADMIN, OPERATION: self._body}
        routes: list[HTTPRouteHandler] = [
            post(
                self._path,
                opt={**with_body, ERRORS: creating},
                response_headers=LOCATION,
                **self._named("create", "", "Create a {}"),
            )(self._returning(create)),
            self._duplicate(),
            put(
                f"{self._path}/{{id:str}}",
                opt={**with_body, ERRORS: errors},
                response_headers=LOCATION,
                **self._named("update", "", "Update a {}"),
            )(self._returning(update)),
        ]
        return [*routes, remove]

    def _duplicate(self) -> HTTPRouteHandler:
        configurations, validator, visible = self._configurations, self._validator, self._visible
        copy_documents = self._copy_documents
        errors: tuple[type[ServiceError], ...] = (ConfigurationNotFound, NameTaken, DatabaseUnavailable)

        async def write(
            request: Request[Any, Any, Any], id: str, version: int, also: AlsoWrite[T] | None
        ) -> Response[T]:
            body = (await configurations.read(id, version, deleted=version > 0)).body
            await validator.validate(body, visible_bases(request.scope))
            scope = request.scope
            return self._written(
                await configurations.duplicate(id, version, key_name_of(scope), visible(scope), also, tenant_of(scope))
            )

        async def duplicate(request: Request[Any, Any, Any], id: Id, version: Version = 0) -> Response[T]:
            """Copy a version to a new configuration. The name of the copy has a suffix.

            The version is checked as a new configuration is: an assistant whose knowledge base is deleted is rejected.
            """
            return await write(request, id, version, None)

        async def duplicate_with_documents(
            request: Request[Any, Any, Any], id: Id, version: Version = 0, documents: WithDocuments = False
        ) -> Response[T]:
            """Copy a version to a new configuration. The name of the copy has a suffix.

            With `documents`, the documents that searches find are accepted for the copy, which splits and embeds their
            kept texts in the background. Uploaded files of sources are not copied.
            """
            if not documents or copy_documents is None:
                return await write(request, id, version, None)
            copy = copy_documents

            async def also(session: AsyncSession, after: Configuration[T]) -> None:
                await copy(session, id, after)

            return await write(request, id, version, also)

        if copy_documents is not None:
            errors = (*errors, BaseTooLarge, QueueFull, *TENANT_LIMITS)
        return post(
            f"{self._path}/{{id:str}}",
            opt={**ADMIN, ERRORS: errors},
            response_headers=LOCATION,
            **self._named("duplicate", "", "Duplicate a {}"),
        )(self._returning(duplicate if copy_documents is None else duplicate_with_documents))

    def _named(self, verb: str, suffix: str, summary: str) -> dict[str, Any]:
        return {
            "operation_id": f"{verb}{self._names.operation}{suffix}",
            "summary": summary.format(self._names.noun),
            "tags": [self._names.tag],
        }

    def _returning(self, handler: Callable[..., Any]) -> Callable[..., Any]:
        """Set the type of a handler's response, which a type variable cannot express at runtime."""
        handler.__annotations__["return"] = Response[self._type]  # type: ignore[name-defined]  # a value, not a type
        return handler

    def _written(self, stored: Configuration[T]) -> Response[T]:
        resource = self._configurations.resource(stored.id, stored.version)
        record_write(resource.removeprefix("/"))
        return Response(stored.body, headers={"Location": resource, "X-Resource-URI": resource})
