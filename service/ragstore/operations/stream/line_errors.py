"""Errors of a stream's batch, in terms of its lines."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Final

from ragstore.kit.errors import FieldError, JsonPath, ServiceError

DOCUMENT: Final = re.compile(r"\$\.documents\[(\d+)\]")
"""The path of a document of a batch."""


def with_line_numbers(error: ServiceError, numbers: Sequence[int]) -> ServiceError:
    """An error of a batch, in terms of the stream's lines.

    Args:
        error: the error, with paths such as `$.documents[3].embedding`.
        numbers: the number of each document's line.

    Returns:
        The same error with paths within a document, such as `$.embedding`, and the line.
    """

    def line_named(part: str) -> str:
        found = DOCUMENT.match(part) if isinstance(part, JsonPath) else None
        if found is None:
            return part
        line, field = f"line {numbers[int(found[1])]}", part[found.end() :]
        return f"{line}, ${field}" if field else line

    detail = "".join(line_named(part) for part in error.parts)
    field_errors: list[FieldError] = []
    for field in error.field_errors:
        found = DOCUMENT.match(field.path)
        message = detail if field.message == error.detail else field.message
        if found is None:
            field_errors.append(FieldError(field.path, message))
            continue
        number = numbers[int(found[1])]
        field_errors.append(FieldError(f"${field.path[found.end() :]}", message, number))
    return error.with_detail(detail, field_errors)
