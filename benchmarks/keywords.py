"""Cost of the keyword index: size, time of a question, time of a write, by the number of chunks.

`python -m benchmarks.keywords FOLDER` prints the table of docs/knowledge-bases.md; `--postgres-url` measures
PostgreSQL. The folder has judged sets (see `benchmarks/retrieval.py`). Chunks have the words of their texts, drawn with
their frequencies: 80 of each, as a chunk of 512 characters has.
"""

from __future__ import annotations

import argparse
import asyncio
import random
import statistics
import tempfile
import time
from collections import Counter
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Final
from uuid import uuid4

import sqlalchemy as sa
from sqlalchemy.engine import make_url

from benchmarks.retrieval import SETS, read_set
from ragstore_gateway.database.database import Database
from ragstore_gateway.ingestion.tables import CollectionRow
from ragstore_gateway.keywords.keyword_index import IndexedChunk, KeywordIndex, put_keywords
from ragstore_gateway.keywords.words import words

WORDS: Final = 80
DOCUMENT_CHUNKS: Final = 100
DEPTH: Final = 500
QUESTIONS: Final = 100


class Corpus:
    """Words with the frequencies of real texts, and real questions.

    Args:
        judged: the folder of the sets.
    """

    def __init__(self, judged: Path) -> None:
        counts: Counter[str] = Counter()
        self.questions: list[str] = []
        for documents, questions in SETS.values():
            if documents == questions and not documents.endswith("-de"):
                given = read_set(judged, documents)
                self.questions += [each.text for each in given.queries]
                for document in given.docs:
                    counts.update(words(document.text))
        self._words = list(counts)
        self._weights = list(counts.values())
        random.Random(1).shuffle(self.questions)  # noqa: S311 - a sample

    def chunks(self, count: int, seed: int) -> list[IndexedChunk]:
        """Chunks, always the same ones for a seed."""
        drawn = random.Random(seed).choices(self._words, self._weights, k=count * WORDS)  # noqa: S311 - a sample
        return [
            IndexedChunk(str(uuid4()), tuple(drawn[start : start + WORDS])) for start in range(0, len(drawn), WORDS)
        ]


async def add_collection(database: Database, id: str) -> None:
    """Add a collection."""
    async with database.session() as session:
        session.add(
            CollectionRow(
                id=id,
                base_id=id,
                base_version=1,
                state="active",
                fingerprint="",
                provider="local",
                embedding_parameters={},
                store_type="in-memory",
                store_parameters={},
                chunking={},
                dimension=2,
                created_on=datetime.now(UTC),
            )
        )


async def size_of(database: Database) -> int:
    """The size of the database in bytes."""
    statement = "SELECT pg_database_size(current_database())"
    if not database.is_postgresql:
        statement = "SELECT page_count * page_size FROM pragma_page_count(), pragma_page_size()"
    async with database.reading() as session:
        return int((await session.execute(sa.text(statement))).scalar_one())


async def ask(index: KeywordIndex, collection: str, questions: Sequence[str]) -> list[float]:
    """The times of questions in milliseconds."""
    times = []
    for question in questions:
        started = time.perf_counter()
        await index.search(collection, question, DEPTH)
        times.append(1000 * (time.perf_counter() - started))
    return times


async def measure(url: str, corpus: Corpus, sizes: Sequence[int]) -> None:
    """Print a row for each size."""
    database = Database(make_url(url))
    async with database.running():
        collection, stored = f"kb_{uuid4().hex[:8]}", 0
        await add_collection(database, collection)
        empty = await size_of(database)
        for size in sizes:
            seconds, last = 0.0, stored
            while stored < size:
                chunks = corpus.chunks(DOCUMENT_CHUNKS, stored)
                started = time.perf_counter()
                async with database.session() as session:
                    await put_keywords(session, collection, {str(uuid4()): chunks})
                seconds += time.perf_counter() - started
                stored += len(chunks)
            if database.is_postgresql:
                async with database.session() as session:
                    await session.execute(sa.text("ANALYZE"))
            index = KeywordIndex(database)
            await ask(index, collection, corpus.questions[:QUESTIONS])
            times = sorted(await ask(index, collection, corpus.questions[QUESTIONS : 2 * QUESTIONS]))
            share = (await size_of(database) - empty) / stored
            name = "PostgreSQL" if database.is_postgresql else "SQLite"
            print(
                f"| {name} | {size:,} | {share / 1024:.1f} KiB | {1000 * seconds / max(size - last, 1):.2f} ms | "
                f"{statistics.median(times):.1f} ms | {times[int(0.95 * len(times))]:.1f} ms |",
                flush=True,
            )


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("judged", type=Path, help="the folder of the sets")
    parser.add_argument("--postgres-url", default="")
    parser.add_argument("--sizes", type=int, nargs="+", default=[10_000, 100_000, 1_000_000])
    given = parser.parse_args()
    corpus = Corpus(given.judged)
    print("| database | chunks | size of a chunk | write of a chunk | question, median | p95 |")
    print("| --- " * 6 + "|")
    if given.postgres_url:
        url = given.postgres_url.replace("postgresql://", "postgresql+psycopg://")
        asyncio.run(measure(url, corpus, given.sizes))
        return
    with tempfile.TemporaryDirectory() as folder:
        asyncio.run(measure(f"sqlite+aiosqlite:///{folder}/gateway.db", corpus, given.sizes))


if __name__ == "__main__":
    main()
