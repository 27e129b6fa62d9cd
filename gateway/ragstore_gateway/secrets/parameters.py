"""Parameters of a configuration that depend on another field, such as `embeddingParameters` on `embeddingProvider`.

Values may be texts, as they are in EDDI's configurations: `"dimensions": "512"`. An empty text counts as absent.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from typing import Annotated, Any, Final, TypeVar, get_args, get_origin

import msgspec
from msgspec import Meta

from ragstore.kit.errors import FieldError, InvalidRequest
from ragstore.kit.misfits import choices, readable
from ragstore.kit.settings import SECRET
from ragstore_gateway.secrets.secret_references import SecretReferences

_URL: Final = r"^(https?://[^\s/@?#]+|[A-Za-z0-9._-]+:[0-9]{1,5})(/[^\s?#]*)?$(?!\n)"

Url = Annotated[str, Meta(pattern=_URL, description="an http:// or https:// address, or host:port")]
"""The address of a server. It has no user and password: they would be secrets. Without a scheme, as EDDI writes its
defaults (`localhost:11434`), it is an address of HTTP."""

Token = Annotated[str, Meta(pattern=r"^[A-Za-z0-9][A-Za-z0-9_.-]{0,127}$(?!\n)", description="letters, digits and .-_")]
"""A name that becomes a part of a host's name or of a path."""

SecretReference = Annotated[str, SECRET]
"""A reference to a secret."""

P = TypeVar("P", bound=msgspec.Struct)

_PATTERN: Final = "matching regex"


def convert_parameters(kind: type[P], given: Mapping[str, object], path: str, secrets: SecretReferences) -> P:
    """Check parameters.

    Args:
        kind: the struct of the parameters.
        given: the parameters.
        path: their JSON path, for errors.
        secrets: checks references to secrets.

    Returns:
        The parameters.

    Raises:
        InvalidRequest: some are unknown, missing or wrong; the error names each.
    """
    fields = _fields(kind)
    errors = [
        FieldError(f"{path}.{name}", f"Unknown parameter; known are {', '.join(fields) or 'none'}")
        for name in given
        if name not in fields
    ]
    values: dict[str, Any] = {}
    for name, (field, is_url, is_secret) in fields.items():
        value = given.get(name)
        try:
            if value is None or value == "":
                if field.required:
                    raise InvalidRequest.at(f"{path}.{name}", "Required")
                continue
            values[field.name] = msgspec.convert(value, field.type, strict=False)
            if is_url and "://" not in values[field.name]:
                values[field.name] = f"http://{values[field.name]}"
            if is_secret:
                secrets.check(values[field.name], f"{path}.{name}")
        except msgspec.ValidationError as error:
            errors.append(FieldError(f"{path}.{name}", _message(str(error), field.type)))
        except InvalidRequest as error:
            errors += error.field_errors
    if errors:
        raise InvalidRequest("; ".join(f"{error.message}: {error.path}" for error in errors), errors)
    return kind(**values)


@cache
def _fields(kind: type[msgspec.Struct]) -> dict[str, tuple[msgspec.structs.FieldInfo, bool, bool]]:
    """The fields of a struct by the names of parameters, whether they are addresses, and references to secrets.

    Each search reads parameters twice. msgspec evaluates the annotations each time.
    """
    found = msgspec.structs.fields(kind)
    return {field.encode_name: (field, _is_url(field.type), _is_secret(field.type)) for field in found}


def _is_secret(kind: Any) -> bool:
    if get_origin(kind) is Annotated:
        return SECRET in get_args(kind)[1:]
    return any(_is_secret(each) for each in get_args(kind))


def _is_url(kind: Any) -> bool:
    return any(mark.pattern == _URL for mark in _marks(kind))


def _message(text: str, kind: Any) -> str:
    if _PATTERN in text:
        described = (mark.description for mark in _marks(kind) if mark.description)
        return f"Must be {next(described, 'of another form')}"
    return readable(text, choices(kind, "$"))


def _marks(kind: Any) -> list[Meta]:
    own = [each for each in get_args(kind) if isinstance(each, Meta)] if get_origin(kind) is Annotated else []
    return own + [mark for each in get_args(kind) for mark in _marks(each)]
