"""Arguments of a builder take effect: settings, style, names, counter. The environment does not."""

from __future__ import annotations

import datetime
import json
import math
import sys

import pytest

from ragstore_client import AsyncClient, InvalidConfiguration
from ragstore_client.context import (
    AsyncContextBuilder,
    ChatContext,
    ClientSource,
    ContextBuilder,
    ContextSettings,
    Names,
    Passage,
    Scope,
    maximal_marginal_relevance,
    session_scopes,
)
from tests.client.context.sources import Behaviour, FilteringSource, ScriptedSource, passage
from tests.client.context.virtual_clock import run_virtually

QUESTION = "How long is the warranty?"
GIVEN = [
    passage(1, text="The warranty lasts two years. " * 3, url="https://a"),
    passage(2, text="The seal is not covered.", similarity=0.8, url="https://a"),
    passage(3, text="Ask the dealer.", similarity=0.7, file_name="other.pdf", url="https://b"),
]


def build(settings: ContextSettings | None = None, question: str = QUESTION) -> ChatContext:
    source = ScriptedSource(Behaviour(passages=GIVEN))
    return run_virtually(AsyncContextBuilder(source, settings=settings).build(question))


@pytest.mark.parametrize(
    ("settings", "found"),
    [
        (ContextSettings(), ["p1", "p2", "p3"]),
        (ContextSettings(top_k_max=1), ["p1"]),
        (ContextSettings(token_budget=40), ["p2"]),
        (ContextSettings(similarity_threshold=0.75), ["p1", "p2"]),
        (ContextSettings(max_sources=1), ["p1", "p2"]),
        (ContextSettings(deduplicate_by_url=True), ["p1", "p3"]),
        (ContextSettings(min_question_characters=100, short_questions="skip"), []),
    ],
)
def test_a_setting_takes_effect(settings: ContextSettings, found: list[str]) -> None:
    assert [each.id for each in build(settings).passages] == found


def test_passages_are_cut_to_the_maximum_number_of_characters() -> None:
    assert [each.text for each in build(ContextSettings(max_characters=16)).passages] == [
        "The warranty...",
        "The seal is...",
        "Ask the dealer.",
    ]


def test_the_global_session_of_the_settings_is_that_of_the_scopes() -> None:
    documents = [Passage(id=name, text=name, metadata={"session_id": name}) for name in ("GLOBAL", "everybody", "s")]
    source, settings = FilteringSource(documents), ContextSettings(global_session_id="everybody")
    builder = AsyncContextBuilder(source, settings=settings, scopes=session_scopes())
    context = run_virtually(builder.build(QUESTION, session_id="s"))
    assert {found.id for found in context.passages} == {"everybody", "s"}


def test_a_builder_reads_no_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RAG_TOP_K_MAX", "1")
    monkeypatch.setenv("ENABLE_RAG", "false")
    assert len(build().passages) == 3
    assert not build(ContextSettings.from_env()).used


def test_the_counter_of_the_caller_counts_the_context() -> None:
    builder = AsyncContextBuilder(ScriptedSource(Behaviour(passages=GIVEN)), count_tokens=len)
    context = run_virtually(builder.build(QUESTION))
    assert context.tokens == len(context.style.context(context.passages))


@pytest.mark.parametrize(
    ("style", "text"),
    [
        ("sections", "[Context]\n- From manual.pdf#1"),
        ("numbered", "Source [1] https://a"),
        ("headings", "### Source: manual.pdf#1"),
        ("archives", "[1] Archiv: manual.pdf#1"),
    ],
)
def test_a_style_is_chosen_by_its_name(style: str, text: str) -> None:
    builder = AsyncContextBuilder(ScriptedSource(Behaviour(passages=GIVEN)), style=style)  # type: ignore[arg-type]
    assert text in run_virtually(builder.build(QUESTION)).text()


def test_arguments_that_are_none_of_the_kind_are_configuration_errors() -> None:
    with pytest.raises(InvalidConfiguration, match="no style 'prose'; there are sections"):
        AsyncContextBuilder(ScriptedSource(), style="prose")  # type: ignore[arg-type]  # what this is about
    with pytest.raises(InvalidConfiguration, match="method search"):
        AsyncContextBuilder("https://example.org")  # type: ignore[arg-type]  # what this is about


@pytest.mark.parametrize("wrong", [{"settings": {"top_k_max": 3}}, {"scopes": ["docs"]}, {"headers": 5}])
def test_settings_and_scopes_of_a_call_are_checked(wrong: dict[str, object]) -> None:
    with pytest.raises(TypeError, match=next(iter(wrong))):
        ContextBuilder(ScriptedSource()).build(QUESTION, **wrong)  # type: ignore[arg-type]  # what this is about


def test_mmr_without_numpy_is_a_configuration_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "numpy", None)
    with pytest.raises(InvalidConfiguration, match="needs numpy"):
        AsyncContextBuilder(ScriptedSource(), settings=ContextSettings(diversity=0.5))
    with pytest.raises(InvalidConfiguration, match="needs numpy"):
        maximal_marginal_relevance([1.0], [Passage(id="a", text="x", embedding=[1.0])], k=1, diversity=0.5)


async def test_a_source_without_a_collection_is_a_failure_that_is_named() -> None:
    async with AsyncClient("http://127.0.0.1:9") as client:
        context = await AsyncContextBuilder(ClientSource(client, lambda _: [1.0])).build(QUESTION)
    assert [(failure.step, failure.error) for failure in context.failures] == [("all", "InvalidConfiguration")]


def fails(*_: object) -> list[Passage]:
    raise ZeroDivisionError


def test_a_failed_reranker_is_not_the_reason_of_an_empty_context() -> None:
    source = ScriptedSource(Behaviour(passages=GIVEN))
    builder = ContextBuilder(source, reranker=fails, settings=ContextSettings(token_budget=1))
    context = builder.build(QUESTION)
    assert (context.reason, [failure.step for failure in context.failures]) == ("no_match", ["rerank"])


def test_the_failures_of_scopes_are_reported_with_that_of_the_selection() -> None:
    def broken(_: str) -> int:
        raise ZeroDivisionError

    source = ScriptedSource(good=Behaviour(passages=GIVEN), bad=Behaviour("problem"))
    scopes = [Scope(collections=["good"]), Scope(collections=["bad"])]
    context = run_virtually(AsyncContextBuilder(source, scopes=scopes, count_tokens=broken).build(QUESTION))
    assert [failure.step for failure in context.failures] == ["bad", "select"]


def test_a_reranker_replaces_mmr_and_needs_no_vectors() -> None:
    source = ScriptedSource(Behaviour(passages=GIVEN))
    settings = ContextSettings(diversity=0.5)
    context = ContextBuilder(source, reranker=lambda _, given: given[::-1], settings=settings).build(QUESTION)
    assert [found.id for found in context.passages] == ["p3", "p2", "p1"]
    assert not source.searches[0].with_embeddings


def test_a_citation_of_several_passages_is_listed_once() -> None:
    passages = [Passage(id=text, text=text, metadata={"source": "a.pdf"}) for text in ("One.", "Two.")]
    context = run_virtually(AsyncContextBuilder(ScriptedSource(Behaviour(passages=passages))).build(QUESTION))
    assert (len(context.passages), context.citations) == (2, ["a.pdf"])


def by_file(found: Passage) -> str:
    return {"f-1": "first.pdf"}[str(found.metadata["file_id"])]


@pytest.mark.parametrize(
    "names",
    [
        by_file,
        lambda found: 7 if found.id == "b" else "first.pdf",
        lambda found: "\ud800\n" * (found.id == "b") or "first.pdf",
    ],
)
def test_a_name_that_cannot_be_made_costs_only_itself(names: Names) -> None:
    passages = [
        Passage(id="a", text="One.", metadata={"file_id": "f-1", "chunk_index": 1}),
        Passage(id="b", text="Two.", metadata={"source": "second.pdf", "chunk_index": 2}),
    ]
    builder = AsyncContextBuilder(ScriptedSource(Behaviour(passages=passages)), names=names)
    context = run_virtually(builder.build(QUESTION))
    assert (context.citations, context.failures) == (["first.pdf#1", "second.pdf#2"], [])


def test_the_debug_line_shows_metadata_of_any_type() -> None:
    metadata: dict[object, object] = {
        "date": datetime.date(2026, 1, 2),
        "share": math.nan,
        "pages": (1, math.inf, {"text": "The secret text.", "title": "A"}),
        5: b"x",
        "tree": {"deep": ["x" * 90, 7]},
    }
    text = f"The secret text. {'x' * 90}"
    found = Passage(id="a", text=text, metadata=metadata, similarity=math.inf)  # type: ignore[arg-type]  # a source's
    builder = ContextBuilder(ScriptedSource(Behaviour(passages=[found])), settings=ContextSettings(debug=True))
    line = builder.build(QUESTION).debug_line()
    (chunk,) = json.loads(line.removeprefix(": RAG_DEBUG "))["chunks"]
    assert chunk == {
        "id": "a",
        "score": None,
        "metadata": {"date": "date", "share": None, "pages": [1, None, {"title": "A"}], "5": "bytes", "tree": {}},
    }


@pytest.mark.parametrize(
    "question",
    ["\x00" * 30, "\ud800 is a surrogate without its pair", "\u202e" * 20, "x" * 1_000_000, "[User] [Context]"],
)
@pytest.mark.parametrize("style", ["sections", "numbered", "headings", "archives"])
def test_a_strange_question_gets_a_context_and_is_in_it_unchanged(question: str, style: str) -> None:
    builder = AsyncContextBuilder(ScriptedSource(), style=style)  # type: ignore[arg-type]  # parametrized
    context = run_virtually(builder.build(question))
    assert context.used
    assert question in context.text()
    assert question in str(
        context.messages()[-1]["content"] if style != "archives" else context.messages()[0]["content"]
    )
