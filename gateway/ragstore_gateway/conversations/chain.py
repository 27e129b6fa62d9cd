"""The chain of the audit ledger: each entry contains the hash of the entry before it.

An entry is stored as one line of canonical JSON, and its hash is the SHA-256 of that line. The head, which is stored
apart from the entries, has the number of entries and the hash of the last one.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final, Self

FIRST_HASH: Final = "0" * 64
"""The hash before the first entry."""

MAX_PROBLEMS: Final = 20
"""Maximum number of problems that a verification reports. One change may break all later entries."""

_HEAD: Final = re.compile(r"(\d{1,18}):([0-9a-f]{64})")


@dataclass(frozen=True, slots=True)
class Head:
    """The end of a chain. Its text form is `COUNT:HASH`.

    Attributes:
        count: number of entries.
        hash: hash of the last one.
    """

    count: int = 0
    hash: str = FIRST_HASH

    def __str__(self) -> str:
        return f"{self.count}:{self.hash}"

    @classmethod
    def parse(cls, text: str) -> Self:
        """Read the text form.

        Raises:
            ValueError: it has another form.
        """
        found = _HEAD.fullmatch(text)
        if found is None:
            raise ValueError("not COUNT:HASH")
        return cls(int(found[1]), found[2])


@dataclass(frozen=True, slots=True)
class ChainedEntry:
    """An entry as it is stored.

    Attributes:
        sequence: its number, from 1.
        body: its fields as canonical JSON; `sequence` and `previousHash` are among them.
        hash: the hash of the body.
    """

    sequence: int
    body: str
    hash: str


def canonical(fields: Mapping[str, Any]) -> str:
    """Fields as JSON of one form: sorted keys, no spaces, no escapes but the necessary ones."""
    return json.dumps(fields, sort_keys=True, separators=(",", ":"), ensure_ascii=False, allow_nan=False)


def hash_of(body: str) -> str:
    """The hash of an entry's body."""
    return hashlib.sha256(body.encode()).hexdigest()


def chained(head: Head, fields: Mapping[str, Any]) -> ChainedEntry:
    """The entry after the head of a chain.

    Args:
        fields: the entry's own fields.
    """
    sequence = head.count + 1
    body = canonical({**fields, "sequence": sequence, "previousHash": head.hash})
    return ChainedEntry(sequence, body, hash_of(body))


def exported(each: ChainedEntry | Head) -> str:
    """The line of an entry, or of the end of the ledger, in an exported file.

    Raises:
        ValueError: the entry is not JSON: it was changed.
    """
    if isinstance(each, Head):
        return canonical({"head": str(each)}) + "\n"
    try:
        fields = {**json.loads(each.body), "hash": each.hash}
    except (ValueError, TypeError, RecursionError):
        raise ValueError(f"Entry {each.sequence} is not JSON: verify shows the damage") from None
    return canonical(fields) + "\n"


@dataclass(frozen=True, slots=True)
class Problem:
    """Why a chain is not intact.

    Attributes:
        sequence: number of the entry.
        message: what is wrong, in one sentence without content.
    """

    sequence: int
    message: str


@dataclass(slots=True)
class ChainCheck:
    """Checks a chain, entry by entry.

    Attributes:
        expected: a head that was recorded elsewhere; None for none.
        head: the entries so far.
        problems: the problems so far, at most `MAX_PROBLEMS`.
    """

    expected: Head | None = None
    head: Head = Head()
    problems: list[Problem] = field(default_factory=list)
    _expected_found: str = ""

    @property
    def intact(self) -> bool:
        """Whether no problem was found."""
        return not self.problems

    def feed(self, entry: ChainedEntry, columns: Mapping[str, Any] | None = None) -> None:
        """Check the next entry.

        Args:
            columns: further columns of its row by the field that each repeats. A changed one would hide the entry from
                a filter.
        """
        next_sequence = self.head.count + 1
        if entry.sequence != next_sequence:
            self._add(entry.sequence, _gap(next_sequence, entry.sequence))
        elif hash_of(entry.body) != entry.hash:
            self._add(entry.sequence, "its hash is not that of its content: it was changed")
        self._check_fields(entry, columns or {})
        self.head = Head(entry.sequence, entry.hash)
        if self.expected is not None and entry.sequence == self.expected.count:
            self._expected_found = entry.hash

    def finish(self, head: Head | None) -> None:
        """Check the end of the chain.

        Args:
            head: the head that is stored apart from the entries; None if there is none.
        """
        if head is None:
            self._add(self.head.count, "the head of the ledger is missing")
        elif head.count > self.head.count:
            self._add(self.head.count, f"the head counts {head.count} entries: those after this one were removed")
        elif head.count < self.head.count:
            self._add(self.head.count, f"the head counts {head.count} entries: those after it were inserted")
        elif head.hash != self.head.hash:
            self._add(self.head.count, "the head has another hash: the last entries, or the head, were replaced")
        expected = self.expected
        if expected is None or expected == Head():
            return
        if expected.count > self.head.count:
            self._add(expected.count, "the ledger had this entry, and has it no longer: its end was removed")
        elif self._expected_found != expected.hash:
            self._add(expected.count, "the ledger had another entry here: it was rewritten up to this one or further")

    def _check_fields(self, entry: ChainedEntry, columns: Mapping[str, Any]) -> None:
        fields = _fields(entry.body)
        if fields is None:
            self._add(entry.sequence, "its content is not canonical JSON: it was changed")
            return
        if fields.get("sequence") != entry.sequence:
            self._add(entry.sequence, "its content has another number: it was moved")
        if entry.sequence == self.head.count + 1 and fields.get("previousHash") != self.head.hash:
            self._add(entry.sequence, "it does not follow the entry before it: one of the two was replaced or moved")
        for name, value in columns.items():
            if fields.get(name) != value:
                self._add(entry.sequence, f"its column for {name} differs from its content")

    def _add(self, sequence: int, message: str) -> None:
        if len(self.problems) < MAX_PROBLEMS:
            self.problems.append(Problem(sequence, message))


def _gap(expected: int, found: int) -> str:
    if found < expected:
        return f"entry {expected} was expected: this one is a repetition, or out of order"
    missing = f"entry {expected} is" if found == expected + 1 else f"entries {expected} to {found - 1} are"
    return f"{missing} missing before it"


def _fields(body: str) -> dict[str, Any] | None:
    """The fields of an entry; None if its body is not canonical JSON."""
    try:
        fields: object = json.loads(body)
    except (ValueError, RecursionError):
        return None
    return fields if isinstance(fields, dict) and canonical(fields) == body else None
