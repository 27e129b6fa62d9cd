"""The built files of the pages, and the responses with them.

`static/` is made from the folder `page` of the repository by `make page`, and committed: a wheel needs no Node. Its
folder `docs` has the API reference. The name of each file but `index.html` has a hash of its content, so that a browser
may keep it. Beside each is its gzip form.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from functools import cache
from http import HTTPStatus
from pathlib import Path
from typing import Any, Final

from litestar import Request, Response

from ragstore.kit.errors import NotFound
from ragstore.kit.middleware.security_headers import WEB_PAGE
from ragstore.kit.served_document import matches_etag

STATIC: Final = Path(__file__).with_name("static")

REFERENCE: Final = STATIC / "docs"
"""The files of the API reference."""

INDEX: Final = "index.html"

MEDIA_TYPES: Final = {
    ".css": "text/css; charset=utf-8",
    ".html": "text/html; charset=utf-8",
    ".js": "text/javascript; charset=utf-8",
    ".svg": "image/svg+xml",
}

HEADERS: Final = {
    "Content-Security-Policy": WEB_PAGE,
    "Cross-Origin-Opener-Policy": "same-origin",
    "Vary": "Accept-Encoding",
}
"""Headers of every file of the pages, beside the security headers of all responses."""

REVALIDATED: Final = "no-cache"
"""`Cache-Control` of an index, which names the files of its version."""

IMMUTABLE: Final = "public, max-age=31536000, immutable"
"""`Cache-Control` of files whose name has the hash of their content."""


@dataclass(frozen=True)
class BuiltFile:
    """A file of a page.

    Attributes:
        content: the file.
        compressed: its gzip form.
        etag: changes with the content.
    """

    content: bytes
    compressed: bytes
    media_type: str
    etag: str


@cache
def built_files(folder: Path = STATIC) -> dict[str, BuiltFile]:
    """The files of a page by name, read once."""
    return {
        path.name: BuiltFile(
            content := path.read_bytes(),
            path.with_name(f"{path.name}.gz").read_bytes(),
            MEDIA_TYPES[path.suffix],
            f'"{hashlib.sha256(content).hexdigest()[:32]}"',
        )
        for path in sorted(folder.iterdir())
        if path.suffix in MEDIA_TYPES
    }


def named_file(request: Request[Any, Any, Any], name: str, folder: Path = STATIC) -> Response[bytes]:
    """The response with a file of a page that is not its index.

    Raises:
        NotFound: the page has no file of that name.
    """
    found = built_files(folder).get(name)
    if found is None or name == INDEX:
        raise NotFound("The page has no such file; it may be of another version")
    return file_response(request, found, IMMUTABLE)


def file_response(request: Request[Any, Any, Any], found: BuiltFile, cache_control: str) -> Response[bytes]:
    """The response with a file: compressed if the caller accepts it, 304 if the caller has the file."""
    headers = {**HEADERS, "Cache-Control": cache_control, "ETag": found.etag}
    if matches_etag(request.headers.get("if-none-match", ""), found.etag):
        return Response(b"", status_code=HTTPStatus.NOT_MODIFIED, headers=headers)
    if _accepts_gzip(request.headers.get("accept-encoding", "")):
        headers["Content-Encoding"] = "gzip"
        return Response(found.compressed, media_type=found.media_type, headers=headers)
    return Response(found.content, media_type=found.media_type, headers=headers)


def _accepts_gzip(accepted: str) -> bool:
    """Whether `Accept-Encoding` names gzip, and does not exclude it by a weight of 0."""
    for each in accepted.split(","):
        coding, _, weight = each.partition(";")
        if coding.strip().lower() in ("gzip", "x-gzip"):
            return weight.strip().replace(" ", "") not in ("q=0", "q=0.0", "q=0.00", "q=0.000")
    return False
