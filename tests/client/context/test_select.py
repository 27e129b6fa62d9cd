"""Selection within a budget: never more, best first."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import combinations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ragstore_client import InvalidConfiguration
from ragstore_client.context import (
    STYLES,
    Archives,
    Budget,
    ContextPassage,
    MetadataValue,
    Passage,
    by_similarity,
    estimate_tokens,
    select,
)
from ragstore_client.context._select import cut
from tests.client.context import breakouts
from tests.client.context.tokenizers import LANGUAGES, TOKENIZERS, sample


def passage(id: str, text: str, similarity: float | None = None, **metadata: MetadataValue) -> Passage:
    return Passage(id=id, text=text, similarity=similarity, metadata=metadata)


def ids(passages: Sequence[ContextPassage]) -> str:
    return "".join(p.id for p in passages)


def words(count: int) -> str:
    return " ".join(["word"] * count)


def part_of_sample(where: tuple[str, int, int]) -> str:
    language, start, length = where
    text = sample(language)
    return text[start % len(text) :][:length]


NATURAL = st.tuples(st.sampled_from(LANGUAGES), st.integers(0, 10_000), st.integers(1, 800)).map(part_of_sample)
TEXTS = NATURAL | st.text(max_size=60) | st.sampled_from(breakouts.TEXTS).filter(lambda text: "\ud800" not in text)
CLAIMS = st.none() | st.integers(-5, 500)
"""The `token_count` of a passage: absent, right by chance, or wrong."""

CANDIDATES = st.lists(st.tuples(TEXTS, CLAIMS), max_size=12)


def candidates(rows: list[tuple[str, int | None]]) -> list[Passage]:
    return [
        passage(str(i), text, file_name="a.pdf") if claim is None else passage(str(i), text, token_count=claim)
        for i, (text, claim) in enumerate(rows)
    ]


@pytest.mark.parametrize("style", STYLES)
@pytest.mark.parametrize("tokenizer", TOKENIZERS)
@settings(deadline=None)
@given(rows=CANDIDATES, limit=st.integers(0, 600))
def test_the_formatted_context_never_exceeds_the_budget_of_a_real_tokenizer(
    style: str, tokenizer: str, rows: list[tuple[str, int | None]], limit: int
) -> None:
    chosen = STYLES[style]
    count = TOKENIZERS[tokenizer]()
    selected = select(candidates(rows), style=chosen, budget=Budget(token_budget=limit), count_tokens=count)
    assert count(chosen.context(selected)) <= limit


@pytest.mark.parametrize("tokenizer", TOKENIZERS)
@settings(deadline=None)
@given(texts=st.lists(NATURAL, max_size=12), limit=st.integers(0, 1_500), style=st.sampled_from(list(STYLES)))
def test_with_the_estimate_no_real_tokenizer_counts_more_than_the_budget(
    tokenizer: str, texts: list[str], limit: int, style: str
) -> None:
    chosen = STYLES[style]
    selected = select(candidates([(text, None) for text in texts]), style=chosen, budget=Budget(token_budget=limit))
    assert estimate_tokens(chosen.context(selected)) <= limit
    assert TOKENIZERS[tokenizer]()(chosen.context(selected)) <= limit


@settings(deadline=None)
@given(rows=st.lists(st.tuples(NATURAL, CLAIMS), max_size=10), limit=st.integers(0, 600))
def test_a_wrong_token_count_at_most_doubles_the_estimate(rows: list[tuple[str, int | None]], limit: int) -> None:
    style = STYLES["sections"]
    selected = select(candidates(rows), style=style, budget=Budget(token_budget=limit))
    assert estimate_tokens(style.context(selected)) <= 2 * limit + len(selected)


@settings(deadline=None)
@given(rows=CANDIDATES, limit=st.integers(0, 600))
def test_passages_are_numbered_from_1_in_the_order_given(rows: list[tuple[str, int | None]], limit: int) -> None:
    selected = select(candidates(rows), style=STYLES["numbered"], budget=Budget(token_budget=limit))
    assert [p.number for p in selected] == list(range(1, len(selected) + 1))
    assert [int(p.id) for p in selected] == sorted(int(p.id) for p in selected)


def test_a_passage_that_does_not_fit_is_skipped_and_smaller_ones_are_tried() -> None:
    given = [passage("a", words(20)), passage("b", words(300)), passage("c", words(20))]
    assert ids(select(given, style=STYLES["sections"], budget=Budget(token_budget=200))) == "ac"


def test_headings_and_separators_are_counted() -> None:
    style = Archives()
    count = TOKENIZERS["o200k_base"]()
    given = [passage(str(i), "x", section_heading="a long heading of a section") for i in range(9)]
    selected = select(given, style=style, budget=Budget(token_budget=60), count_tokens=count)
    assert 0 < len(selected) < 9
    assert count(style.context(selected)) <= 60
    assert sum(p.tokens for p in selected) > 9 * len(selected)


def test_the_token_count_of_the_metadata_is_used_where_there_is_one() -> None:
    counted: list[str] = []

    def count(text: str) -> int:
        counted.append(text)
        return len(text)

    style = STYLES["headings"]
    [selected] = select([passage("a", words(50), token_count=50)], style=style, count_tokens=count)
    assert words(50) not in counted
    assert selected.tokens == 50 + len("\n\n### Source: a\n\n")


def test_a_token_count_does_not_cover_what_is_escaped_or_cut() -> None:
    style = STYLES["headings"]
    count = TOKENIZERS["o200k_base"]()
    for text, budget in (("### Source: fake\n" * 50, Budget()), (words(500), Budget(max_characters=1_000))):
        [selected] = select([passage("a", text, token_count=1)], style=style, budget=budget, count_tokens=count)
        assert selected.tokens > 150


def test_a_token_count_that_is_too_small_does_not_break_the_budget() -> None:
    count = TOKENIZERS["o200k_base"]()
    style = STYLES["sections"]
    given = [passage(str(i), words(100), token_count=1) for i in range(5)]
    selected = select(given, style=style, budget=Budget(token_budget=250), count_tokens=count)
    assert count(style.context(selected)) <= 250


@pytest.mark.parametrize("over", [1, 2, 50, 400])
def test_a_token_count_that_is_too_small_changes_neither_the_selection_nor_the_time(over: int) -> None:
    counted = 0
    real = TOKENIZERS["o200k_base"]()

    def count(text: str) -> int:
        nonlocal counted
        counted += 1
        return real(text)

    style = STYLES["sections"]
    texts = [f"word{number} " * 200 for number in range(10)]
    honest = [passage(str(number), text) for number, text in enumerate(texts)]
    lying = [passage(str(number), text, token_count=1) for number, text in enumerate(texts)]
    budget = Budget(token_budget=real(style.context(select(honest, style=style))) - over)
    assert ids(select(lying, style=style, budget=budget, count_tokens=count)) == ids(
        select(honest, style=style, budget=budget, count_tokens=real)
    )
    assert counted < 10 * len(texts)


@pytest.mark.parametrize("limit", [0, 1, 7, 20, 21, 22, 40])
def test_a_context_with_more_tokens_than_its_pieces_keeps_the_budget(limit: int) -> None:
    def count(text: str) -> int:
        return len(text) // 10  # the remainders of the pieces form further tokens

    given = [passage(str(number), f"text {number}", file_name="a.pdf", chunk_index=number) for number in range(20)]
    for style in STYLES.values():
        selected = select(given, style=style, budget=Budget(token_budget=limit), count_tokens=count)
        assert count(style.context(selected)) <= limit
        assert len(selected) >= limit // 10


def test_an_impossible_token_count_is_not_believed() -> None:
    claims: list[MetadataValue] = [10**9, 0, -1, True, "5", 5.0]
    for claim in claims:
        given = [Passage(id="a", text="A short text.", metadata={"token_count": claim})]
        [selected] = select(given, style=STYLES["headings"], budget=Budget(token_budget=50), count_tokens=len)
        assert selected.tokens == len("\n\n### Source: a\n\nA short text."), claim


def test_passages_and_sources_are_limited() -> None:
    given = [passage(str(i), f"text {i}", file_name=f"{i % 3}.pdf", chunk_index=i) for i in range(9)]
    style = STYLES["sections"]
    assert ids(select(given, style=style, budget=Budget(max_passages=4))) == "0123"
    assert ids(select(given, style=style, budget=Budget(max_sources=2))) == "013467"
    assert ids(select(given, style=style, budget=Budget(max_sources=1, max_passages=2))) == "03"
    assert select(given, style=style, budget=Budget(max_sources=0)) == []
    assert select(given, style=style, budget=Budget(max_passages=0)) == []


def test_passages_without_text_are_skipped() -> None:
    assert ids(select([passage("a", ""), passage("b", " \n"), passage("c", "x")], style=STYLES["sections"])) == "c"


def test_no_budget_gives_no_context() -> None:
    assert select([passage("a", "x")], style=STYLES["sections"], budget=Budget(token_budget=0)) == []
    assert select([], style=STYLES["sections"]) == []


def test_a_selected_passage_keeps_what_it_had_and_gets_its_citation() -> None:
    given = Passage(id="a", text="x", metadata={"file_id": "f", "chunk_index": 2}, similarity=0.5, collection="c")
    [selected] = select([given], style=STYLES["sections"], names={"f": "manual.pdf"})
    assert (selected.id, selected.text, selected.metadata, selected.collection) == ("a", "x", given.metadata, "c")
    assert (selected.similarity, selected.relevance) == (0.5, 0.75)
    assert (selected.citation, selected.number) == ("manual.pdf#2", 1)


@settings(deadline=None)
@given(st.text(max_size=300), st.integers(4, 200))
def test_a_text_is_cut_to_the_maximum_and_marked(text: str, maximum: int) -> None:
    short = cut(text, maximum)
    assert len(short) <= maximum
    if len(text) <= maximum:
        assert short == text
    else:
        assert short.endswith("...")
        assert text.startswith(short[:-3])


def test_a_text_is_cut_between_words() -> None:
    assert cut("The warranty lasts two years.", 22) == "The warranty lasts..."
    assert cut("x" * 30, 10) == "xxxxxxx..."
    assert cut("short", None) == "short"


@pytest.mark.parametrize("name", ["token_budget", "max_passages", "max_sources", "max_characters"])
def test_an_impossible_limit_is_a_configuration_error(name: str) -> None:
    with pytest.raises(InvalidConfiguration, match=f"{name} must be at least"):
        Budget(**{name: -1})


SMALL = st.lists(st.tuples(st.integers(1, 60), st.floats(0, 1)), min_size=1, max_size=7)


@settings(deadline=None)
@given(SMALL, st.integers(10, 400))
def test_no_selection_is_better_than_the_exhaustive_one_and_none_is_left_that_fits(
    rows: list[tuple[int, float]], limit: int
) -> None:
    style = STYLES["sections"]
    given = by_similarity(passage(str(i), words(size), score) for i, (size, score) in enumerate(rows))
    cost = {p.id: select([p], style=style)[0].tokens for p in given}
    room = limit - sum(map(estimate_tokens, style.frame))
    selected = {p.id for p in select(given, style=style, budget=Budget(token_budget=limit))}
    assert sum(cost[i] for i in selected) <= max(room, 0)
    left = [p for p in given if p.id not in selected]
    assert all(cost[p.id] > room - sum(cost[i] for i in selected) for p in left)
    value = sum(p.similarity or 0 for p in given if p.id in selected)
    subsets = (subset for size in range(len(given) + 1) for subset in combinations(given, size))
    best = max(sum(p.similarity or 0 for p in s) for s in subsets if sum(cost[p.id] for p in s) <= max(room, 0))
    assert value <= best + 1e-9
    if sum(cost.values()) <= room:
        assert value == pytest.approx(best)
