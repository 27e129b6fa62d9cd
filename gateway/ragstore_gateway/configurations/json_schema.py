"""The JSON Schema of a configuration, for validation and for generators of forms."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

import msgspec

from ragstore.kit.schema_marks import COMPONENT, OPTIONAL
from ragstore_gateway.configurations.source import Source, WebSource
from ragstore_gateway.embeddings.providers.declared import PROVIDERS
from ragstore_gateway.engines.engines import ENGINES

DIALECT: Final = "https://json-schema.org/draft/2020-12/schema"

_WORD: Final = re.compile(r"[A-Z]?[a-z0-9]+")
_WORDS: Final = {
    "api": "API",
    "url": "URL",
    "id": "ID",
    "ms": "(ms)",
    "sha256": "SHA-256",
    "max": "maximum",
    "min": "minimum",
}
"""Words of names of fields that people write in another way."""

_REF: Final = "#/$defs/{name}"

_SOURCE_CONDITIONS: Final = [
    {
        "if": {"properties": {"type": {"const": "web"}}},
        "then": {
            "required": ["web"],
            "properties": {"web": {"$ref": _REF.format(name=WebSource.__name__)}, "upload": {"type": "null"}},
        },
        "else": {"properties": {"web": {"type": "null"}}},
    }
]
"""The fields of a source that depend on its type."""


@dataclass(frozen=True)
class ParameterChoice:
    """An object whose fields depend on the value of another field.

    Attributes:
        selector: the other field.
        field: the object.
        structs: the struct of the object, by the value of the other field.
    """

    selector: str
    field: str
    structs: Mapping[str, type[msgspec.Struct]]


KNOWLEDGE_BASE_CHOICES: Final = (
    ParameterChoice(
        "embeddingProvider", "embeddingParameters", {each.name: each.parameters for each in PROVIDERS.values()}
    ),
    ParameterChoice("storeType", "storeParameters", {each.name: each.parameters for each in ENGINES.values()}),
)


def json_schema(kind: type[msgspec.Struct], choices: Sequence[ParameterChoice] = ()) -> dict[str, Any]:
    """The JSON Schema 2020-12 of a struct, with the struct itself at the root.

    Args:
        kind: the struct.
        choices: objects whose fields depend on another field: a form shows the fields of the value that is chosen.
    """
    kinds = [each for choice in choices for each in choice.structs.values()]
    _, definitions = msgspec.json.schema_components([kind, *kinds], ref_template=_REF)
    root = definitions.pop(kind.__name__)
    for each in kinds:
        definitions[each.__name__] = _of_parameters(definitions[each.__name__])
    if Source.__name__ in definitions:
        definitions[Source.__name__]["allOf"] = _SOURCE_CONDITIONS
    conditions = [
        _condition(root["properties"], choice, value, definitions[each.__name__])
        for choice in choices
        for value, each in choice.structs.items()
    ]
    for each in (root, *definitions.values()):
        _without_components(each.get("properties", {}))
        _add_titles(each.get("properties", {}))
    return {
        "$schema": DIALECT,
        **root,
        **({"allOf": conditions} if conditions else {}),
        **({"$defs": definitions} if definitions else {}),
    }


def _without_components(properties: Mapping[str, dict[str, Any]]) -> None:
    """Remove the marks of fields with a written schema: forms cannot show the recursive one of filters."""
    for schema in properties.values():
        schema.pop(COMPONENT, None)
        schema.pop(OPTIONAL, None)


def _add_titles(properties: Mapping[str, dict[str, Any]]) -> None:
    """Add the title of each field, as a form shows it: `chunkSize` is "Chunk size"."""
    for name, schema in properties.items():
        words = " ".join(_WORDS.get(word.lower(), word.lower()) for word in _WORD.findall(name))
        schema.setdefault("title", words[:1].upper() + words[1:])


def _condition(
    properties: Mapping[str, Any], choice: ParameterChoice, value: str, definition: Mapping[str, Any]
) -> dict[str, Any]:
    """The schema of the object, if the other field has a value."""
    chosen: dict[str, Any] = {"properties": {choice.selector: {"const": value}}}
    if value != properties[choice.selector].get("default"):
        chosen["required"] = [choice.selector]
    then: dict[str, Any] = {"properties": {choice.field: {"$ref": _REF.format(name=definition["title"])}}}
    if definition.get("required"):
        then["required"] = [choice.field]
    return {"if": chosen, "then": then}


def _of_parameters(definition: dict[str, Any]) -> dict[str, Any]:
    """The schema of parameters as they are accepted: numbers and booleans may be texts, as EDDI writes them."""
    properties = {name: _lenient(each) for name, each in definition["properties"].items()}
    return {**definition, "properties": properties, "additionalProperties": False}


def _lenient(schema: Any) -> Any:
    if isinstance(schema, list):
        return [_lenient(each) for each in schema]
    if not isinstance(schema, dict):
        return schema
    schema = {key: _lenient(each) for key, each in schema.items()}
    if schema.get("type") in ("integer", "number", "boolean"):
        schema["type"] = [schema["type"], "string"]
    return schema
