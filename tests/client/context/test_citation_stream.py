"""Citations of a reply, complete and in chunks."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ragstore_client.context._citation_report import check_citations, report_of, without_invented
from ragstore_client.context._citation_stream import MAX_CITATIONS, Citation, CitationStream, Segment
from ragstore_client.context._escape import skeleton
from ragstore_client.context._passages import ContextPassage
from tests.client.context.citation_corpus import CONTEXT
from tests.support.call_counts import counted_calls
from tests.support.hangs import ends

FRAGMENTS = (
    "[1]", "[9]", "[1, 2]", "[1-3]", "[1\u20133]", "[manual.pdf#3]", "[manual.pdf]", "[report [final].pdf#1]",
    "[report [final].pd", "[Source 2]", "\u30102\u3011", "\u30101\u2020L1\u3011",
    "[7](https://x)", "[2]: https://x", "[^1]",
    "[[1]]", "[text][1]", "`a[0]`", "``x ` [1]``", "```", "```py\n",
    "[3-1]", "```a`b\n",
    "~~~\n", "~~~~", "\n", "\n\n", "    ```\n", "> ```\n",
    "Sources:\n", "**Quellen**\n", "- [1] https://x.org/a\n", "- [8] y\n", "* ", "word", " ",
    "x[0]", "[0]", "\\[1\\]", "[", "]",
    "`", "\r\n", "[2021]", "[a, b]", "[C#7]", "[Handbook#9]", "!", "\u3010", "\uff3b1\uff3d",
)  # fmt: skip

ANSWERS = st.lists(st.sampled_from(FRAGMENTS) | st.text("ab[]`1 \n(:", max_size=4), max_size=12).map("".join)


def collect(segments: list[Segment]) -> tuple[str, list[Citation]]:
    return "".join(s.text for s in segments), [c for s in segments for c in s.citations]


def streamed(chunks: list[str]) -> tuple[str, list[Citation]]:
    stream = CitationStream(CONTEXT)
    segments = [segment for chunk in chunks for segment in stream.feed(chunk)]
    return collect([*segments, *stream.finish()])


@settings(deadline=None)
@given(ANSWERS)
def test_a_stream_cut_at_every_position_has_the_same_citations_as_the_whole(answer: str) -> None:
    whole = streamed([answer])
    assert whole[0] == answer
    for position in range(len(answer)):
        assert streamed([answer[:position], answer[position:]]) == whole


@settings(deadline=None)
@given(ANSWERS, st.data())
def test_a_stream_of_single_characters_or_random_chunks_has_the_same_citations(
    answer: str, data: st.DataObject
) -> None:
    whole = streamed([answer])
    assert streamed(list(answer)) == whole
    cuts = sorted(data.draw(st.sets(st.integers(0, len(answer)))))
    assert streamed([answer[a:b] for a, b in zip([0, *cuts], [*cuts, len(answer)], strict=True)]) == whole


@settings(deadline=None)
@given(st.text(max_size=80), st.integers(1, 7))
def test_any_text_is_returned_unchanged(answer: str, size: int) -> None:
    assert streamed([answer[i : i + size] for i in range(0, len(answer), size)])[0] == answer


@settings(deadline=None)
@given(ANSWERS)
def test_spans_are_positions_in_the_answer(answer: str) -> None:
    for citation in check_citations(answer, CONTEXT).citations:
        marker = answer[citation.marker_start : citation.marker_end]
        assert marker[0] in "[\u3010\uff3b\u3014"
        assert marker[-1] in "]\u3011\uff3d\u3015"
        assert citation.marker_start < citation.start < citation.end < citation.marker_end


@settings(deadline=None)
@given(ANSWERS)
def test_a_marker_is_never_split(answer: str) -> None:
    stream = CitationStream(CONTEXT)
    for segment in [s for character in answer for s in stream.feed(character)] + stream.finish():
        for citation in segment.citations:
            assert len(segment.text) == citation.marker_end - citation.marker_start


def test_text_without_brackets_or_code_is_returned_immediately() -> None:
    stream = CitationStream(CONTEXT)
    assert stream.feed("The warranty is ") == [Segment("The warranty is ")]
    assert stream.feed("two years [1") == [Segment("two years ")]
    [marker] = stream.feed("] and")[:1]
    assert marker.text == "[1]"
    assert marker.citations[0].passages == (CONTEXT[0],)


def test_a_long_unclosed_bracket_is_not_held_back_forever() -> None:
    stream = CitationStream(CONTEXT)
    assert "".join(s.text for s in stream.feed("[" + "x" * 300)) == "[" + "x" * 300


def test_a_long_run_of_backticks_is_not_held_back_forever() -> None:
    stream = CitationStream(CONTEXT)
    assert len("".join(s.text for _ in range(50) for s in stream.feed("`" * 100))) >= 4_600


@pytest.mark.parametrize("before", ["", "x", "```\n", "~~~~\n", "`"])
@pytest.mark.parametrize("mark", ["`", "~"])
@pytest.mark.parametrize("length", [3, 199, 200, 201, 399, 400, 401, 805])
def test_a_long_run_of_marks_does_not_depend_on_the_chunks(before: str, mark: str, length: int) -> None:
    answer = f"{before}{mark * length}x\n[1]\n```\n[2]\n{mark * length}\n[3]"
    whole = streamed([answer])
    assert streamed(list(answer)) == whole
    for position in range(0, len(answer), 7):
        assert streamed([answer[:position], answer[position:]]) == whole


def test_a_long_line_closes_no_code_block() -> None:
    answer = "```\n" + "`" * 300 + "x\n[1]\n```\n[2]"
    assert [citation.label for citation in check_citations(answer, CONTEXT).citations] == ["2"]


def test_a_report_can_be_made_of_a_stream() -> None:
    answer = "Two years [1], three with an extension [7]. See [manual.pdf#4]."
    stream = CitationStream(CONTEXT)
    segments = [s for character in answer for s in stream.feed(character)] + stream.finish()
    assert report_of((c for s in segments for c in s.citations), CONTEXT) == check_citations(answer, CONTEXT)


def test_a_report_lists_cited_and_uncited_passages_and_invented_citations() -> None:
    report = check_citations("Two years [2][1]. Three [7], see [other.pdf#1] and [2].", CONTEXT)
    assert [p.id for p in report.cited] == ["b", "a"]
    assert [p.id for p in report.uncited] == ["c", "d", "e"]
    assert [c.label for c in report.invented] == ["7", "other.pdf#1"]


def named(*citations: str) -> list[ContextPassage]:
    """Passages with citations, numbered in their order."""
    return [
        ContextPassage(id=citation, text="x", citation=citation, number=number, tokens=1)
        for number, citation in enumerate(citations, 1)
    ]


@pytest.mark.parametrize(
    ("answer", "cited", "invented"),
    [
        ("[doc2.pdf#3]", ["doc2.pdf#3"], []),
        ("[doc2.pdf#3, doc.pdf#1]", ["doc2.pdf#3", "doc.pdf#1"], []),
        ("[doc.pdf#1; document1.pdf; source1.txt#0]", ["doc.pdf#1", "document1.pdf#4", "source1.txt#0"], []),
        ("[doc.pdf#1, Source: doc2.pdf#3]", ["doc.pdf#1", "doc2.pdf#3"], []),
        ("[doc2.pdf#3-4]", ["doc2.pdf#3"], ["doc2.pdf#4"]),
        ("[doc 3.pdf#1, doc.pdf#1]", ["doc 3.pdf#1", "doc.pdf#1"], []),
        ("[doc.pdf#1, doc 3.pdf#1-2]", ["doc.pdf#1", "doc 3.pdf#1"], ["doc 3.pdf#2"]),
        ("[doc9.pdf#1]", [], ["doc9.pdf#1"]),
        ("[doc.pdf#1, doc9.pdf#1]", ["doc.pdf#1"], ["doc9.pdf#1"]),
        # A label directly before a number stays one.
        ("[doc2]", ["doc2.pdf#3"], []),
        ("[Source1, doc2]", ["doc.pdf#1", "doc2.pdf#3"], []),
        ("[source1-2]", ["doc.pdf#1", "doc2.pdf#3"], []),
    ],
)
def test_a_name_that_begins_like_a_label_is_a_name(answer: str, cited: list[str], invented: list[str]) -> None:
    passages = named("doc.pdf#1", "doc2.pdf#3", "document1.pdf#4", "source1.txt#0", "doc 3.pdf#1")
    report = check_citations(f"Three years {answer}.", passages)
    assert [each.citation for each in report.cited] == cited
    assert [each.label for each in report.invented] == invented


def test_a_list_of_sources_cites_nothing_but_may_be_invented() -> None:
    report = check_citations("It is fast [1].\n\nSources\n- [1] https://a\n- [2] https://b\n- [9] https://c", CONTEXT)
    assert [p.id for p in report.cited] == ["a"]
    assert [(c.label, c.listed) for c in report.citations] == [("1", False), ("1", True), ("2", True), ("9", True)]
    assert [c.label for c in report.invented] == ["9"]


def test_invented_markers_can_be_removed() -> None:
    answer = "Two years [1]. Three [7]. Four [2, 9]. Five [other.pdf#1]!"
    assert without_invented(answer, check_citations(answer, CONTEXT)) == "Two years [1]. Three. Four [2, 9]. Five!"


LONG_NAME = [
    ContextPassage(
        id="a", text="", metadata={"url": "https://x.org/" + "a" * 200_000}, citation="a.pdf#1", number=1, tokens=1
    )
]


@pytest.mark.parametrize(
    "answer",
    [
        pytest.param("[a" + " " * 150_000 + "b]", id="spaces"),
        pytest.param("\n" * 1_000_000, id="lines"),
    ],
)
def test_an_answer_is_scanned_in_linear_time(answer: str) -> None:
    stream = CitationStream(LONG_NAME)
    with ends():
        segments = [*stream.feed(answer), *stream.finish()]
    assert collect(segments) == (answer, [])


@pytest.mark.parametrize(
    "answer",
    [
        pytest.param("[" * 100_000, id="brackets"),
        pytest.param("\u3010[" * 50_000, id="brackets of two kinds"),
        pytest.param("[a" * 50_000, id="unclosed brackets"),
        pytest.param("\n" * 100_000, id="line breaks"),
        pytest.param("]" * 100_000, id="closing brackets"),
        pytest.param("```\n" + "\n" * 100_000, id="blank lines of a code block"),
        pytest.param("```\n" + "a\n[1]\n" * 20_000, id="lines of a code block"),
    ],
)
@pytest.mark.parametrize("size", [100_000_000, 500])
def test_characters_without_meaning_are_skipped_together(answer: str, size: int) -> None:
    """The scanner made 14 calls for each bracket and each line break: 0.2 s for 100,000 of them."""
    stream = CitationStream(CONTEXT[:2])
    with counted_calls() as calls:
        for start in range(0, len(answer), size):
            stream.feed(answer[start : start + size])
        stream.finish()
    assert calls.count < len(answer) / 10


@pytest.mark.parametrize(
    "pattern",
    [
        *("[\n", "[]", "[x]", "[a1]", "[1]", "[1-99]", "[a#1-99]", "[manual.pdf#0-99]", "[#1]", "[\u3011", "- [1]\n"),
        *("`a`", "`a``", "[`", "a\n", " \n", "Sources:\n", "[a.md,b.md]", "[a.md,#1,#2]", "[a#0-#0-#0-#0-#0-#99]"),
    ],
)
def test_the_calls_for_a_character_are_bounded(pattern: str) -> None:
    """Ranges were expanded before they were checked, also nested ranges: the last pattern took hours."""
    counts = []
    for repeats in (500, 1_000):
        stream = CitationStream(CONTEXT)
        with ends(), counted_calls() as calls:
            stream.feed(pattern * repeats)
            stream.finish()
        counts.append(calls.count / (len(pattern) * repeats))
    assert max(counts) < 40
    assert counts[1] < counts[0] * 1.2


@pytest.mark.parametrize("start", ["[", "[" + "a" * 150, "` ``" * 60, "```\n", "[a\u3011" * 40 + "["])
def test_the_calls_for_a_chunk_are_bounded(start: str) -> None:
    stream = CitationStream(CONTEXT)
    stream.feed(start)
    with counted_calls() as calls:
        for _ in range(300):
            stream.feed("a")
    assert calls.count < 300 * 50


def test_a_name_of_any_length_does_not_delay_the_text_after_a_bracket() -> None:
    stream = CitationStream(LONG_NAME)
    given = "[" + "x" * 1_100
    assert "".join(s.text for s in stream.feed(given)) == given


def test_a_report_has_a_maximum_of_citations_and_counts_the_others() -> None:
    report = check_citations("[1-100]" * 20_000, CONTEXT)
    assert len(report.citations) == MAX_CITATIONS
    assert report.unrecorded == 100 * 20_000 - MAX_CITATIONS
    assert [p.id for p in report.cited] == ["a", "b", "c", "d", "e"]
    few = check_citations("Yes [1, 2] and [2-4] and [9].", CONTEXT, max_citations=3)
    assert [c.label for c in few.citations] == ["1", "2", "2"]
    assert few.unrecorded == 3
    assert few.invented == ()
    assert check_citations("[1]", CONTEXT).unrecorded == 0


def test_citations_beyond_the_maximum_are_text() -> None:
    stream = CitationStream(CONTEXT, max_citations=1)
    assert [(s.text, len(s.citations)) for s in [*stream.feed("a [1] b [2] c"), *stream.finish()]] == [
        ("a ", 0),
        ("[1]", 1),
        (" b [2] c", 0),
    ]


def test_citations_of_a_file_share_its_passages() -> None:
    passages = [ContextPassage(id=f"{n}", text="", citation=f"a.pdf#{n}", number=n, tokens=1) for n in range(2_000)]
    citations = check_citations("[a.pdf]" * 1_000, passages).citations
    assert len(citations) == 1_000
    assert len({id(citation.passages) for citation in citations}) == 1


@pytest.mark.parametrize("names", [("x.md#1",), ("[x] y.pdf#12",), ("[[x] y.pdf#12",), ("r [f].pdf#1", "x.md#1")])
@settings(deadline=None)
@given(
    st.lists(
        st.sampled_from(["[", "[[", "\u3010", "]", "]]", "\n", "[x] y.pdf#12]", "r [f].pdf#1]", "x.md#1]", "a", "`"]),
        max_size=14,
    ).map("".join)
)
def test_names_with_brackets_are_found_wherever_the_chunks_end(names: tuple[str, ...], answer: str) -> None:
    passages = [ContextPassage(id=name, text="", citation=name, number=n, tokens=1) for n, name in enumerate(names, 1)]

    def found(chunks: list[str]) -> list[Citation]:
        stream = CitationStream(passages)
        return [
            c for s in [*(s for chunk in chunks for s in stream.feed(chunk)), *stream.finish()] for c in s.citations
        ]

    assert found(list(answer)) == found([answer])
    if f"a[{names[0]}]" in answer and "`" not in answer:
        assert any(citation.label == names[0] for citation in found([answer]))


def test_a_line_of_combining_marks_is_compared_in_linear_time() -> None:
    with ends():
        assert skeleton("\uff03 Source " + "\u0301\u0323" * 100_000).startswith("# source ")


def test_the_answer_of_the_numbered_example_cites_both_sources() -> None:
    answer = (
        "Qdrant's latest release focuses on hybrid search throughput and faster filters [1][2].\n\n"
        "Sources\n- [1] https://qdrant.tech/blog/qdrant-1-9/\n- [2] https://qdrant.tech/changelog/"
    )
    report = check_citations(answer, CONTEXT[:2])
    assert [p.number for p in report.cited] == [1, 2]
    assert report.invented == ()
