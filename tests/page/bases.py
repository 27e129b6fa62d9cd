"""Knowledge bases of the page's tests: created and filled by the API."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import httpx

from tests.support.keyed_services import eventually

SPANS = "Emoji 😀 and 👨\u200d👩\u200d👧, e\u0301 and n\u0303.\r\nA second line of tea.\r\n\r\n" * 40
"""A text with characters beyond UTF-16's first plane, combining marks and CRLF."""


@dataclass
class Bases:
    """The bases of a gateway.

    Attributes:
        url: address of the gateway.
        headers: headers of each request.
    """

    url: str
    headers: Mapping[str, str] = field(default_factory=dict)

    def call(self, method: str, path: str, **options: Any) -> httpx.Response:
        """Send a request that succeeds."""
        headers = {**self.headers, **options.pop("headers", {})}
        response = httpx.request(method, self.url + path, headers=headers, timeout=60, **options)
        response.raise_for_status()
        return response

    def create(self, name: str, **fields: object) -> str:
        """Create a base; its id."""
        response = self.call("POST", "/ragstore/rags", json={"name": name, "minScore": 0.0, **fields})
        return response.headers["Location"].rpartition("/")[2].partition("?")[0]

    def send(self, base: str, name: str, content: bytes | str, media_type: str = "text/plain") -> None:
        """Send a document."""
        content = content.encode() if isinstance(content, str) else content
        form = {"file": (name.rpartition("/")[2] or "file", content, media_type)}
        self.call("POST", f"/ragstore/rags/{base}/ingest", params={"documentName": name}, files=form)

    def states(self, base: str) -> dict[str, int]:
        """The number of documents in each state."""
        found: dict[str, int] = self.call("GET", f"/ragstore/rags/{base}/documents").json()["states"]
        return found

    def complete(self, base: str, documents: int = 1, seconds: float = 30) -> None:
        """Wait until a number of documents are complete."""
        eventually(lambda: self.states(base)["completed"] >= documents, seconds)

    def filled(self, name: str, documents: Mapping[str, bytes | str], **fields: object) -> str:
        """Create a base with documents; its id."""
        base = self.create(name, **fields)
        for document, content in documents.items():
            self.send(base, document, content)
        self.complete(base, len(documents))
        return base
