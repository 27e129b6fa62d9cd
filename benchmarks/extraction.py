"""Measure the extraction of the main text of pages and of its headings, beside a program that only removes the tags.

    python -m benchmarks.extraction             the table of docs/web.md
    python -m benchmarks.extraction --missing   also the words that are missing, and the words that are too many

The pages are tests/gateway/web/pages/*.html; each has its main text beside it, as .txt.
"""

from __future__ import annotations

import argparse
import asyncio
import re
from collections import Counter
from dataclasses import dataclass
from html.parser import HTMLParser
from pathlib import Path

from lxml import html

from ragstore.kit.errors import ServiceError
from ragstore_gateway.extraction.extracted import Extracted
from ragstore_gateway.extraction.extractor import Extractor
from ragstore_gateway.settings import Settings

PAGES = Path(__file__).parent.parent / "tests/gateway/web/pages"

# A word, or a character of a script without spaces.
TOKEN = re.compile(r"[\u3040-\u30ff\u3400-\u9fff]|[^\W\u3040-\u30ff\u3400-\u9fff]+")


@dataclass(frozen=True)
class Quality:
    """How well a text agrees with the main text of its page, by tokens.

    Attributes:
        precision: the share of its tokens that belong to the main text.
        recall: the share of the main text's tokens that it has.
    """

    precision: float
    recall: float

    @property
    def f1(self) -> float:
        """The harmonic mean of both."""
        return 2 * self.precision * self.recall / (self.precision + self.recall) if self.precision else 0.0


@dataclass(frozen=True)
class Measured:
    """A page.

    Attributes:
        expected: its main text.
        extracted: the text that the gateway extracts.
        stripped: its text without tags.
        headings: number of headings of the main text.
        kept: number of these headings that the gateway extracts as headings.
    """

    name: str
    expected: str
    extracted: str
    stripped: str
    headings: int
    kept: int

    @property
    def gateway(self) -> Quality:
        """The quality of the gateway's text."""
        return quality(self.extracted, self.expected)

    @property
    def plain(self) -> Quality:
        """The quality of the text without tags."""
        return quality(self.stripped, self.expected)


class _TagStripper(HTMLParser):
    """Collects all text, without scripts and styles."""

    def __init__(self) -> None:
        super().__init__(convert_charrefs=True)
        self.parts: list[str] = []
        self._hidden = 0

    def handle_starttag(self, tag: str, attrs: object) -> None:
        self._hidden += tag in ("script", "style")

    def handle_endtag(self, tag: str) -> None:
        self._hidden -= tag in ("script", "style")

    def handle_data(self, data: str) -> None:
        if not self._hidden:
            self.parts.append(data)


def without_tags(page: str) -> str:
    """The text of a page without its tags."""
    stripper = _TagStripper()
    stripper.feed(page)
    return " ".join(stripper.parts)


def tokens(text: str) -> Counter[str]:
    """The tokens of a text, in lower case."""
    return Counter(TOKEN.findall(text.lower()))


def quality(text: str, expected: str) -> Quality:
    """Compare a text with the main text.

    Args:
        expected: the main text.
    """
    found, wanted = tokens(text), tokens(expected)
    common = (found & wanted).total()
    return Quality(common / max(1, found.total()), common / wanted.total())


def headings_of(page: str, expected: str) -> Counter[str]:
    """The headings of a page that are lines of its main text.

    Args:
        expected: its main text.
    """
    lines = {" ".join(line.split()) for line in expected.splitlines()}
    tree = html.document_fromstring(page.encode(), parser=html.HTMLParser(encoding="utf-8"))
    texts = (" ".join(each.text_content().split()) for each in tree.iter("h1", "h2", "h3", "h4", "h5", "h6"))
    return Counter(text for text in texts if text in lines)


async def measure() -> list[Measured]:
    """Extract all pages, in processes with the limits of the default settings."""
    extractor = Extractor.from_settings(Settings())
    measured = []
    async with extractor.running():
        for path in sorted(PAGES.glob("*.html")):
            content = path.read_bytes()
            try:
                extracted = await extractor.extract(content, media_type="text/html")
            except ServiceError:
                extracted = Extracted("", "text/html")
            expected = path.with_suffix(".txt").read_text()
            headings = headings_of(content.decode(), expected)
            kept = headings & Counter(heading.text for heading in extracted.headings)
            stripped = without_tags(content.decode())
            counts = headings.total(), kept.total()
            measured.append(Measured(path.stem, expected, extracted.text, stripped, *counts))
    return measured


def mean_f1(qualities: list[Quality]) -> float:
    """The mean F1 of pages."""
    return sum(each.f1 for each in qualities) / len(qualities)


def table(measured: list[Measured]) -> str:
    """The table of the documentation.

    Args:
        measured: the pages.
    """
    rows = [
        "| page | precision | recall | F1 | headings kept | tags removed: F1 |",
        "| --- | ---: | ---: | ---: | ---: | ---: |",
    ]
    for page in measured:
        own = page.gateway
        qualities = f"{own.precision:.2f} | {own.recall:.2f} | {own.f1:.2f}"
        rows.append(f"| {page.name} | {qualities} | {page.kept} of {page.headings} | {page.plain.f1:.2f} |")
    own_mean = mean_f1([page.gateway for page in measured])
    plain_mean = mean_f1([page.plain for page in measured])
    kept = f"{sum(page.kept for page in measured)} of {sum(page.headings for page in measured)}"
    rows.append(f"| **mean** | | | **{own_mean:.3f}** | **{kept}** | **{plain_mean:.3f}** |")
    return "\n".join(rows)


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--missing", action="store_true")
    arguments = parser.parse_args()
    measured = asyncio.run(measure())
    print(table(measured))
    if arguments.missing:
        for page in measured:
            found, wanted = tokens(page.extracted), tokens(page.expected)
            print(f"\n{page.name}\n  missing: {' '.join((wanted - found).elements())}")
            print(f"  too many: {' '.join((found - wanted).elements())}")


if __name__ == "__main__":
    main()
