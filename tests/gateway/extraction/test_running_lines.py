"""Running headers and footers of PDF files are removed, and nothing else."""

from __future__ import annotations

from typing import Final

from hypothesis import given
from hypothesis import strategies as st

from ragstore_gateway.extraction.parsers.running_lines import DEPTH, without_running_lines

BODIES: Final = [
    "The kettle boils",
    "one litre of water.",
    "Its warranty lasts",
    "three years.",
    "It excludes",
    "limescale.",
]


def paged(top: str = "", bottom: str = "", count: int = 4) -> list[str]:
    """Pages between a header and a footer, in which `#` is the number of the page."""
    texts = []
    for number in range(1, count + 1):
        own = [top.replace("#", str(number)), BODIES[number], BODIES[-number], bottom.replace("#", str(number))]
        texts.append("\n".join(line for line in own if line))
    return texts


def test_a_header_is_removed_from_all_pages_but_the_first() -> None:
    first, *others = without_running_lines(paged(top="Manual of the kettle"))
    assert first == paged(top="Manual of the kettle")[0]
    assert others == paged()[1:]


def test_a_footer_with_the_number_of_the_page_is_removed() -> None:
    assert without_running_lines(paged(bottom="Seite # von 4 / Vertraulich")) == paged()


def test_a_footer_of_several_lines_is_removed() -> None:
    pages = [f"{page}\nConfidential\n\n{number}" for number, page in enumerate(paged(), start=17)]
    assert [page.strip() for page in without_running_lines(pages)] == paged()


def test_figures_at_the_top_of_each_page_are_kept() -> None:
    pages = [f"{1999 + number * number} 48 millions\n{page}" for number, page in enumerate(paged())]
    assert without_running_lines(pages) == pages


def test_a_line_in_the_middle_of_each_page_is_kept() -> None:
    pages = [
        f"a{number * 3}\nb{number * number}\nc{number**3}\nNote:\nx{number}\ny{number * 7}\nz{number * 5}"
        for number in range(2, 9)
    ]
    assert without_running_lines(pages) == pages


def test_a_line_on_half_of_the_pages_is_kept() -> None:
    pages = [*paged(bottom="Chapter one")[:2], *paged()[2:]]
    assert without_running_lines(pages) == pages


def test_a_document_of_two_pages_is_kept() -> None:
    pages = paged(bottom="Confidential", count=2)
    assert without_running_lines(pages) == pages


def test_pages_of_nothing_else_are_kept() -> None:
    assert without_running_lines(["kettle"] * 5) == ["kettle"] * 5


def test_empty_pages_do_not_count() -> None:
    pages = [*paged(bottom="Confidential", count=3), "", "", "", ""]
    assert without_running_lines(pages) == [*paged(count=3), "", "", "", ""]


lines = st.sampled_from(["Manual", "Page 1", "Page 2", "Page 3", "", "a", "b", "7 8 9 10 11", "0000000001"])


@given(st.lists(st.lists(lines, max_size=9), max_size=8))
def test_only_lines_at_the_edges_are_removed(pages: list[list[str]]) -> None:
    texts = ["\n".join(page) for page in pages]
    found = without_running_lines(texts)
    assert len(found) == len(texts)
    for before, after in zip(texts, found, strict=True):
        old, new = ([line for line in text.splitlines() if line.strip()] for text in (before, after))
        ends = range(max(0, len(old) - DEPTH), len(old) + 1)
        assert any(new == old[start:end] for start in range(min(DEPTH, len(old)) + 1) for end in ends)


@given(st.lists(st.text(max_size=30), max_size=8, unique_by=lambda text: text.strip()[:1]))
def test_pages_without_equal_lines_are_kept(pages: list[str]) -> None:
    distinct = [f"{number * number}x{text}" for number, text in enumerate(pages, start=3)]
    assert without_running_lines([f"{each}\n{each}y\n{each}z" for each in distinct]) == [
        f"{each}\n{each}y\n{each}z" for each in distinct
    ]
