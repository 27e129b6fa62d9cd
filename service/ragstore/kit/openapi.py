"""OpenAPI documents: the parts that several services share.

Litestar derives operations from the routes, msgspec derives schemas from the structs. A service completes the draft
with the errors of its routes and with schemas that a type cannot express.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, Any, Final, TypeAlias

import msgspec
from litestar import Litestar
from litestar.handlers import HTTPRouteHandler
from litestar.openapi.config import OpenAPIConfig
from litestar.openapi.spec import License, Schema, Server, Tag
from litestar.plugins import OpenAPISchemaPlugin
from litestar.routes import HTTPRoute
from litestar.typing import FieldDefinition

from ragstore.kit.auth.roles import IDENTIFIES, ROLE
from ragstore.kit.numbers import MAX_WHOLE
from ragstore.kit.page.reference import DocsPage, docs_router
from ragstore.kit.schema_marks import COMPONENT, EXACTLY, OPTIONAL

if TYPE_CHECKING:
    from litestar._openapi.schema_generation import SchemaCreator

JsonSchema: TypeAlias = dict[str, Any]
"""A JSON Schema or a part of the OpenAPI document: any JSON object."""

REF: Final = "#/components/schemas/{name}"
METHODS: Final = ("get", "post", "put", "patch", "delete")
PROBLEM: Final = "application/problem+json"

ERRORS: Final = "errors"
"""Name of the route option that lists the errors of a route's operation.

Errors of every route, of its role and of its body are not listed: they follow from the route.
"""

KEYS_REQUIRED: Final = "keys_required"
"""Key of the application's state: whether requests need a key."""

ANY_ROUTE: Final = frozenset({400, 500})
KEY_REQUIRED: Final = frozenset({401, 403, 429})
WITH_BODY: Final = frozenset({408, 413, 415})


class StructSchemas(OpenAPISchemaPlugin):
    """Leaves the schemas of structs to msgspec, and records the structs.

    Attributes:
        structs: the structs of all routes, by name.
    """

    def __init__(self) -> None:
        self.structs: dict[str, type[msgspec.Struct]] = {}

    def is_plugin_supported_field(self, field_definition: FieldDefinition) -> bool:
        """Whether a field is a struct."""
        return not field_definition.is_union and field_definition.is_subclass_of(msgspec.Struct)

    def to_openapi_schema(self, field_definition: FieldDefinition, schema_creator: SchemaCreator) -> Schema:
        """An empty component, to be replaced by msgspec's."""
        kind = field_definition.annotation
        self.structs[kind.__name__] = kind
        return schema_creator.create_component_schema(field_definition, required=[], property_fields={})


def openapi_config(title: str, version: str, description: str, tags: Mapping[str, str]) -> OpenAPIConfig:
    """Litestar's OpenAPI configuration, with the page `/docs`.

    Args:
        title: name of the service.
        tags: the tags of its routes, each with a description.
    """
    return OpenAPIConfig(
        title=title,
        version=version,
        description=description,
        license=License(name="Apache 2.0", identifier="Apache-2.0"),
        servers=[Server(url="/")],
        tags=[Tag(name=name, description=text) for name, text in tags.items()],
        openapi_router=docs_router(),
        render_plugins=[DocsPage()],
        use_handler_docstrings=True,
    )


def ref(name: str) -> JsonSchema:
    """A reference to a schema component."""
    return {"$ref": REF.format(name=name)}


def security_schemes(command: str) -> dict[str, JsonSchema]:
    """The two ways to send a key.

    Args:
        command: the command that creates keys.
    """
    return {
        "bearer": {"type": "http", "scheme": "bearer", "description": f"A key, created by `{command}`."},
        "apiKey": {"type": "apiKey", "in": "header", "name": "X-API-Key", "description": "The same key, as a header."},
    }


def routes_by_operation(app: Litestar) -> Iterator[tuple[str, HTTPRouteHandler]]:
    """The routes of an application with their operation ids."""
    for route in app.routes:
        for handler in route.route_handlers if isinstance(route, HTTPRoute) else ():
            if isinstance(handler.operation_id, str):
                yield handler.operation_id, handler


def complete_document(
    app: Litestar, schemes: Iterable[str], complete: Callable[[str, JsonSchema, HTTPRouteHandler], None]
) -> JsonSchema:
    """The draft of an application's document, with its security and complete operations.

    Args:
        schemes: names of the ways to send a key.
        complete: completes an operation, by its path and its route.
    """
    document: JsonSchema = msgspec.json.decode(msgspec.json.encode(without_noise(app.openapi_schema.to_schema())))
    anonymous: list[JsonSchema] = [] if app.state.get(KEYS_REQUIRED, False) else [{}]
    document["security"] = [*anonymous, *({name: []} for name in schemes)]
    routes = dict(routes_by_operation(app))
    document["paths"] = dict(sorted(document["paths"].items()))
    for path, item in document["paths"].items():
        for method in METHODS:
            if method in item:
                complete(path, item[method], routes[item[method]["operationId"]])
    return document


def component_schemas(
    app: Litestar,
    structs: Iterable[type[msgspec.Struct]],
    written: Mapping[str, JsonSchema],
    schema_hook: Callable[[type], JsonSchema] | None = None,
) -> JsonSchema:
    """The schemas of all structs of an application's routes, by name.

    Args:
        structs: further structs.
        written: schemas that a type cannot express, in place of the derived ones.
        schema_hook: the schema of a type that msgspec does not know.
    """
    recorded = app.plugins.get(StructSchemas).structs.values()
    _, derived = msgspec.json.schema_components([*structs, *recorded], schema_hook=schema_hook, ref_template=REF)
    return dict(sorted({**{name: without_marks(schema) for name, schema in derived.items()}, **written}.items()))


def is_public(route: HTTPRouteHandler) -> bool:
    """Whether a route never requires a key."""
    return ROLE in route.opt and route.opt[ROLE] is None


def public_security(route: HTTPRouteHandler, schemes: Iterable[str]) -> list[JsonSchema]:
    """The `security` of the operation of a public route: none, or an optional key.

    Args:
        schemes: names of the ways to send a key.
    """
    return [{}, *({name: []} for name in schemes)] if IDENTIFIES in route.opt else []


def problem_responses(descriptions: Mapping[int, str]) -> Iterator[tuple[str, JsonSchema]]:
    """The response component of each problem status, with its name.

    Args:
        descriptions: description of each status that the service responds with.
    """
    for status, description in descriptions.items():
        response: JsonSchema = {"description": description, "content": {PROBLEM: {"schema": ref("Problem")}}}
        if status in (429, 503):
            response["headers"] = {"Retry-After": {"description": "Seconds.", "schema": {"type": "integer"}}}
        if status == 401:
            response["headers"] = {
                "WWW-Authenticate": {"description": "How to send a key.", "schema": {"type": "string"}}
            }
        yield f"Problem{status}", response


def problem_statuses(route: HTTPRouteHandler, *, has_body: bool) -> set[int]:
    """The problem statuses of a route.

    Args:
        has_body: whether its requests have a body.
    """
    statuses = {*ANY_ROUTE, *(error.status for error in route.opt.get(ERRORS, ()))}
    if not is_public(route):
        statuses |= KEY_REQUIRED
    elif IDENTIFIES in route.opt:
        statuses |= {401}
    return statuses | WITH_BODY if has_body else statuses


def without_noise(value: Any) -> Any:
    """Litestar writes integer bounds as floats, and flags with their default of false."""
    if isinstance(value, dict):
        flags = ("deprecated", "allowEmptyValue", "allowReserved")
        return {key: without_noise(item) for key, item in value.items() if not (key in flags and item is False)}
    if isinstance(value, list):
        return [without_noise(item) for item in value]
    return int(min(value, MAX_WHOLE)) if isinstance(value, float) and value.is_integer() else value


def without_marks(schema: Any) -> Any:
    """Replace the marks of `ragstore.kit.schema_marks` by the schemas that they name."""
    if isinstance(schema, list):
        return [without_marks(item) for item in schema]
    if not isinstance(schema, dict):
        return schema
    if COMPONENT in schema:
        component = ref(schema[COMPONENT])
        if schema[OPTIONAL]:
            return {"anyOf": [component, {"type": "null"}]}
        return component | {name: schema[name] for name in ("description", "default") if name in schema}
    if EXACTLY in schema:
        return schema[EXACTLY] | ({"default": schema["default"]} if "default" in schema else {})
    return {key: without_marks(value) for key, value in schema.items()}


def problem_code(codes: Iterable[str]) -> JsonSchema:
    """The schema of a problem's code."""
    return {
        "description": "The kind of error, for programs. Stable within a major version; more may be added.",
        "type": "string",
        "enum": list(codes),
    }
