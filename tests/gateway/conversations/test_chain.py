"""The chain of the audit ledger: which changes of its entries a check notices."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest

from ragstore_gateway.conversations.chain import (
    MAX_PROBLEMS,
    ChainCheck,
    ChainedEntry,
    Head,
    canonical,
    chained,
    hash_of,
)


def chain(count: int = 5, first: int = 0) -> list[ChainedEntry]:
    entries: list[ChainedEntry] = []
    head = Head()
    for number in range(first, first + count):
        entries.append(chained(head, {"id": f"e{number}", "score": 0.1 + number, "name": "Käse \u2028"}))
        head = Head(entries[-1].sequence, entries[-1].hash)
    return entries


def head_of(entries: list[ChainedEntry]) -> Head:
    return Head(entries[-1].sequence, entries[-1].hash)


def problems(entries: list[ChainedEntry], head: Head | None, expected: Head | None = None) -> list[tuple[int, str]]:
    check = ChainCheck(expected)
    for entry in entries:
        check.feed(entry)
    check.finish(head)
    return [(each.sequence, each.message) for each in check.problems]


def rewritten(entry: ChainedEntry, **fields: object) -> ChainedEntry:
    body = canonical({**json.loads(entry.body), **fields})
    return ChainedEntry(entry.sequence, body, hash_of(body))


def test_a_chain_that_nobody_changed_is_intact() -> None:
    entries = chain()
    assert problems(entries, head_of(entries)) == []
    assert problems([], Head()) == []


def test_a_changed_entry_is_noticed() -> None:
    entries = chain()
    changed = [*entries[:2], replace(entries[2], body=entries[2].body.replace("e2", "e9")), *entries[3:]]
    assert problems(changed, head_of(entries)) == [(3, "its hash is not that of its content: it was changed")]


def test_a_changed_entry_with_a_new_hash_is_noticed_at_the_next_one() -> None:
    entries = chain()
    changed = [*entries[:2], rewritten(entries[2], id="e9"), *entries[3:]]
    assert [sequence for sequence, _ in problems(changed, head_of(entries))] == [4]


def test_a_changed_last_entry_with_a_new_hash_is_noticed_by_the_head() -> None:
    entries = chain()
    changed = [*entries[:-1], rewritten(entries[-1], id="e9")]
    assert "the head has another hash" in problems(changed, head_of(entries))[0][1]


@pytest.mark.parametrize(("index", "message"), [(0, "entry 1 is missing"), (2, "entry 3 is missing")])
def test_a_removed_entry_is_noticed(index: int, message: str) -> None:
    entries = chain()
    found = problems([*entries[:index], *entries[index + 1 :]], head_of(entries))
    assert message in found[0][1]


def test_several_removed_entries_are_named() -> None:
    entries = chain(6)
    assert "entries 2 to 4 are missing" in problems([entries[0], *entries[4:]], head_of(entries))[0][1]


def test_a_removed_end_is_noticed_by_the_head() -> None:
    entries = chain()
    assert "those after this one were removed" in problems(entries[:3], head_of(entries))[0][1]


def test_a_removed_end_together_with_its_head_is_noticed_by_an_earlier_head_only() -> None:
    entries = chain()
    assert problems(entries[:3], head_of(entries[:3])) == []
    found = problems(entries[:3], head_of(entries[:3]), expected=head_of(entries))
    assert found == [(5, "the ledger had this entry, and has it no longer: its end was removed")]


def test_an_inserted_entry_is_noticed() -> None:
    entries = chain()
    extra = chained(head_of(entries[:2]), {"id": "extra"})
    assert problems([*entries[:2], extra, *entries[2:]], head_of(entries))
    assert (
        "those after it were inserted"
        in problems([*entries, chained(head_of(entries), {"id": "extra"})], head_of(entries))[0][1]
    )


def test_moved_entries_are_noticed() -> None:
    entries = chain()
    swapped = [entries[0], entries[2], entries[1], *entries[3:]]
    assert problems(swapped, head_of(entries))
    renumbered = [
        entries[0],
        replace(entries[2], sequence=2),
        replace(entries[1], sequence=3),
        *entries[3:],
    ]
    assert "its content has another number" in problems(renumbered, head_of(entries))[0][1]


def test_a_repeated_entry_is_noticed() -> None:
    entries = chain()
    assert problems([*entries[:2], entries[1], *entries[2:]], head_of(entries))


def test_a_ledger_rewritten_as_a_whole_is_noticed_by_an_earlier_head_only() -> None:
    entries = chain()
    forged = chain(first=100)
    assert problems(forged, head_of(forged)) == []
    found = problems(forged, head_of(forged), expected=head_of(entries[:3]))
    assert found == [(3, "the ledger had another entry here: it was rewritten up to this one or further")]


def test_an_earlier_head_of_an_intact_ledger_is_confirmed() -> None:
    entries = chain()
    for length in range(1, 6):
        assert problems(entries, head_of(entries), expected=head_of(entries[:length])) == []
    assert problems(entries, head_of(entries), expected=Head()) == []


def test_a_missing_head_is_noticed() -> None:
    assert problems(chain(), None) == [(5, "the head of the ledger is missing")]


@pytest.mark.parametrize("body", ["", "{", "[]", "null", '{"sequence": 1}', '{"b":1,"a":2}'])
def test_a_body_that_is_not_canonical_json_is_noticed(body: str) -> None:
    entries = chain(2)
    assert problems([replace(entries[0], body=body), entries[1]], head_of(entries))


def test_a_column_that_differs_from_the_content_is_noticed() -> None:
    entry = chain(1)[0]
    check = ChainCheck()
    check.feed(entry, {"id": "other"})
    assert [each.message for each in check.problems] == ["its column for id differs from its content"]


def test_the_number_of_reported_problems_is_bounded() -> None:
    entries = [replace(entry, hash="0" * 64) for entry in chain(100)]
    assert len(problems(entries, head_of(entries))) == MAX_PROBLEMS


@pytest.mark.parametrize("text", ["", "1", "1:", "x:" + "0" * 64, "1:" + "g" * 64, "-1:" + "0" * 64, "1:" + "0" * 65])
def test_a_head_of_another_form_is_rejected(text: str) -> None:
    with pytest.raises(ValueError, match="COUNT:HASH"):
        Head.parse(text)


def test_the_text_of_a_head_can_be_read_again() -> None:
    head = head_of(chain())
    assert Head.parse(str(head)) == head
