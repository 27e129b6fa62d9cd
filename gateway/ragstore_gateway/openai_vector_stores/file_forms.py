"""The form of a request that uploads a file."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import PurePosixPath
from typing import Any, Final

from litestar import Request

from ragstore.kit.errors import BodyTooLarge, InvalidRequest
from ragstore_gateway.api.forms import MULTIPART, read_form
from ragstore_gateway.api.uploads import ACCEPTED
from ragstore_gateway.configurations.name_characters import RULE, has_unseen
from ragstore_gateway.openai_vector_stores.files import NewFile
from ragstore_gateway.openai_vector_stores.schemas import MAX_EXPIRY_SECONDS, MIN_EXPIRY_SECONDS

PURPOSES: Final = ("assistants", "user_data")
MAX_FILENAME: Final = 255

EXPIRY: Final = "expires_after"
ANCHOR: Final = f"{EXPIRY}[anchor]"
SECONDS: Final = f"{EXPIRY}[seconds]"

TEXTS: Final = frozenset(
    {
        "application/json",
        "application/javascript",
        "application/typescript",
        "application/x-sh",
        "application/xml",
        "application/x-yaml",
        "application/yaml",
        "application/toml",
    }
)
"""Media types of texts that are not called so."""

UPLOAD: Final[dict[str, Any]] = {
    "requestBody": {
        "required": True,
        "content": {
            MULTIPART: {
                "schema": {
                    "type": "object",
                    "required": ["file", "purpose"],
                    "dependentRequired": {ANCHOR: [SECONDS], SECONDS: [ANCHOR]},
                    "properties": {
                        "file": {"type": "string", "format": "binary", "minLength": 1},
                        "purpose": {"type": "string", "enum": list(PURPOSES)},
                        ANCHOR: {"type": "string", "enum": ["created_at"]},
                        SECONDS: {
                            "type": "integer",
                            "minimum": MIN_EXPIRY_SECONDS,
                            "maximum": MAX_EXPIRY_SECONDS,
                        },
                    },
                }
            }
        },
    }
}
"""The operation, in the OpenAPI document."""


async def read_file(request: Request[Any, Any, Any], max_bytes: int) -> NewFile:
    """The file of a request.

    Args:
        max_bytes: size of the largest file.

    Raises:
        BodyTooLarge: the file is too large.
        InvalidRequest: the form is not complete, or a value is not supported.
    """
    if request.content_type[0].strip().lower() != MULTIPART:
        raise InvalidRequest(f"The body must be {MULTIPART}")
    form = await read_form(request)
    expire_seconds = _expire_seconds(form.fields)
    purpose = form.fields.get("purpose", "")
    if purpose not in PURPOSES:
        raise InvalidRequest.at("$.purpose", f"Must be one of {', '.join(PURPOSES)}")
    file = next((each for each in form.files if each.field == "file"), None)
    if file is None:
        raise InvalidRequest.at("$.file", "Must be a file")
    if len(form.files) > 1:
        raise InvalidRequest.at("$.file", "The form must have one file")
    if not file.content:
        raise InvalidRequest.at("$.file", "Must not be empty")
    if len(file.content) > max_bytes:
        raise BodyTooLarge(f"A file must not be larger than {max_bytes} bytes")
    return NewFile(
        filename_of(file.name, "$.file"), purpose, media_type_of(file.media_type), file.content, expire_seconds
    )


async def read_part(request: Request[Any, Any, Any]) -> bytes:
    """The part of an upload that a request has.

    Raises:
        InvalidRequest: the form is not complete.
    """
    if request.content_type[0].strip().lower() != MULTIPART:
        raise InvalidRequest(f"The body must be {MULTIPART}")
    form = await read_form(request)
    file = next((each for each in form.files if each.field == "data"), None)
    if file is None or not file.content:
        raise InvalidRequest.at("$.data", "Must be a part of a file")
    return file.content


def _expire_seconds(fields: Mapping[str, str]) -> int | None:
    """The expiry of a form, in the fields `expires_after[anchor]` and `expires_after[seconds]`."""
    given = {name: value for name, value in fields.items() if name.startswith(EXPIRY)}
    if not given:
        return None
    if given.pop(ANCHOR, "") != "created_at":
        raise InvalidRequest.at(f"$.{EXPIRY}.anchor", "Must be created_at")
    seconds = given.pop(SECONDS, "")
    is_number = seconds.isascii() and seconds.isdigit() and len(seconds) <= len(str(MAX_EXPIRY_SECONDS))
    if not is_number or not MIN_EXPIRY_SECONDS <= int(seconds) <= MAX_EXPIRY_SECONDS:
        limits = f"Must be a whole number from {MIN_EXPIRY_SECONDS} to {MAX_EXPIRY_SECONDS}"
        raise InvalidRequest.at(f"$.{EXPIRY}.seconds", limits)
    if given:
        raise InvalidRequest.at(f"$.{EXPIRY}", "Its fields are expires_after[anchor] and expires_after[seconds]")
    return int(seconds)


def filename_of(given: str, path: str) -> str:
    """The name of a file, without its folders.

    Args:
        path: JSON path of the name, for the error.

    Raises:
        InvalidRequest: it is too long, or has characters that no name has.
    """
    name = PurePosixPath(given.replace("\\", "/")).name.strip()
    if len(name) > MAX_FILENAME or has_unseen(name):
        raise InvalidRequest.at(path, f"The name must have at most {MAX_FILENAME} characters. {RULE}")
    # No path leads to a document of the name "..".
    return "file" if name in ("", "..") else name


def media_type_of(declared: str) -> str:
    """The media type of a file: `text/plain` for all types of texts."""
    if declared not in ACCEPTED and (declared.startswith("text/") or declared in TEXTS):
        return "text/plain"
    return declared
