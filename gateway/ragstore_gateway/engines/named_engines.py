"""`NamedEngine`: an engine that the settings describe, so that knowledge bases name it instead of its address."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from ragstore.kit.errors import InvalidRequest
from ragstore.kit.settings import SettingsError
from ragstore_gateway.engines.engines import ENGINES, IN_MEMORY
from ragstore_gateway.engines.store_parameters import LinkableParameters
from ragstore_gateway.secrets.parameters import convert_parameters
from ragstore_gateway.secrets.secret_references import SecretReferences
from ragstore_gateway.settings import variable

ENGINE_KEY: Final = "engine"
"""The only parameter of a collection whose base names its engine."""

NAME: Final = re.compile(r"[a-z0-9][a-z0-9_-]{0,62}")

OF_A_BASE: Final = LinkableParameters.of_collections | {"shared", "dimension"}
"""Parameters that concern one base, and none of a named engine."""


@dataclass(frozen=True, slots=True)
class NamedEngine:
    """An engine of the settings.

    Attributes:
        parameters: the `storeParameters` that a base in it would have.
    """

    store_type: str
    parameters: Mapping[str, object]


def named_engines(given: Mapping[str, Mapping[str, object]], secrets: SecretReferences) -> dict[str, NamedEngine]:
    """The engines that the settings name.

    Args:
        given: for each name the `storeType`, and its parameters beside it.
        secrets: checks references to secrets.

    Raises:
        SettingsError: one cannot be used. The text names the path, and repeats no value.
    """
    try:
        return {name: _named(name, each, secrets) for name, each in given.items()}
    except InvalidRequest as error:
        raise SettingsError(f"{variable('engines')} is wrong: {error.detail}") from None


def _named(name: str, given: Mapping[str, object], secrets: SecretReferences) -> NamedEngine:
    path = f"$.{name}"
    if not NAME.fullmatch(name):
        raise InvalidRequest.at("$", "Names have 1 to 63 lower-case letters, digits, _ and -")
    parameters = {key: value for key, value in given.items() if key != "storeType"}
    store_type = given.get("storeType")
    # The vectors of `in-memory` are in one process, and would be others in each replica.
    usable = [each for each in ENGINES if each != IN_MEMORY]
    if not isinstance(store_type, str) or store_type not in usable:
        raise InvalidRequest.at(f"{path}.storeType", f"Must be one of {', '.join(usable)}")
    for key in parameters:
        if key in OF_A_BASE:
            raise InvalidRequest.at(f"{path}.{key}", "Must be absent: it belongs to one knowledge base")
    converted = convert_parameters(ENGINES[store_type].parameters, parameters, path, secrets)
    if converted.problem:
        raise InvalidRequest.at(path, converted.problem)
    return NamedEngine(store_type, parameters)
