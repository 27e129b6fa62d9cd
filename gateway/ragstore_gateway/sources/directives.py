"""The directives of a page for crawlers, in its header `X-Robots-Tag` and its elements `robots`."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from multidict import CIMultiDictProxy

ROBOT: Final = "ragstore-gateway"

WITH_VALUE: Final = frozenset({"unavailable_after", "max-snippet", "max-image-preview", "max-video-preview"})
"""Directives with a value after a colon. Another word before a colon is the name of a robot."""


def directives_of(headers: CIMultiDictProxy[str], elements: Iterable[str]) -> frozenset[str]:
    """The directives of a page.

    Args:
        headers: the headers of the response.
        elements: the directives of the page itself, in lower case.

    Returns:
        The directives; `none` is both `noindex` and `nofollow`.
    """
    found = set(elements)
    for header in headers.getall("X-Robots-Tag", []):
        found.update(_of_header(header.lower()))
    if "none" in found:
        found.update(("noindex", "nofollow"))
    return frozenset(found)


def _of_header(header: str) -> Iterable[str]:
    """The directives of one header that are for all robots, or for this one."""
    robot, colon, rest = header.partition(":")
    name = robot.strip()
    if colon and "," not in name and name not in WITH_VALUE:
        if name != ROBOT:
            return ()
        header = rest
    return (directive.strip() for directive in header.split(","))
