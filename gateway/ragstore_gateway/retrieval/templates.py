"""Templates of HTTP calls: `{userInput}` is the question, `${env:NAME}` and the like are secrets."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from typing import Final, TypeAlias
from urllib.parse import quote, quote_plus

from ragstore_gateway.secrets.secret_references import SecretReferences

USER_INPUT: Final = "{userInput}"

Escape: TypeAlias = Callable[[str], str]
"""Writes a value so that it is one value where the template has it, whatever it contains."""

_PART: Final = re.compile(r"(\{userInput\}|\$\{[a-z]+:[^{}]{1,512}\})")
_CONTROLS: Final = re.compile(r"[\x00-\x1f\x7f]+")
_PRINTABLE: Final = "".join(map(chr, range(0x20, 0x7F)))


def in_url(value: str) -> str:
    """A value in the path or the query of a URL."""
    return quote(value, safe="", errors="replace")


def in_form(value: str) -> str:
    """A value in a form, `application/x-www-form-urlencoded`."""
    return quote_plus(value, errors="replace")


def in_json(value: str) -> str:
    """A value within the quotes of a JSON string."""
    return json.dumps(value)[1:-1]


def in_header(value: str) -> str:
    """A value in a header: on one line, and characters that are not ASCII percent-encoded."""
    return quote(_CONTROLS.sub(" ", value), safe=_PRINTABLE, errors="replace")


def in_text(value: str) -> str:
    """A value in plain text."""
    return value.encode("utf-8", "replace").decode()


async def render(template: str, user_input: str, escape: Escape, secrets: SecretReferences) -> str:
    """Fill a template in. The question and the secrets are values: neither is read as a template.

    Args:
        user_input: the question.
        escape: how values are written.
        secrets: resolves references.

    Raises:
        SecretUnavailable: a secret cannot be read.
    """
    parts: list[str] = []
    for part in _PART.split(template):
        if part == USER_INPUT:
            parts.append(escape(user_input))
        elif part.startswith("${") and _PART.fullmatch(part):
            # A header with characters that it cannot have is rejected, and not changed.
            own = await secrets.header(part) if escape is in_header else (await secrets.resolve(part)).reveal()
            parts.append(own if escape is in_header else escape(own))
        else:
            parts.append(part)
    return "".join(parts)


def sample(template: str) -> str:
    """A template with a letter for each value, to check what it makes."""
    return "".join("x" if _PART.fullmatch(part) else part for part in _PART.split(template))
