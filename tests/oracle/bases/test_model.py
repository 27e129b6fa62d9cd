"""The model of knowledge bases notices what must not be found, and accepts what may be."""

from __future__ import annotations

import pytest

from tests.oracle.bases.comparison import known_of
from tests.oracle.bases.model import Base, Configuration, Content, Found, Ingestion, State, differences
from tests.oracle.bases.plan import plan

ONE_LINE, TWO_LINES = Configuration(1, 256), Configuration(2, 256)
OLD, NEW = Content(("old 0", "old 1", "old 2")), Content(("new 0", "new 1"))


def base_with(*ingestions: tuple[Content, State]) -> Base:
    """A base with a document that has these ingestions."""
    base = Base(0, "id", "name", "first", ONE_LINE)
    base.document("a").ingestions += [Ingestion(content, "i", state) for content, state in ingestions]
    return base


def found(content: Content, configuration: Configuration = ONE_LINE, revision: str = "r") -> list[Found]:
    """All chunks of a content."""
    return [Found("a", revision, index, text) for index, text in enumerate(content.chunks(configuration))]


def wrong(base: Base, chunks: list[Found], *, is_complete: bool = True) -> list[str]:
    """The differences of a search during which nothing changes."""
    with base.searching() as allowed:
        pass
    return differences(allowed, chunks, is_complete=is_complete)


@pytest.mark.parametrize(
    ("ingestions", "visible"),
    [
        ([], {None}),
        ([(OLD, "open")], {None, OLD}),
        ([(OLD, "completed")], {OLD}),
        ([(OLD, "completed"), (NEW, "open")], {OLD, NEW}),
        ([(OLD, "completed"), (NEW, "ended")], {OLD}),
        ([(OLD, "open"), (NEW, "completed")], {NEW}),
        ([(OLD, "ended")], {None}),
    ],
)
def test_the_last_completed_content_and_later_open_ones_may_be_found(
    ingestions: list[tuple[Content, State]], visible: set[Content | None]
) -> None:
    assert base_with(*ingestions).document("a").visible == visible


@pytest.mark.parametrize(
    "chunks",
    [
        pytest.param(found(OLD)[:2], id="partly visible"),
        pytest.param([*found(OLD), *found(NEW)], id="two contents"),
        pytest.param(found(NEW), id="a content that was not sent"),
        pytest.param([], id="lost"),
        pytest.param([*found(OLD), found(OLD)[0]], id="a chunk twice"),
        pytest.param([*found(OLD)[:2], *found(OLD, revision="s")[2:]], id="two revisions"),
        pytest.param([*found(OLD), Found("b", "r", 0, "old 0")], id="a document of another base"),
        pytest.param([*found(OLD), Found("None", "None", -1, "Foreign.")], id="a foreign chunk"),
        pytest.param(found(OLD, TWO_LINES), id="a configuration that the base never had"),
    ],
)
def test_a_wrong_result_is_a_difference(chunks: list[Found]) -> None:
    base = base_with((OLD, "completed"))
    assert wrong(base, found(OLD)) == []
    assert len(wrong(base, chunks)) == 1


def test_a_page_of_some_chunks_is_none() -> None:
    base = base_with((OLD, "completed"))
    assert wrong(base, found(OLD)[1:2], is_complete=False) == []
    assert wrong(base, [], is_complete=False) == []
    assert len(wrong(base, found(NEW)[:1], is_complete=False)) == 1


def test_a_search_may_find_what_was_visible_at_any_moment_of_it() -> None:
    base = base_with((OLD, "completed"))
    document = base.document("a")
    with base.searching() as allowed:
        document.is_deleting = True
        base.changed("a", "deletion")
        document.ingestions.clear()
        document.is_deleting = False
        base.changed("a", "deleted")
        document.ingestions.append(Ingestion(NEW))
        base.changed("a", "sent")
    for chunks in (found(OLD), [], found(NEW)):
        assert differences(allowed, chunks, is_complete=True) == []
    assert len(wrong(base, found(OLD))) == 1


def test_one_configuration_explains_all_documents_of_a_search() -> None:
    base = base_with((OLD, "completed"))
    base.document("b").ingestions.append(Ingestion(NEW, "i", "completed"))
    base.configured(TWO_LINES)
    of_b = [Found("b", "r", index, text) for index, text in enumerate(NEW.chunks(TWO_LINES))]
    assert wrong(base, [*found(OLD, TWO_LINES), *of_b]) == []
    assert len(wrong(base, [*found(OLD, ONE_LINE), *of_b])) == 1


def test_a_prefix_of_a_plan_has_the_same_operations() -> None:
    whole = plan(7, 400)
    assert plan(7, 400, 150) == whole[:150]
    assert [each.kind for each in whole].count("kill") == 1


def test_searches_that_begin_alike_follow_their_own_changes() -> None:
    base = base_with((OLD, "completed"))
    with base.searching() as first:
        with base.searching():
            pass
        base.document("a").ingestions.append(Ingestion(NEW))
        base.changed("a", "sent")
    assert first.contents["a"] == {OLD, NEW}


def test_a_list_that_was_requested_before_an_ingestion_ended_may_have_its_document_without_a_revision() -> None:
    base = base_with((OLD, "open"))
    before = known_of(base)["a"]
    base.document("a").ingestions[0].state = "completed"

    assert not before.is_visible
    assert known_of(base)["a"].is_visible
