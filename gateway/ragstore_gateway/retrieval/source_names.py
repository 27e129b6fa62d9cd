"""`SourceName`: how a prompt and a citation name a passage. Its document, its page or heading, and its web address."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final
from urllib.parse import unquote

from ragstore_client.context import Passage, citation_of
from ragstore_gateway.engines.engine_collection import DOCUMENT_NAME_KEY

MAX_NAME: Final = 2_000
"""Maximum number of characters of a name or a URL. Each citation repeats it, so long ones would fill the memory."""

MAX_HEADING: Final = 200
"""Maximum number of characters of a heading in a name."""

_NAMES: Final = ("title", DOCUMENT_NAME_KEY, "file_name", "source", "url")
_LINKS: Final = ("url", DOCUMENT_NAME_KEY, "source")
_WEB: Final = re.compile(r"https?://[^\s/?#]", re.IGNORECASE)
_LOCAL: Final = re.compile(r"file:|/|\\\\|[a-z]:[\\/]", re.IGNORECASE)
"""Begins the path of a file of some machine."""

_SLIDES: Final = (".pptx", ".ppt", ".odp")
"""Formats whose pages no browser opens by number."""


@dataclass(frozen=True, slots=True)
class SourceName:
    """The name of a passage.

    Attributes:
        name: the title or the name of its document, in one line; never the path of a file of a machine.
        place: `page 2`, `pages 2-3`, or else its heading; empty if neither is known.
        url: its web address, with the page of a document that has pages; empty if it has none.
    """

    name: str
    place: str
    url: str

    @classmethod
    def of(cls, metadata: Mapping[str, object], fallback: str) -> SourceName:
        """The name of a passage.

        Args:
            metadata: the metadata of the passage.
            fallback: the name of a passage whose metadata has none.
        """
        names = (_line(metadata.get(key)) for key in _NAMES)
        name = next((name for name in names if name), "") or _line(fallback)
        page = metadata.get("page_number")
        if not isinstance(page, int) or isinstance(page, bool):
            return cls(name, _line(metadata.get("section_heading"))[:MAX_HEADING].strip(), _web_address(metadata))
        last = metadata.get("page_end")
        place = f"pages {page}-{last}" if isinstance(last, int) and last > page else f"page {page}"
        return cls(name, place, _with_page(_web_address(metadata), page))

    @property
    def title(self) -> str:
        """The document and the place: `manual.pdf, page 2`."""
        return f"{self.name}, {self.place}" if self.place else self.name

    @property
    def label(self) -> str:
        """The title with the web address, if the title does not contain it."""
        address = self.url.partition("#")[0]
        return self.title if not address or address in self.name else f"{self.title} ({self.url})"


def without_path(name: str) -> str:
    """A name without the folders of the machine where its file is.

    `/home/ann/tea.md` and `file:///home/ann/tea.md` become `tea.md`. A relative path is a name, and is unchanged.
    """
    if not _LOCAL.match(name):
        return name
    path = unquote(name) if name[:5].lower() == "file:" else name
    return re.split(r"[\\/]", path.rstrip("\\/"))[-1]


def one_line(name: str) -> str:
    """A name in one line, without the hidden characters that the library removes from citations."""
    return citation_of(Passage(id=name, text=""))


def _line(value: object) -> str:
    return without_path(one_line(value))[:MAX_NAME] if isinstance(value, str) else ""


def _web_address(metadata: Mapping[str, object]) -> str:
    values = (metadata.get(key) for key in _LINKS)
    # A client makes a link of it: `javascript:` and the like are no web addresses.
    texts = (one_line(value) for value in values if isinstance(value, str) and len(value) <= MAX_NAME)
    return next((text for text in texts if _WEB.match(text)), "")


def _with_page(url: str, page: int) -> str:
    path = url.partition("?")[0].lower()
    return url if not url or "#" in url or path.endswith(_SLIDES) else f"{url}#page={page}"
