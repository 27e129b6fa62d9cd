"""The collections and documents of the services that the page's tests use."""

from __future__ import annotations

import random
from typing import Final

import httpx

LARGE: Final = "handbook"
"""The collection with many documents."""

DOCUMENTS: Final = 10_000
SECTIONS: Final = ("heating", "roof", "keys")


def fill_store(http: httpx.Client, documents: int = DOCUMENTS) -> None:
    """Create a collection with many documents, one with few, and one without any."""
    numbers = random.Random(29)
    for name in (LARGE, "notes", "notes-empty"):
        http.post("/collections", json={"name": name, "metadata": {"team": "house"}}).raise_for_status()
    for start in range(0, documents, 1000):
        batch = [
            {
                "id": f"handbook:{number:05}",
                "text": f"Passage {number}. The boiler is serviced once a year, before the heating season.",
                "embedding": [numbers.gauss(0, 1) for _ in range(16)],
                "metadata": {"page": number % 40, "section": SECTIONS[number % 3], "draft": number % 2 == 0},
            }
            for number in range(start, min(start + 1000, documents))
        ]
        http.post(f"/collections/{LARGE}/documents", json={"documents": batch}).raise_for_status()
    few = [{"id": f"note-{number}", "text": f"Note {number}", "embedding": [1, number]} for number in range(3)]
    http.post("/collections/notes/documents", json={"documents": few}).raise_for_status()
