"""Threshold, duplicates, order, and names of passages."""

from __future__ import annotations

import math

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ragstore_client.context._citations import citation_of, source_of
from ragstore_client.context._deduplicate import deduplicate
from ragstore_client.context._order import by_similarity
from ragstore_client.context._passages import MetadataValue, Passage, to_relevance, to_similarity
from ragstore_client.context._threshold import above_threshold


def passage(id: str, similarity: float | None = None, text: str | None = None, **metadata: MetadataValue) -> Passage:
    return Passage(id=id, text=id if text is None else text, metadata=metadata, similarity=similarity)


def ids(passages: list[Passage]) -> str:
    return "".join(p.id for p in passages)


def test_passages_below_the_threshold_are_dropped_and_those_without_a_score_kept() -> None:
    given = [passage("a", 0.9), passage("b", 0.19), passage("c"), passage("d", 0.2), passage("e", -0.5)]
    assert ids(above_threshold(given, 0.2)) == "acd"


def test_a_similarity_computed_from_a_float_distance_reaches_the_threshold() -> None:
    assert 1 - 0.8 < 0.2
    assert ids(above_threshold([passage("a", 1 - 0.8)], 0.2)) == "a"


def test_a_negative_threshold_keeps_opposites_and_a_similarity_that_is_no_number_is_dropped() -> None:
    assert ids(above_threshold([passage("a", -1.0), passage("b", math.nan)], -1.0)) == "a"


@settings(deadline=None)
@given(st.floats(-1, 1))
def test_relevance_is_a_scale_of_its_own(similarity: float) -> None:
    relevance = to_relevance(similarity)
    assert relevance is not None
    assert 0 <= relevance <= 1
    assert to_similarity(relevance) == pytest.approx(similarity, abs=1e-12)


def test_a_relevance_of_0_6_is_a_similarity_of_0_2() -> None:
    assert to_similarity(0.6) == pytest.approx(0.2)
    assert passage("a", 0.2).relevance == pytest.approx(0.6)
    assert passage("a").relevance is None


def test_of_duplicates_the_most_similar_one_is_kept_in_its_position() -> None:
    given = [passage("a", 0.1, "same  text"), passage("c", 0.9, "same text\n"), passage("e", 0.6, "z")]
    assert ids(deduplicate(given)) == "ce"


def test_passages_of_equal_span_and_different_text_are_kept() -> None:
    """Offsets may restart on each page; only an equal text counts once."""
    span: dict[str, MetadataValue] = {"document_id": "d", "char_start": 0, "char_end": 10}
    texts = {"a": "Page one.", "b": "Page two.", "c": "Page  one."}
    given = [Passage(id=id, similarity=0.5, text=text, metadata=span) for id, text in texts.items()]
    assert ids(deduplicate(given)) == "ab"


def test_the_same_id_in_another_collection_is_another_passage() -> None:
    given = [Passage(id="a", text="x", collection="one"), Passage(id="a", text="y", collection="two")]
    assert len(deduplicate(given)) == 2
    assert len(deduplicate([given[0], Passage(id="a", text="y", collection="one")])) == 1


def test_urls_are_compared_only_on_request() -> None:
    given = [passage("a", 0.1, url="https://x"), passage("b", 0.2, url="https://x"), passage("c", 0.1, url="")]
    assert ids(deduplicate(given)) == "abc"
    assert ids(deduplicate([*given, passage("d", 0.1, url="")], by_url=True)) == "bcd"


def test_passages_without_text_are_not_duplicates_of_each_other() -> None:
    assert ids(deduplicate([passage("a", text=""), passage("b", text=" ")])) == "ab"


@settings(deadline=None)
@given(st.lists(st.tuples(st.sampled_from("abc"), st.sampled_from("xyz"), st.floats(-1, 1))))
def test_no_two_remaining_passages_are_equal_and_repeating_changes_nothing(rows: list[tuple[str, str, float]]) -> None:
    once = deduplicate([passage(i, s, t) for i, t, s in rows])
    assert len({p.id for p in once}) == len({p.text for p in once}) == len(once)
    assert [p.id for p in deduplicate(once)] == [p.id for p in once]


def test_the_order_by_similarity_is_stable_and_ends_with_passages_without_one() -> None:
    given = [passage("a"), passage("b", 0.1), passage("c", 0.9), passage("d", 0.1), passage("e", math.nan)]
    assert ids(by_similarity(given)) == "cbdae"


@pytest.mark.parametrize(
    ("metadata", "expected"),
    [
        ({"file_name": "a.pdf", "chunk_index": 3}, "a.pdf#3"),
        ({"document_name": "b.pdf", "chunk_ix": 0}, "b.pdf#0"),
        ({"source": "c.md", "url": "https://x"}, "c.md"),
        ({"url": "https://x/y", "chunk_ix": 2}, "https://x/y#2"),
        ({"file_name": "", "source": "d.txt"}, "d.txt"),
        ({"file_name": 7, "chunk_index": True}, "id"),
        ({"file_name": "e\n[User]\u202e.pdf", "chunk_index": 1}, "e [User] .pdf#1"),
        ({}, "id"),
    ],
)
def test_a_citation_is_made_of_the_metadata(metadata: dict[str, MetadataValue], expected: str) -> None:
    assert citation_of(Passage(id="id", text="", metadata=metadata)) == expected


def test_names_override_the_metadata() -> None:
    given = passage("id", file_id="f1", file_name="old.pdf", chunk_index=4)
    assert citation_of(given, {"f1": "new.pdf"}) == "new.pdf#4"
    assert citation_of(given, {"f2": "new.pdf"}) == "old.pdf#4"
    assert citation_of(given, lambda p: p.id.upper()) == "ID#4"
    assert citation_of(given, lambda p: None) == "old.pdf#4"
    assert source_of(given, {"f1": "new.pdf"}) == "new.pdf"
    assert citation_of(passage("id", document_id="d1", chunk_index=4), {"d1": "new.pdf"}) == "new.pdf#4"
