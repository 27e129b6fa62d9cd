"""Quotas of distributed Chroma and of Chroma Cloud: known from the settings, or learned from Chroma's rejections."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final, Literal, TypeAlias, get_args

from ragstore.chroma.records import ChromaFilter, RecordBatch
from ragstore.errors import ChromaQuotaExceeded
from ragstore.model.large_bodies.packed_text import utf8

Quota: TypeAlias = Literal["write", "read", "ids", "predicates", "text_bytes", "id_bytes"]
"""`write`: records of one write or deletion. `read`: records of one get, and results of one query. `ids`: ids of one
get. `predicates`: comparisons of one filter. `text_bytes`, `id_bytes`: the size of a text and of an id."""

QUOTAS: Final[tuple[Quota, ...]] = get_args(Quota)

UNLIMITED: Final = 2**31
"""A quota that is not known. No request is as large."""

_REJECTION: Final = re.compile(r"Quota exceeded: '([^']*)' exceeded .*?: current usage of (\d+) exceeds limit of (\d+)")


@dataclass(slots=True)
class Quotas:
    """The quotas that are known.

    Attributes:
        write: see `Quota`, as for the others.
    """

    write: int = UNLIMITED
    read: int = UNLIMITED
    ids: int = UNLIMITED
    predicates: int = UNLIMITED
    text_bytes: int = UNLIMITED
    id_bytes: int = UNLIMITED

    @classmethod
    def of(cls, known: Mapping[str, int]) -> Quotas:
        """The quotas of a setting, whose keys are of `QUOTAS`."""
        return cls(**known)

    @property
    def ids_of_get(self) -> int:
        """Maximum number of ids of one get: each of them may be a record."""
        return min(self.ids, self.read)

    def check_filter(self, where: ChromaFilter, where_document: ChromaFilter) -> None:
        """Check a filter in Chroma's language.

        Raises:
            ChromaQuotaExceeded: it has too many comparisons.
        """
        if self.predicates < UNLIMITED:
            count = count_predicates(where) + count_predicates(where_document)
            if count > self.predicates:
                raise ChromaQuotaExceeded("comparisons in a filter", count, self.predicates, "$.where")

    def check_records(self, records: RecordBatch) -> None:
        """Check records before they are written.

        Raises:
            ChromaQuotaExceeded: there are too many of them, or an id or a text is too large.
        """
        if len(records.ids) > self.write:
            raise ChromaQuotaExceeded("documents in one write", len(records.ids), self.write, "$.documents")
        for limit, what, key, values in (
            (self.id_bytes, "bytes of an id", "id", records.ids),
            (self.text_bytes, "bytes of a text", "text", records.texts),
        ):
            if limit == UNLIMITED:
                continue
            for index, value in enumerate(values):
                # A character has at most four bytes.
                if len(value) * 4 > limit and (size := len(utf8(value))) > limit:
                    raise ChromaQuotaExceeded(what, size, limit, f"$.documents[{index}].{key}")


def is_of_records(error: ChromaQuotaExceeded) -> bool:
    """Whether a quota limits the number of records or ids, so that a request can be split."""
    return not any(word in error.what.lower() for word in ("predicate", "size", "bytes", "length", "dimension"))


def count_predicates(where: object) -> int:
    """The number of comparisons in a filter in Chroma's language."""
    if not isinstance(where, dict):
        return 0
    return sum(
        sum(map(count_predicates, clauses)) if key in ("$and", "$or") and isinstance(clauses, list) else 1
        for key, clauses in where.items()
    )


def quota_error(text: str) -> ChromaQuotaExceeded | None:
    """The error for Chroma's rejection of a request that exceeds a quota.

    Args:
        text: Chroma's message, such as "Quota exceeded: 'Limit value' exceeded quota limit for action 'Get': current
            usage of 1056 exceeds limit of 300".

    Returns:
        The error; None if it is another message.
    """
    found = _REJECTION.search(text)
    if found is None:
        return None
    return ChromaQuotaExceeded(f"for '{found[1]}'", int(found[2]), int(found[3]), "$")
