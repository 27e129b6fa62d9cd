"""Collections of the tests of the map: sentences of the handbook with embeddings of a model, and clusters."""

from __future__ import annotations

import re
from typing import Any, Final

import httpx
import numpy as np

from tests.page.tab import Tab
from tests.support.pages import ROOT

SENTENCES: Final = "sentences"
CLUSTERS: Final = "clusters"

TOPICS: Final = 20
PER_TOPIC: Final = 30
DIMENSION: Final = 48

ARRANGED: Final = "Near points are similar"
EMBEDDED: Final = 32
"""Texts of one call."""


def add_sentences(http: httpx.Client) -> None:
    """Create a collection of the sentences of the example handbook, embedded by the gateway."""
    documents: list[dict[str, Any]] = []
    sections = (ROOT / "examples/handbook/handbook.md").read_text().split("\n## ")[1:]
    for number, section in enumerate(sections):
        heading, _, body = section.partition("\n")
        for place, sentence in enumerate(re.split(r"(?<=[.!?])\s+", body.strip())):
            metadata = {"section": heading, "number": number, "part": "first half" if number < 15 else "second half"}
            documents.append({"id": f"{number + 1}.{place + 1}", "text": sentence, "metadata": metadata})
    for start in range(0, len(documents), EMBEDDED):
        some = documents[start : start + EMBEDDED]
        request = {"inputs": [each["text"] for each in some], "normalize": True}
        embedded = http.post("/embed", json=request).raise_for_status().json()
        for document, vector in zip(some, embedded["vectors"], strict=True):
            document["embedding"] = vector
    model = http.get("/health").json()["model"]
    created = {"name": SENTENCES, "metadata": {"embedding_model": model}}
    http.post("/collections", json=created).raise_for_status()
    http.post(f"/collections/{SENTENCES}/documents", json={"documents": documents}).raise_for_status()


def topics() -> list[int]:
    """The topic of each document of the clusters."""
    return [topic for _ in range(PER_TOPIC) for topic in range(TOPICS)]


def add_clusters(http: httpx.Client) -> None:
    """Create a collection of documents in clusters, and one of a single document."""
    numbers = np.random.default_rng(29)
    centres = numbers.normal(size=(TOPICS, DIMENSION))
    documents = [
        {
            "id": f"d{index}",
            "text": f"A text about topic {topic}",
            "embedding": (centres[topic] + numbers.normal(scale=0.8, size=DIMENSION)).tolist(),
            "metadata": {"topic": topic, "kind": f"kind {topic % 3}", "rank": index},
        }
        for index, topic in enumerate(topics())
    ]
    http.post("/collections", json={"name": CLUSTERS}).raise_for_status()
    http.post(f"/collections/{CLUSTERS}/documents", json={"documents": documents}).raise_for_status()
    alone = {"id": "alone", "text": "The only document", "embedding": [1, 0]}
    http.post("/collections", json={"name": "one"}).raise_for_status()
    http.post("/collections/one/documents", json={"documents": [alone]}).raise_for_status()


def arranged(tab: Tab) -> Tab:
    """Wait until the map of a tab is refined."""
    tab.page.get_by_role("status").get_by_text(ARRANGED).wait_for(timeout=60_000)
    return tab


def picture(tab: Tab) -> str:
    """The pixels of the map."""
    return str(tab.page.locator("canvas").evaluate("canvas => canvas.toDataURL()"))


def listed(tab: Tab) -> int:
    """The number of documents in the list."""
    return int(tab.page.locator("#map-documents").get_attribute("aria-rowcount") or 0) - 1


PLACES: Final = """
canvas => {
  const { width, height } = canvas;
  const { data } = canvas.getContext("2d").getImageData(0, 0, width, height);
  const found = [];
  for (let index = 3; index < data.length; index += 4) {
    const at = (index - 3) / 4;
    if (data[index] === 255) found.push([at % width, Math.floor(at / width)]);
  }
  return found;
}
"""


def places(tab: Tab) -> list[tuple[float, float]]:
    """Places of the window on which a point is drawn."""
    box = tab.page.locator("canvas").bounding_box()
    return [(box["x"] + x + 0.5, box["y"] + y + 0.5) for x, y in tab.page.locator("canvas").evaluate(PLACES)]


def draw_around(tab: Tab, corners: list[tuple[float, float]]) -> None:
    """Draw a line around an area of the window."""
    mouse = tab.page.mouse
    mouse.move(*corners[0])
    mouse.down()
    for corner in corners[1:]:
        mouse.move(*corner, steps=4)
    mouse.up()
