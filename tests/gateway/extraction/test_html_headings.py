"""Headings of HTML pages without a container for their main text, as pandoc and word processors write them."""

from __future__ import annotations

import re

import pytest
from markdown_it import MarkdownIt

from ragstore_gateway.extraction.extracted import Extracted
from ragstore_gateway.extraction.parsers.html import page
from ragstore_gateway.extraction.protocol import Output, Request
from tests.support.pages import ROOT

SENTENCES = "The caretaker reads the meters on the last working day of the month. The figures are in the list. " * 2
SECTIONS = "".join(f"<h2>Section number {number}</h2><p>{SENTENCES}{number}</p>" for number in range(30))
NAV = "<nav><h2>Contents</h2><ul><li><a href='/a'>Start page</a></li></ul></nav>"
FOOTER = "<footer><h2>About us</h2><p>Imprint of the company.</p></footer>"
DIVS = "<div class='navbar'><a href='/a'>Start page</a></div>{}<div class='footer'>Imprint of the company.</div>"


def extracted(body: str, output: Output = "text") -> Extracted:
    """The main text of a page."""
    source = f"<!DOCTYPE html><html><head><title>Rules</title></head><body>{body}</body></html>"
    return page(source.encode(), Request("text/html; charset=utf-8", "", output, "", 1_000_000, 1.0))


@pytest.mark.parametrize("output", ["text", "markdown"])
@pytest.mark.parametrize(
    "body",
    [
        SECTIONS,
        f"<div>{SECTIONS}</div>",
        f"<div><div>{SECTIONS}</div></div>",
        NAV + SECTIONS + FOOTER,
        DIVS.format(f"<div>{SECTIONS}</div>"),
        f"<main>{SECTIONS}</main>",
    ],
    ids=["body", "div", "divs", "body-with-nav", "div-with-nav", "main"],
)
def test_a_page_without_a_known_container_keeps_its_headings_and_no_navigation(body: str, output: Output) -> None:
    found = extracted(body, output)
    assert [heading.text for heading in found.headings] == [f"Section number {number}" for number in range(30)]
    assert found.text.count("The caretaker reads the meters") == 60
    for boilerplate in ("Start page", "Imprint", "About us", "Contents"):
        assert boilerplate not in found.text


@pytest.mark.parametrize("name", ["operating", "gateway", "extraction-and-splitting", "reliability"])
def test_a_page_of_pandoc_keeps_all_of_its_headings(name: str) -> None:
    body = MarkdownIt("commonmark").enable("table").render((ROOT / f"docs/{name}.md").read_text())
    title = f"<header id='title-block-header'><h1 class='title'>{name}</h1></header>"
    found = extracted(f"{title}<nav id='TOC' role='doc-toc'><ul><li><a href='#a'>Start page</a></li></ul></nav>{body}")
    assert len(found.headings) == len(re.findall("<h[1-6]", body)) + 1
    assert "Start page" not in found.text


def test_headings_of_other_parts_of_a_page_do_not_bring_these_parts_into_its_text() -> None:
    asides = "".join(f"<aside><h3>Offer {number}</h3><p>{SENTENCES}</p></aside>" for number in range(5))
    related = "".join(f"<div class='related'><h3>Also {number}</h3><a href='/x'>More</a></div>" for number in range(5))
    found = extracted(f"<article><h1>Meters</h1><p>{SENTENCES}</p></article>{asides}{related}")
    assert [heading.text for heading in found.headings] == ["Meters"]
    assert "Offer" not in found.text
    assert "Also" not in found.text
