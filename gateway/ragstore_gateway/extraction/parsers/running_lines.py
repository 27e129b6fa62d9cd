"""Removes running headers and footers: lines that repeat at the top or at the bottom of most pages."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from itertools import product
from typing import Final

MIN_PAGES: Final = 3
"""Minimum number of pages on which a line is running."""

DEPTH: Final = 3
"""Number of lines at the top and at the bottom of a page that may be running."""

MAX_NUMBERS: Final = 4
"""A line with more numbers is data; none of them counts pages."""

MAX_DIGITS: Final = 6
"""Maximum number of digits of the number of a page."""

# Not the digits of a word such as `A4`.
_NUMBER: Final = re.compile(r"(?<![^\W_])[0-9]+(?![^\W_])")


def without_running_lines(pages: Sequence[str]) -> list[str]:
    """Remove running headers and footers.

    A line is running if it is among the first three lines, or among the last three, of more than half of the pages that
    have a text. Its numbers are equal there, or increase by one from page to page: `Page 3 of 12`. A row of figures at
    the top of each page is kept, because its numbers do neither. Only lines beyond which there is nothing else are
    removed. A header stays where it is first: a title, or the head of a table that continues. A page that has no
    further lines stays as it is.

    Args:
        pages: the texts of the pages.

    Returns:
        The texts without these lines.
    """
    lines = [text.splitlines() for text in pages]
    threshold = max(MIN_PAGES, sum(any(map(str.strip, each)) for each in lines) // 2 + 1)
    if len(pages) < threshold:
        return list(pages)
    headers = _running(lines, threshold, _top)
    footers = _running(lines, threshold, _bottom)
    if not headers and not footers:
        return list(pages)
    seen: set[str] = set()
    kept = []
    for number, own in enumerate(lines):
        removed = {*_repeated(own, number, headers, seen), *_outermost(own, number, footers, _bottom)}
        left = [line for place, line in enumerate(own) if place not in removed]
        kept.append("\n".join(left if any(map(str.strip, left)) else own))
    return kept


def _top(lines: Sequence[str]) -> list[int]:
    """The places of the first lines that are not blank."""
    return [place for place, line in enumerate(lines) if line.strip()][:DEPTH]


def _bottom(lines: Sequence[str]) -> list[int]:
    """The places of the last lines that are not blank, the last one first."""
    return [place for place, line in enumerate(lines) if line.strip()][: -DEPTH - 1 : -1]


def _running(pages: Sequence[Sequence[str]], threshold: int, places: Callable[[Sequence[str]], list[int]]) -> set[str]:
    """The forms of lines that are at these places of enough pages."""
    counts: Counter[str] = Counter()
    for number, lines in enumerate(pages):
        counts.update({form for place in places(lines) for form in _forms(lines[place], number)})
    return {form for form, count in counts.items() if count >= threshold}


def _outermost(
    lines: Sequence[str], number: int, running: set[str], places: Callable[[Sequence[str]], list[int]]
) -> Iterator[int]:
    """The places of running lines, from the edge of the page to the first line that is not running."""
    for place in places(lines):
        if running.isdisjoint(_forms(lines[place], number)):
            return
        yield place


def _repeated(lines: Sequence[str], number: int, headers: set[str], seen: set[str]) -> list[int]:
    """The places of headers that were on a page before, from the top to the first one that was not.

    Args:
        seen: the headers of the pages before, to which the headers of this page are added.
    """
    places = list(_outermost(lines, number, headers, _top))
    repeated = []
    for place in places:
        if seen.isdisjoint(_forms(lines[place], number)):
            break
        repeated.append(place)
    seen.update(form for place in places for form in _forms(lines[place], number))
    return repeated


def _forms(line: str, number: int) -> Iterator[str]:
    """A line in all its forms: each number as it is, or as its distance to the number of the page."""
    text = " ".join(line.split())
    numbers = list(_NUMBER.finditer(text))
    if len(numbers) > MAX_NUMBERS or any(len(each[0]) > MAX_DIGITS for each in numbers):
        yield text
        return
    for counted in product((False, True), repeat=len(numbers)):
        form, end = "", 0
        for each, counts in zip(numbers, counted, strict=True):
            form += text[end : each.start()] + (f"\0{int(each[0]) - number}\0" if counts else each[0])
            end = each.end()
        yield form + text[end:]
