"""Foreign chunks in the collection of a base, written by a key of the store that names the prefix `kb_`."""

from __future__ import annotations

import random
from typing import Any, Final
from uuid import UUID

from tests.oracle.bases.gateway_process import Gateway
from tests.oracle.bases.model import Base, Content

COUNTS: Final = (5, 40, 200)
"""Numbers of foreign chunks."""


async def write_foreign_chunks(gateway: Gateway, base: Base, target: Content, choices: random.Random) -> int:
    """Write chunks with the vector of the first line of a document, without the gateway's metadata or with false ones.

    Args:
        target: the content of the document.
        choices: chooses their number and metadata.

    Returns:
        The number of written chunks; 0 if the base has no collection, or another one by then.
    """
    active = [row for row in gateway.state.collections(base.id) if row.state == "active" and row.dimension]
    if not active:
        return 0
    embedded = await gateway.call("reader", "POST", "/embed", json={"inputs": [target.lines[0]], "kind": "document"})
    vector = embedded.json()["vectors"][0][: active[0].dimension]
    current = [row.current_revision for row in gateway.state.documents()]
    # None claims to be a visible document: its id with its current revision.
    metadata = choices.choice(
        [
            {"source": "foreign"},
            {"document_name": "document-0", "chunk_index": 0},
            {"document_id": "foreign", "revision": choices.choice(current or ["none"]), "document_name": "document-0"},
            {"document_id": "foreign", "revision": str(UUID(int=choices.getrandbits(128)))},
        ]
    )
    count = choices.choice(COUNTS)
    documents: list[dict[str, Any]] = [
        {"id": f"foreign-{choices.getrandbits(64):x}", "text": "Foreign.", "embedding": vector, "metadata": metadata}
        for _ in range(count)
    ]
    path = f"/collections/{active[0].id}/documents"
    response = await gateway.call("foreign", "PUT", path, store=True, json={"documents": documents})
    if response.status_code == 404:  # removed by a re-indexing
        return 0
    assert response.status_code in (200, 201), response.text
    return count
