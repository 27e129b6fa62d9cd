"""The links of HTML pages, and their directives for crawlers."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final

from lxml import html

from ragstore_gateway.extraction.decode_text import decode
from ragstore_gateway.extraction.extracted import PageLinks
from ragstore_gateway.extraction.text_builder import clean

MAX_LINKS: Final = 10_000
"""Maximum number of links of a page that are read."""

MAX_LINK_CHARACTERS: Final = 4096
MAX_CHARACTERS: Final = 2_000_000
"""Maximum number of characters of all links of a page that are read."""

ROBOTS: Final = ("robots", "ragstore-gateway")
"""The names of `meta` elements whose directives apply."""

_XML_DECLARATION: Final = re.compile(r"\A\s*<\?xml[^>]*\?>")
_SCHEME: Final = re.compile(r"[a-z][a-z0-9+.-]*:", re.IGNORECASE)
_WEB: Final = re.compile(r"https?:", re.IGNORECASE)
_REMOVED: Final = re.compile(r"[\t\r\n]")
"""Characters that browsers remove from URLs."""

_REFRESH: Final = re.compile(r"\s*[0-9.]*\s*[;,]\s*url\s*=\s*['\"]?([^'\"]*)", re.IGNORECASE)


def page_links(content: bytes, media_type: str) -> PageLinks:
    """Read the links of a page.

    Args:
        content: the page.
        media_type: the declared media type.
    """
    source = _XML_DECLARATION.sub("", clean(decode(content, media_type)))
    if not source.strip():
        return PageLinks()
    parser = html.HTMLParser(encoding="utf-8", no_network=True, huge_tree=False)
    tree = html.document_fromstring(source.encode("utf-8", "replace"), parser=parser)
    found: dict[str, bool] = {}
    truncated = False
    characters = 0
    for target, follow in _targets(tree):
        link = _link(target)
        if not link:
            continue
        if link not in found:
            characters += len(link)
            truncated = len(found) == MAX_LINKS or characters > MAX_CHARACTERS
        if truncated:
            break
        found[link] = found.get(link, False) or follow
    return PageLinks(
        tuple(found),
        tuple(link for link, follow in found.items() if not follow),
        base=next(filter(None, (_link(base.get("href", "")) for base in tree.iter("base"))), ""),
        canonical=next(filter(None, _canonicals(tree)), ""),
        directives=tuple(dict.fromkeys(_directives(tree))),
        truncated=truncated,
    )


def _targets(tree: html.HtmlElement) -> Iterator[tuple[str, bool]]:
    """The targets of links, and whether each may be followed."""
    for element in tree.iter("a", "area", "frame", "meta"):
        if element.tag == "frame":
            yield element.get("src", ""), True
        elif element.tag != "meta":
            yield element.get("href", ""), "nofollow" not in element.get("rel", "").lower().split()
        elif element.get("http-equiv", "").strip().lower() == "refresh" and (
            refresh := _REFRESH.match(element.get("content", ""))
        ):
            yield refresh[1], True


def _link(target: str) -> str:
    """A target as browsers read it; empty if it is no page of the web."""
    link = _REMOVED.sub("", target).strip()
    if link.startswith("#") or len(link) > MAX_LINK_CHARACTERS or (_SCHEME.match(link) and not _WEB.match(link)):
        return ""
    return link


def _canonicals(tree: html.HtmlElement) -> Iterator[str]:
    for element in tree.iter("link"):
        if "canonical" in element.get("rel", "").lower().split():
            yield _link(element.get("href", ""))


def _directives(tree: html.HtmlElement) -> Iterator[str]:
    for element in tree.iter("meta"):
        if element.get("name", "").strip().lower() in ROBOTS:
            yield from filter(None, map(str.strip, element.get("content", "").lower()[:1000].split(",")))
