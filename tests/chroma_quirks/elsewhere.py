"""Quirks that have no test in this folder: matters of speed, of chance, or of a Chroma that cannot be run here."""

from __future__ import annotations

from typing import Final

from tests.chroma_quirks.quirk import Quirk

ELSEWHERE: Final = (
    Quirk(
        name="cost-of-a-call",
        summary=(
            "A write or query costs by the call far more than by the record or vector: 64 to 83 records/s one at a "
            "time, 990 in batches of 100."
        ),
        workaround="Writes and queries that wait at the same time leave as one.",
        works_around=("ragstore.store.batching",),
        covered_by="`make bench`; tests do not measure speed",
    ),
    Quirk(
        name="cost-of-a-filter",
        summary=(
            "A filtered query costs in proportion to the documents that match: 68 ms where 60 % of 18,000 do, 5 ms "
            "for the same query without the filter."
        ),
        workaround="Whichever is cheaper: Chroma's filter, or more neighbours without it, filtered by ragstore.",
        works_around=("ragstore.store.filter_planning",),
        covered_by="`make bench`; tests do not measure speed",
    ),
    Quirk(
        name="cost-of-the-import",
        summary="`import chromadb` takes 0.5 s and 50 MiB.",
        workaround="Only the process of embedded Chroma imports it.",
        works_around=("ragstore.chroma.embedded.process",),
        stores=("embedded",),
        covered_by="none; tests do not measure speed",
    ),
    Quirk(
        name="half-deleted-collections",
        summary="A call on a collection that is being deleted at that moment may fail with `Missing metadata segment`.",
        workaround="The text is translated to 404.",
        works_around=("ragstore.chroma.errors:translate_error",),
        covered_by="the tests of a collection that is deleted and made again under load",
    ),
    Quirk(
        name="memory-of-regexes",
        summary="A regular expression costs memory in proportion to its length.",
        workaround="An operand takes 1,000 characters.",
        works_around=("ragstore.model.filters.where_document:MAX_TEXT",),
        covered_by="none",
    ),
    Quirk(
        name="quotas-of-chroma-cloud",
        summary=(
            "As documented: 300 records a write or read, 300 results, 8 predicates, 16,384 bytes of text, 4,096 "
            "dimensions, 10 concurrent reads and writes a collection."
        ),
        workaround="Known or learned, and kept to; see [scaling](operating.md#quotas).",
        works_around=("ragstore.chroma.layers.quotas", "ragstore.chroma.quotas"),
        stores=(),
        covered_by="tests/store/test_quotas.py: by a proxy, as there is no Chroma Cloud to test against",
    ),
)
