"""The JSON Schema of a configuration, for validation and for generators of forms."""

from __future__ import annotations

from typing import Any, Final

import msgspec

DIALECT: Final = "https://json-schema.org/draft/2020-12/schema"


def json_schema(kind: type[msgspec.Struct]) -> dict[str, Any]:
    """The JSON Schema 2020-12 of a struct, with the struct itself at the root.

    Args:
        kind: the struct.
    """
    schema = msgspec.json.schema(kind)
    definitions: dict[str, Any] = schema["$defs"]
    root = definitions.pop(kind.__name__)
    return {"$schema": DIALECT, **root, **({"$defs": definitions} if definitions else {})}
