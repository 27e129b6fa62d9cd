"""`Fetched`: a whole response."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Self

from multidict import CIMultiDictProxy


@dataclass(frozen=True, slots=True)
class Fetched:
    """A whole response, whatever its status.

    Attributes:
        url: the URL that was requested.
        final_url: the URL of the response, after all redirects.
        status: its status. A status above 399 is no error of the fetch, and neither is 304.
        headers: its headers; names are case-insensitive.
        body: its body, decompressed.
        media_type: the type of the body in lower case, without parameters: the type of the header unless the body shows
            that it is another one. Empty without a body.
        charset: the encoding of a body of text, as Python names it; empty for other bodies.
        location: the absolute URL that a redirect leads to that was not followed; empty for other responses.
    """

    url: str
    final_url: str
    status: int
    headers: CIMultiDictProxy[str]
    body: bytes
    media_type: str
    charset: str
    location: str = ""

    @property
    def ok(self) -> bool:
        """Whether the status is a success."""
        return 200 <= self.status < 300

    @property
    def not_modified(self) -> bool:
        """Whether a conditional request found nothing new."""
        return self.status == 304

    @property
    def etag(self) -> str:
        """The `ETag` for the next conditional request; empty if there is none."""
        return self.headers.get("ETag", "")

    @property
    def last_modified(self) -> str:
        """The `Last-Modified` for the next conditional request; empty if there is none."""
        return self.headers.get("Last-Modified", "")

    @property
    def text(self) -> str:
        """The body as text. Bytes that its encoding does not have become U+FFFD."""
        return self.body.decode(self.charset or "utf-8", "replace").removeprefix("\ufeff")

    def without_body(self) -> Self:
        """The same response without its body, to be kept."""
        return replace(self, body=b"")
