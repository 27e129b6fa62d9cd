"""`WordTable`: the words of the chunks of one collection, with SQLite's FTS5 or a `tsvector` of PostgreSQL.

Both rank by BM25 with the parameters of FTS5: k1 = 1.2, b = 0.75, and an inverse document frequency of at least 1e-6.
A search is a few statements: SQLite's run in one call of its thread, PostgreSQL's in a session.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import log, sqrt
from typing import TYPE_CHECKING, Final, Protocol

import msgspec
import sqlalchemy as sa
from sqlalchemy.ext.asyncio import AsyncSession

if TYPE_CHECKING:
    import sqlite3

MAX_MATCHES: Final = 10_000
"""Maximum number of chunks that the words of a question have together. Its most frequent words are left out, if there
are others: they would decide nothing and take most of the time."""

MAX_OCCURRENCES: Final = 255
"""Maximum number of positions of a word that a `tsvector` keeps."""

BATCH: Final = 500
"""Maximum number of chunks in a statement."""

K1: Final = 1.2
B: Final = 0.75
MIN_FREQUENCY_WEIGHT: Final = 1e-6


@dataclass(frozen=True, slots=True)
class IndexSize:
    """The size of an index.

    Attributes:
        chunks: number of chunks.
        words: number of words of all chunks.
    """

    chunks: int
    words: int


@dataclass(frozen=True, slots=True)
class Ranked:
    """The best chunks for a question.

    Attributes:
        scores: their BM25 scores by the chunk's id, the highest first.
        deviation: standard deviation of the scores of all chunks; chunks without a word of the question have 0.
    """

    scores: dict[str, float]
    deviation: float


NOTHING: Final = Ranked({}, 0.0)

_frequencies: Final = msgspec.json.Decoder(dict[str, int])
_best: Final = msgspec.json.Decoder(list[tuple[str, float, int]])
"""The id, the score and the number of each chunk."""


class WordTable(Protocol):
    """The words of one index."""

    async def create(self, session: AsyncSession) -> None:
        """Create the table."""

    async def drop(self, session: AsyncSession) -> None:
        """Remove the table."""

    async def add(self, session: AsyncSession, chunks: Sequence[tuple[int, Sequence[str]]]) -> None:
        """Add chunks: their numbers and words."""

    async def remove(self, session: AsyncSession, numbers: Sequence[int]) -> None:
        """Remove chunks."""


class Fts5Table:
    """A virtual table of SQLite. See `WordTable`.

    Args:
        id: the id of the index.
    """

    def __init__(self, id: int) -> None:
        self._id = id
        self._name = f"keyword_words_{id}"

    async def create(self, session: AsyncSession) -> None:
        """Create the tables."""
        # The texts are words already. The tokenizer must neither split nor change them.
        tokenizer = "unicode61 remove_diacritics 0"
        await session.execute(sa.text(f"CREATE VIRTUAL TABLE {self._name} USING fts5(words, tokenize = '{tokenizer}')"))
        await session.execute(sa.text(f"CREATE VIRTUAL TABLE {self._name}_terms USING fts5vocab({self._name}, row)"))

    async def drop(self, session: AsyncSession) -> None:
        """Remove the tables."""
        await session.execute(sa.text(f"DROP TABLE {self._name}_terms"))
        await session.execute(sa.text(f"DROP TABLE {self._name}"))

    async def add(self, session: AsyncSession, chunks: Sequence[tuple[int, Sequence[str]]]) -> None:
        """Add chunks."""
        insert = sa.text(f"INSERT INTO {self._name} (rowid, words) VALUES (:number, :words)")  # noqa: S608 - a number
        rows = [{"number": number, "words": " ".join(words)} for number, words in chunks]
        await session.execute(insert, rows)

    async def remove(self, session: AsyncSession, numbers: Sequence[int]) -> None:
        """Remove chunks."""
        delete = sa.text(f"DELETE FROM {self._name} WHERE rowid = :number")  # noqa: S608 - a number
        await session.execute(delete, [{"number": number} for number in numbers])

    def frequencies(self, connection: sqlite3.Connection, words: Sequence[str]) -> dict[str, int]:
        """How many chunks have each word. A word that none has is absent."""
        # The virtual table finds one term at a time. CROSS JOIN keeps the order of the loops.
        query = (
            f"SELECT json_group_object(term, doc) FROM json_each(?) AS given CROSS JOIN {self._name}_terms "  # noqa: S608 - a number
            "WHERE term = given.value"
        )
        (found,) = connection.execute(query, (msgspec.json.encode(words).decode(),)).fetchone()
        return _frequencies.decode(found)

    def ranked(
        self, connection: sqlite3.Connection, frequencies: Mapping[str, int], size: IndexSize, limit: int
    ) -> Ranked:
        """Rank the chunks that have at least one of the words."""
        # In one row: SQLite's driver returns the interpreter lock for each, and the event loop may keep it for 5 ms.
        query = (
            f"WITH matches AS MATERIALIZED (SELECT rowid, -bm25({self._name}) AS score "  # noqa: S608 - a number
            f"FROM {self._name} WHERE {self._name} MATCH :words), "
            "found AS (SELECT rowid AS best, score FROM matches ORDER BY score DESC, rowid LIMIT :limit) "
            "SELECT (SELECT json_group_array(json_array(chunk_id, score, best)) FROM found "
            "JOIN keyword_chunk ON index_id = :index AND keyword_chunk.number = found.best), "
            "sum(score), sum(score * score) FROM matches"
        )
        arguments = {"words": " OR ".join(f'"{word}"' for word in frequencies), "index": self._id, "limit": limit}
        found, total, squares = connection.execute(query, arguments).fetchone()
        best = sorted(_best.decode(found), key=lambda each: (-each[1], each[2]))
        return _ranked([(chunk_id, score) for chunk_id, score, _ in best], total, squares, size)


class TsvectorTable:
    """A table of PostgreSQL. See `WordTable`.

    PostgreSQL has no BM25. How often a word occurs is computed from `ts_rank`, which is the sum of 1/i² over the
    occurrences, divided by its limit: the rest to the limit is 1 / (occurrences + 0.5), but for 1 %.

    Args:
        id: the id of the index.
    """

    def __init__(self, id: int) -> None:
        self._id = id
        self._name = f"keyword_words_{id}"

    async def create(self, session: AsyncSession) -> None:
        """Create the table."""
        columns = "number bigint PRIMARY KEY, length integer NOT NULL, words tsvector NOT NULL"
        await session.execute(sa.text(f"CREATE TABLE {self._name} ({columns})"))
        # The list of pending entries would be searched for each word: a question took 27 ms instead of 7.
        await session.execute(sa.text(f"CREATE INDEX ON {self._name} USING gin (words) WITH (fastupdate = off)"))

    async def drop(self, session: AsyncSession) -> None:
        """Remove the table."""
        await session.execute(sa.text(f"DROP TABLE {self._name}"))

    async def add(self, session: AsyncSession, chunks: Sequence[tuple[int, Sequence[str]]]) -> None:
        """Add chunks."""
        insert = sa.text(
            f"INSERT INTO {self._name} VALUES (:number, :length, CAST(:words AS tsvector))"  # noqa: S608 - a number
        )
        rows = [{"number": number, "length": len(words), "words": _tsvector(words)} for number, words in chunks]
        await session.execute(insert, rows)

    async def remove(self, session: AsyncSession, numbers: Sequence[int]) -> None:
        """Remove chunks."""
        delete = sa.text(f"DELETE FROM {self._name} WHERE number = ANY(:numbers)")  # noqa: S608 - a number
        await session.execute(delete, {"numbers": list(numbers)})

    async def frequencies(self, session: AsyncSession, words: Sequence[str]) -> dict[str, int]:
        """How many chunks have each word; a number above `MAX_MATCHES` is one more than it. See `Fts5Table`."""
        # The words are unknown to the planner, which would read the whole table for each.
        await session.execute(sa.text("SET LOCAL enable_seqscan = off"))
        query = sa.text(
            "SELECT word, found.count FROM unnest(CAST(:words AS text[])) AS word, "  # noqa: S608 - a number
            f"LATERAL (SELECT count(*) FROM (SELECT 1 FROM {self._name} WHERE words @@ CAST(word AS tsquery) "
            f"LIMIT {MAX_MATCHES + 1}) AS counted) AS found"
        )
        rows = await session.execute(query, {"words": list(words)})
        return {word: count for word, count in rows if count}

    async def ranked(
        self, session: AsyncSession, frequencies: Mapping[str, int], size: IndexSize, limit: int
    ) -> Ranked:
        """Rank the chunks that have at least one of the words."""
        query = sa.text(
            "WITH given AS (SELECT word, weight FROM unnest(CAST(:words AS text[]), CAST(:weights AS float8[])) "  # noqa: S608 - a number
            "AS given(word, weight)), "
            "occurring AS (SELECT number, length, weight, "
            "round(1 / greatest(1.6449340668482264 - 1.6449340668482264 * "
            "ts_rank('{1,1,1,1}', words, CAST(word AS tsquery))::float8, 0.003) - 0.5) AS times "
            f"FROM {self._name} JOIN given ON words @@ CAST(word AS tsquery)), "
            "matches AS (SELECT number, sum(weight * times * :k / (times + :k1 * (:rest + :b * length / :mean))) "
            "AS score FROM occurring GROUP BY number), "
            "sums AS (SELECT sum(score) AS total, sum(score * score) AS squares FROM matches) "
            "SELECT chunk_id, score, total, squares FROM "
            "(SELECT number AS best, score FROM matches ORDER BY score DESC, number LIMIT :limit) AS found "
            "JOIN keyword_chunk ON index_id = :index AND keyword_chunk.number = found.best, sums "
            "ORDER BY score DESC, found.best"
        )
        arguments = {
            "words": list(frequencies),
            "weights": [_frequency_weight(count, size.chunks) for count in frequencies.values()],
            "k": K1 + 1,
            "k1": K1,
            "rest": 1 - B,
            "b": B,
            "mean": max(size.words / max(size.chunks, 1), 1.0),
            "index": self._id,
            "limit": limit,
        }
        rows = list(await session.execute(query, arguments))
        total, squares = (float(rows[0][2]), float(rows[0][3])) if rows else (0.0, 0.0)
        return _ranked([(str(row[0]), float(row[1])) for row in rows], total, squares, size)


def _frequency_weight(count: int, chunks: int) -> float:
    weight = log((chunks - count + 0.5) / (count + 0.5)) if count < chunks else 0.0
    return max(weight, MIN_FREQUENCY_WEIGHT)


def _tsvector(words: Sequence[str]) -> str:
    """A `tsvector` as text. PostgreSQL's parser of texts would split words and drop some."""
    counts = Counter(words)
    return " ".join(
        f"{word}:{','.join(map(str, range(1, min(count, MAX_OCCURRENCES) + 1)))}" for word, count in counts.items()
    )


def _ranked(best: Sequence[tuple[str, float]], total: float, squares: float, size: IndexSize) -> Ranked:
    if not best:
        return NOTHING
    chunks = max(size.chunks, 1)
    mean = total / chunks
    variance = squares / chunks - mean * mean
    return Ranked(dict(best), sqrt(max(variance, 0.0)))
