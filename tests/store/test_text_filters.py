"""`where_document` through every store."""

from __future__ import annotations

from uuid import uuid4

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from ragstore.filters.grammar import InvalidFilter
from ragstore.model.filters.where_document import MAX_TEXT
from ragstore.store.protocol import Store
from tests.support.factories import add_documents, batch_of, of_text, upsert_documents

pytestmark = pytest.mark.process

TEXTS = (
    "100% of the rent_total",
    "100 of the rent total",
    "The TENANT said 'no', then \"yes\"",
    "the tenant\nsaid\tno",
    "Überweisung: 12,50 €",
    "überweisung",
    "e\u0301t\u00e9",
    "smile \U0001f600 emoji",
    "a\\b*c?[d]",
    "",
    "x",
    "before\x00after",
)

# No NUL: what stands behind one is not found; see `ragstore.model.filters.where_document`.
_letters = st.sampled_from(" aAbB%_*'\"\\\n.é\u0301Ü字\U0001f600")
_texts = st.text(_letters, max_size=12)


async def _selected(store: Store, collection: str, filtered: object) -> list[str]:
    return (await store.get(collection, of_text(filtered))).ids


@settings(max_examples=20, deadline=None, suppress_health_check=list(HealthCheck))
@given(
    texts=st.lists(_texts, min_size=1, max_size=20),
    needles=st.lists(st.text(_letters, min_size=1, max_size=4), min_size=5, max_size=15),
)
async def test_contains_means_pythons_in(store: Store, texts: list[str], needles: list[str]) -> None:
    name = f"t-{uuid4().hex}"
    await store.create_collection(name, {}, "l2")
    await upsert_documents(store, name, batch_of([{}] * len(texts), texts))
    for needle in needles:
        holding = [str(index) for index, text in enumerate(texts) if needle in text]
        others = [str(index) for index, text in enumerate(texts) if needle not in text]
        assert await _selected(store, name, {"$contains": needle}) == holding, needle
        assert await _selected(store, name, {"$not_contains": needle}) == others, needle
    await store.delete_collection(name)


@pytest.mark.parametrize(
    "needle",
    [
        "%",
        "_",
        "rent_total",
        "0%",
        "'no'",
        '"yes"',
        "TENANT",
        "tenant",
        "Ü",
        "ü",
        "€",
        "\u0301",
        "\U0001f600",
        "\n",
        "\\",
        "*",
        "x",
        "\x00",
        "before\x00after",
        "\x00a",
    ],
)
async def test_no_letter_is_special(store: Store, store_collection: str, needle: str) -> None:
    await add_documents(store, store_collection, batch_of([{}] * len(TEXTS), TEXTS))
    holding = [str(index) for index, text in enumerate(TEXTS) if needle in text]
    assert await _selected(store, store_collection, {"$contains": needle}) == holding


@pytest.mark.parametrize(
    ("expression", "selected"),
    [
        ("^the", ["3"]),
        ("(?i)^the", ["2", "3"]),
        (r"\d{2},\d{2}", ["4"]),
        ("rent.total", ["0", "1"]),
        (r"rent\stotal", ["1"]),
        ("tenant.said", []),
        (r"(?s)tenant.said", ["3"]),
        ("(tenant|emoji)", ["3", "7"]),
    ],
)
async def test_a_regular_expression_is_looked_for_anywhere(
    store: Store, store_collection: str, expression: str, selected: list[str]
) -> None:
    await add_documents(store, store_collection, batch_of([{}] * len(TEXTS), TEXTS))
    assert await _selected(store, store_collection, {"$regex": expression}) == selected
    rest = [str(index) for index in range(len(TEXTS)) if str(index) not in selected]
    assert await _selected(store, store_collection, {"$not_regex": expression}) == rest


@pytest.mark.parametrize("expression", ["(", "[a", "a{2,1}", "*", r"\p{Nope}", "(?=a)", r"(a)\1"])
async def test_what_is_no_regular_expression_is_refused(store: Store, store_collection: str, expression: str) -> None:
    await add_documents(store, store_collection, batch_of([{}]))
    with pytest.raises(InvalidFilter, match="Invalid 'where_document' filter: "):
        await _selected(store, store_collection, {"$regex": expression})


@pytest.mark.parametrize("expression", ["a{99999999}", r"\w{5000}", "(a{1000}){1000}"])
async def test_a_regular_expression_that_is_too_large_is_refused(
    store: Store, store_collection: str, expression: str
) -> None:
    await add_documents(store, store_collection, batch_of([{}]))
    with pytest.raises(InvalidFilter, match="a regular expression is too large"):
        await _selected(store, store_collection, {"$regex": expression})


async def test_several_operators_mean_all_of_them(store: Store, store_collection: str) -> None:
    await add_documents(store, store_collection, batch_of([{}] * 3, ["red apple", "red pear", "green apple"]))
    assert await _selected(store, store_collection, {"$contains": "red", "$not_contains": "pear"}) == ["0"]
    assert await _selected(store, store_collection, {"$or": [{"$contains": "pear"}, {"$contains": "green"}]}) == [
        "1",
        "2",
    ]
    assert await _selected(store, store_collection, {"$and": [{"$contains": "apple"}, {"$regex": "^g"}, {}]}) == ["2"]


async def test_an_operand_may_be_as_long_as_its_bound(store: Store, store_collection: str) -> None:
    await add_documents(store, store_collection, batch_of([{}] * 2, ["y" * MAX_TEXT, "y" * (MAX_TEXT - 1)]))
    assert await _selected(store, store_collection, {"$contains": "y" * MAX_TEXT}) == ["0"]
