"""The built files of the web page, as they are sent.

`static/` is made from the folder `page` of the repository by `make page`, and committed: a wheel needs no Node. The
name of each file but `index.html` has a hash of its content, so that a browser may keep it. Beside each is its gzip
form.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Final

STATIC: Final = Path(__file__).with_name("static")

INDEX: Final = "index.html"

MEDIA_TYPES: Final = {
    ".css": "text/css; charset=utf-8",
    ".html": "text/html; charset=utf-8",
    ".js": "text/javascript; charset=utf-8",
    ".svg": "image/svg+xml",
}


@dataclass(frozen=True)
class BuiltFile:
    """A file of the page.

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
def built_files() -> dict[str, BuiltFile]:
    """The files of the page by name, read once."""
    return {
        path.name: BuiltFile(
            content := path.read_bytes(),
            path.with_name(f"{path.name}.gz").read_bytes(),
            MEDIA_TYPES[path.suffix],
            f'"{hashlib.sha256(content).hexdigest()[:32]}"',
        )
        for path in sorted(STATIC.iterdir())
        if path.suffix in MEDIA_TYPES
    }
