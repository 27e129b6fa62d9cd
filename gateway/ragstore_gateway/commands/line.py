"""`Line`: the outcome of a document, as commands that ingest print it."""

from __future__ import annotations

import msgspec


class Line(msgspec.Struct, omit_defaults=True):
    """One line of `--json`.

    Attributes:
        name: the document: a file, a URL, or its name in the knowledge base.
        ok: whether it was ingested.
        chunks: number of its chunks.
        removed: number of chunks of an earlier version that were removed.
        unchanged: whether it was ingested before, so that nothing was embedded.
        error: why it was not ingested.
    """

    name: str
    ok: bool
    chunks: int = 0
    removed: int = 0
    unchanged: bool = False
    error: str = ""
