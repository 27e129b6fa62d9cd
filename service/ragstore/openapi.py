"""The OpenAPI document: Litestar derives it from the routes, msgspec the schemas from the structs; here they meet."""

from __future__ import annotations
import json
from litestar import Litestar
from litestar.openapi.config import OpenAPIConfig
from litestar.openapi.plugins import SwaggerRenderPlugin
from litestar._openapi.schema_generation import SchemaCreator
from litestar.openapi.spec import Schema
from litestar.plugins import OpenAPISchemaPlugin
from litestar.typing import FieldDefinition
import msgspec
from ragstore import __version__


class StructSchemas(OpenAPISchemaPlugin):
    """Points at the schema that msgspec derives from a struct, instead of deriving another one."""

    def is_plugin_supported_field(self, field_definition: FieldDefinition) -> bool:
        """Whether a field is a struct."""
        return not field_definition.is_union and field_definition.is_subclass_of(msgspec.Struct)

    def to_openapi_schema(self, field_definition: FieldDefinition, schema_creator: SchemaCreator) -> Schema:
        """A place among the components, which is filled later."""
        return schema_creator.create_component_schema(field_definition, required=[], property_fields={})


def document(app: Litestar) -> str:
    return json.dumps(app.openapi_schema.to_schema(), indent=2)+"\n"


def config() -> OpenAPIConfig:
    """Litestar's OpenAPI configuration."""
    return OpenAPIConfig(
        title="ragstore",
        version=__version__,
        path="/docs",
        render_plugins=[SwaggerRenderPlugin(path="/")],
        use_handler_docstrings=True,
    )
