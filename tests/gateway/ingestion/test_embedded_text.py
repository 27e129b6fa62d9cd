"""The text of a chunk as it is embedded: with the title and the headings that it lacks."""

from __future__ import annotations

import pytest

from ragstore_gateway.configurations.knowledge_base import KnowledgeBase
from ragstore_gateway.extraction.extracted import Extracted, Heading
from ragstore_gateway.ingestion.embedded_text import MAX_CHARACTERS, embedded_text
from ragstore_gateway.splitting.chunk import Chunking, ChunkSpan

TEXT = "# Handbook\n## Leave\n### Days\nYou have 25 days.\n## Travel\nBook early. Fly second."
WITH = Chunking(with_headings=True)


def extracted(title: str = "Acme") -> Extracted:
    headings = []
    for level, name in ((1, "Handbook"), (2, "Leave"), (3, "Days"), (2, "Travel")):
        start = TEXT.index("#" * level + f" {name}")
        headings.append(Heading(level, name, start, start + level + 1 + len(name)))
    return Extracted(TEXT, "text/markdown", title, headings=tuple(headings))


def span(text: str, heading: str) -> ChunkSpan:
    start = TEXT.index(text)
    return ChunkSpan(start, start + len(text), 1, None, heading, {})


def test_the_title_and_the_headings_precede_the_text_the_highest_first() -> None:
    found = embedded_text(extracted(), span("You have 25 days.", "Days"), WITH)
    assert found == "Acme\nHandbook\nLeave\nDays\nYou have 25 days."


def test_a_heading_of_a_section_that_has_ended_is_not_one_of_them() -> None:
    assert embedded_text(extracted(), span("Fly second.", "Travel"), WITH) == "Acme\nHandbook\nTravel\nFly second."


def test_what_the_text_has_itself_is_not_repeated() -> None:
    found = embedded_text(extracted("Handbook"), span("## Travel\nBook early.", "Travel"), WITH)
    assert found == "Handbook\n## Travel\nBook early."


def test_an_overlap_with_the_section_before_does_not_choose_the_headings() -> None:
    chunk = span("days.\n## Travel\nBook early.", "Travel")
    assert embedded_text(extracted(""), chunk, WITH) == "Handbook\ndays.\n## Travel\nBook early."


def test_a_long_title_is_left_out_before_the_headings() -> None:
    found = embedded_text(extracted("t" * MAX_CHARACTERS), span("Fly second.", "Travel"), WITH)
    assert found == "Handbook\nTravel\nFly second."


def test_a_text_without_title_and_headings_is_embedded_as_it_is() -> None:
    assert embedded_text(Extracted("plain", "text/plain"), ChunkSpan(0, 5, 1, None, "", {}), WITH) == "plain"


def test_without_the_switch_the_text_is_embedded_as_it_is() -> None:
    assert embedded_text(extracted(), span("Fly second.", "Travel"), Chunking()) == "Fly second."


@pytest.mark.parametrize(("given", "expected"), [(None, False), (False, False), (True, True)])
def test_a_base_that_an_earlier_version_has_stored_has_no_headings(given: bool | None, expected: bool) -> None:
    assert KnowledgeBase(name="stored", embed_headings=given).chunking.with_headings is expected
