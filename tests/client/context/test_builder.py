"""The builder: its steps in order, its reasons, and what it reports."""

from __future__ import annotations

import asyncio
import json

import pytest

from ragstore_client import InvalidConfiguration
from ragstore_client.context import (
    AsyncContextBuilder,
    ChatContext,
    ContextBuilder,
    ContextSettings,
    Passage,
    Scope,
    session_scopes,
)
from tests.client.context.sources import Behaviour, ScriptedSource, passage
from tests.client.context.virtual_clock import run_virtually

QUESTION = "How long is the warranty?"


def build(source: ScriptedSource, question: str = QUESTION, **options: object) -> ChatContext:
    settings = options.pop("settings", ContextSettings())
    builder = AsyncContextBuilder(source, settings=settings, scopes=options.pop("scopes", None))  # type: ignore[arg-type]
    return run_virtually(builder.build(question, **options))  # type: ignore[arg-type]


def source_of(*passages: Passage) -> ScriptedSource:
    return ScriptedSource(Behaviour(passages=passages))


def test_a_context_has_the_passages_best_first_with_citations_and_numbers() -> None:
    context = build(source_of(passage(1, similarity=0.4), passage(2, similarity=0.8)))
    assert (context.used, context.reason, context.cached) == (True, None, False)
    assert [(found.id, found.number) for found in context.passages] == [("p2", 1), ("p1", 2)]
    assert context.citations == ["manual.pdf#2", "manual.pdf#1"]
    assert 0 < context.tokens <= 50_000


def test_the_text_has_the_context_and_the_question() -> None:
    text = build(source_of(passage(3, text="Two years."))).text()
    assert '[Context]\n- From manual.pdf#3: "Two years."\n[User] How long is the warranty?' in text


def test_the_messages_keep_the_history() -> None:
    history = [{"role": "user", "content": "Hello"}, {"role": "assistant", "content": "Hello!"}]
    messages = build(source_of(passage(3))).messages(history)
    assert [message["role"] for message in messages] == ["system", "user", "assistant", "user"]
    assert messages[1:3] == history


def test_without_passages_the_messages_are_the_history_and_the_question() -> None:
    context = build(source_of())
    assert (context.used, context.reason) == (False, "no_match")
    assert context.messages() == [{"role": "user", "content": QUESTION}]


def test_a_passage_below_the_threshold_is_dropped_and_one_without_a_score_is_kept() -> None:
    context = build(source_of(passage(1, similarity=0.19), passage(2, similarity=0.2), passage(3, similarity=None)))
    assert [found.id for found in context.passages] == ["p2", "p3"]


def test_duplicates_are_dropped() -> None:
    context = build(source_of(passage(1, text="The same text."), passage(2, text="The same text.", similarity=0.5)))
    assert [found.id for found in context.passages] == ["p1"]


def test_the_topic_is_searched_for_and_the_question_is_answered() -> None:
    source = source_of(passage(1))
    context = build(source, "And that?", topic="  warranty of  pumps ")
    assert source.searches[0].query == context.query == "warranty of pumps"
    assert context.question == "And that?"
    assert context.messages()[-1]["content"].endswith("[User] And that?")  # type: ignore[attr-defined]


def test_a_blank_topic_is_no_topic() -> None:
    source = source_of(passage(1))
    build(source, topic=" \n")
    assert source.searches[0].query == QUESTION


@pytest.mark.parametrize("question", ["", "   ", "\n"])
def test_an_empty_question_is_not_searched_for(question: str) -> None:
    source = source_of(passage(1))
    assert build(source, question).reason == "short_question"
    assert not source.searches


@pytest.mark.parametrize(
    ("question", "similarity", "reason"),
    [
        ("Too short", 0.9, None),
        ("Too short", 0.1, "short_question"),
        ("Too short", None, "short_question"),
        (" Too short  ", 0.1, "short_question"),
        ("Ten letter", 0.1, "no_match"),
        ("Ten letter", None, None),
    ],
)
def test_a_short_question_needs_a_passage_above_the_threshold(
    question: str, similarity: float | None, reason: str | None
) -> None:
    assert build(source_of(passage(1, similarity=similarity)), question).reason == reason


def test_short_questions_can_be_skipped() -> None:
    source = source_of(passage(1))
    assert build(source, "Warranty", settings=ContextSettings(short_questions="skip")).reason == "short_question"
    assert not source.searches


def test_a_disabled_builder_does_not_search() -> None:
    source = source_of(passage(1))
    assert build(source, settings=ContextSettings(enabled=False)).reason == "disabled"
    assert not source.searches


@pytest.mark.parametrize("scopes", [[], [Scope(where={"session_id": "{session_id}"})]])
def test_without_a_scope_that_applies_there_are_no_sources(scopes: list[Scope]) -> None:
    source = source_of(passage(1))
    assert build(source, scopes=scopes).reason == "no_sources"
    assert not source.searches


def test_session_and_global_scope_of_one_collection_are_one_call() -> None:
    source = source_of(passage(1))
    build(source, scopes=session_scopes(["docs"]), session_id="s-17")
    assert [(made.collections, made.where) for made in source.searches] == [
        (("docs",), {"session_id": {"$in": ["s-17", "GLOBAL"]}})
    ]


def test_scopes_of_two_collections_are_searched_concurrently() -> None:
    source = ScriptedSource(
        a=Behaviour(delay=4, passages=[passage(1)]), b=Behaviour(delay=4, passages=[passage(2, similarity=0.5)])
    )
    context = build(source, scopes=[Scope(collections=["a"]), Scope(collections=["b"], top_k=3)])
    assert [found.id for found in context.passages] == ["p1", "p2"]
    assert sorted(made.top_k for made in source.searches) == [3, 40]


def test_results_that_arrived_in_time_are_used_and_the_rest_is_reported() -> None:
    source = ScriptedSource(
        a=Behaviour(delay=1, passages=[passage(1)]), b=Behaviour("hang"), c=Behaviour("problem", delay=1)
    )
    context = build(source, scopes=[Scope(collections=[name]) for name in "abc"])
    assert (context.used, context.reason) == (True, None)
    assert [(failure.step, failure.reason, failure.error) for failure in context.failures] == [
        ("b", "timeout", ""),
        ("c", "failed", "Unavailable (503)"),
    ]


@pytest.mark.parametrize(
    ("outcomes", "reason"),
    [
        (["hang"], "timeout"),
        (["timeout"], "timeout"),
        (["problem"], "failed"),
        (["bug"], "failed"),
        (["garbage"], "failed"),
        (["cancels itself"], "failed"),
        (["hang", "problem"], "timeout"),
        (["nothing", "hang"], "timeout"),
        (["nothing", "problem"], "failed"),
        (["nothing", "nothing"], "no_match"),
    ],
)
def test_a_context_without_passages_says_why(outcomes: list[str], reason: str) -> None:
    source = ScriptedSource(**{f"c{number}": Behaviour(outcome) for number, outcome in enumerate(outcomes)})  # type: ignore[arg-type]
    context = build(source, scopes=[Scope(collections=[name]) for name in source.by_collection])
    assert (context.used, context.reason) == (False, reason)


def test_the_source_receives_the_deadline_and_the_headers() -> None:
    source = source_of(passage(1))
    build(source, headers={"x-request-id": "r-1"}, settings=ContextSettings(timeout_seconds=2))
    assert source.searches[0].deadline == 1002
    assert source.searches[0].headers == {"x-request-id": "r-1"}


def test_settings_of_a_call_win() -> None:
    async def run() -> tuple[ChatContext, ChatContext]:
        builder = AsyncContextBuilder(source_of(*(passage(number) for number in range(5))))
        some = await builder.build(QUESTION, settings=builder.settings.override(top_k_max=2))
        return some, await builder.build(QUESTION)

    some, all_ = run_virtually(run())
    assert (len(some.passages), len(all_.passages)) == (2, 5)


@pytest.mark.parametrize("argument", [{"question": 7}, {"session_id": {"$ne": ""}}, {"topic": ["a"]}])
def test_a_wrong_argument_is_an_error(argument: dict[str, object]) -> None:
    with pytest.raises(TypeError, match=f"{next(iter(argument))} must be a string"):
        build(source_of(), **{"question": QUESTION, **argument})  # type: ignore[arg-type]


def test_collections_need_a_source_that_has_some() -> None:
    class OneCollection:
        async def search(self, query: str, top_k: int, **_: object) -> list[Passage]:
            return []

    with pytest.raises(InvalidConfiguration, match="scoped"):
        AsyncContextBuilder(OneCollection(), scopes=[Scope(collections=["a"])])


def test_a_counter_that_fails_does_not_fail_the_chat() -> None:
    def broken(text: str) -> int:
        raise ValueError(text)

    builder = AsyncContextBuilder(source_of(passage(1)), count_tokens=broken)
    context = run_virtually(builder.build(QUESTION))
    assert (context.used, context.reason) == (False, "failed")
    assert [(failure.step, failure.error) for failure in context.failures] == [("select", "ValueError")]


def test_mmr_orders_by_the_similarities_of_the_source() -> None:
    near = Passage(id="near", text="Text near.", similarity=0.9, embedding=[1, 0])
    twin = Passage(id="twin", text="Text twin.", similarity=0.89, embedding=[1, 0.01])
    other = Passage(id="other", text="Text other.", similarity=0.5, embedding=[0, 1])
    source = source_of(other, twin, near)
    context = build(source, settings=ContextSettings(diversity=0.7))
    assert [found.id for found in context.passages] == ["near", "other", "twin"]
    assert source.searches[0].with_embeddings
    assert source.searches[0].top_k == 120


def test_mmr_without_embeddings_falls_back_to_similarity_and_is_reported() -> None:
    context = build(source_of(passage(1, similarity=0.4), passage(2)), settings=ContextSettings(diversity=0.7))
    assert [found.id for found in context.passages] == ["p2", "p1"]
    assert [failure.step for failure in context.failures] == ["order"]


def test_the_debug_line_is_one_line_without_texts() -> None:
    secret = "The secret text of a passage,\nwhich has two lines. " * 4
    found = passage(
        3, text=secret, text_preview=secret[:200], summary=secret[:120], page_number=7, title="A\u2028b\ud800"
    )
    line = build(source_of(found), settings=ContextSettings(debug=True)).debug_line()
    assert line.startswith(": RAG_DEBUG {")
    assert line.endswith("}\n\n")
    assert line[:-2].isascii()
    assert line[:-2].isprintable()
    assert "secret" not in line
    meta = json.loads(line.removeprefix(": RAG_DEBUG "))
    assert meta.pop("ms") >= 0
    assert meta.pop("tokens") > 0
    metadata = {"file_name": "manual.pdf", "chunk_index": 3, "page_number": 7, "title": "A\u2028b\ud800"}
    assert meta == {
        "used": True,
        "citations": ["manual.pdf#3"],
        "chunks": [{"id": "p3", "metadata": metadata, "score": 0.9}],
        "reason": None,
        "cached": False,
    }


def test_there_is_no_debug_line_unless_it_is_switched_on() -> None:
    assert build(source_of(passage(1))).debug_line() == ""


def test_the_synchronous_builder_builds_the_same_context() -> None:
    source = source_of(passage(1), passage(2, similarity=0.5))
    with_threads = ContextBuilder(source).build(QUESTION, session_id="s")
    assert with_threads.passages == build(source, session_id="s").passages


def test_the_synchronous_builder_keeps_its_deadline() -> None:
    builder = ContextBuilder(ScriptedSource(Behaviour("hang")), settings=ContextSettings(timeout_seconds=0.05))
    assert builder.build(QUESTION).reason == "timeout"


def test_cancelling_a_build_cancels_its_searches() -> None:
    async def run() -> int:
        source = ScriptedSource(Behaviour("hang"))
        task = asyncio.create_task(AsyncContextBuilder(source).build(QUESTION))
        await asyncio.sleep(1)
        assert source.in_flight == 1
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        return source.in_flight

    assert run_virtually(run()) == 0
