"""Names of documents."""

from __future__ import annotations

import hashlib
import re
from typing import Final
from urllib.parse import quote, unquote, urlsplit

from ragstore.kit.errors import InvalidRequest
from ragstore.kit.misfits import described
from ragstore_gateway.configurations.name_characters import UNSEEN, has_unseen

MAX_NAME: Final = 512

NAME: Final = described(
    rf"^(?!(.*/)?\.{{1,2}}(/|$))([^{UNSEEN}/ ]([^{UNSEEN}]*[^{UNSEEN}/ ])?)?$(?!\n)",
    "Must have no control, bidirectional, separator or invisible characters, no space or slash at either end, and no "
    "steps . and .. between its slashes",
)
"""The names that documents have; also the empty one, for the name of the file."""

_UNSEEN: Final = re.compile(f"[{UNSEEN}]")
_QUERY: Final = re.compile(r"[?#]")
_STEPS: Final = (".", "..")
_DIGEST_LENGTH: Final = 16


def checked_name(name: str, path: str = "$.documentName") -> str:
    """A document's name.

    Args:
        path: path of the field that it comes from, for errors.

    Raises:
        InvalidRequest: it is too long, or has characters or steps that no name can have.
    """
    if len(name) > MAX_NAME or has_unseen(name) or name != name.strip("/ "):
        raise InvalidRequest.at(
            path,
            f"A document's name has at most {MAX_NAME} characters, none of them a control, bidirectional, separator or "
            "invisible character, and does not begin or end with a space or a slash",
        )
    # Clients resolve such steps: DELETE …/documents/.. would be the deletion of the base.
    if not set(_STEPS).isdisjoint(name.split("/")):
        raise InvalidRequest.at(path, "A document's name has no steps . and .. between its slashes")
    return name


def name_of_url(url: str) -> str:
    """The name of the document of a URL, which `checked_name` accepts.

    It is the URL, or the path of a file. The steps `.` and `..` of the path are resolved, as in the request for the
    page; others are percent-encoded, as are characters that no name has. A name that is too long becomes a digest
    and its end, so that two URLs with the same end stay two documents.
    """
    parts = urlsplit(url)
    if parts.scheme == "file":
        name = "/".join(_resolved(unquote(parts.path).split("/")))
    else:
        end = _QUERY.search(url)
        page, rest = (url[: end.start()], url[end.start() :]) if end else (url, "")
        *host, path = page.split("/", 3) if page.count("/") > 2 else (page, "")
        name = "/".join([*host, *_resolved(path.split("/"))]) + rest
    name = _UNSEEN.sub(lambda found: quote(found[0]), name).strip("/ ")
    name = "/".join(step.replace(".", "%2E") if step in _STEPS else step for step in name.split("/"))
    if len(name) <= MAX_NAME:
        return name
    digest = hashlib.sha256(name.encode(errors="replace")).hexdigest()[:_DIGEST_LENGTH]
    return f"{digest}-{name[_DIGEST_LENGTH + 1 - MAX_NAME :]}"


def _resolved(steps: list[str]) -> list[str]:
    found: list[str] = []
    for step in steps:
        if step == "..":
            del found[-1:]
        elif step != ".":
            found.append(step)
    return found
