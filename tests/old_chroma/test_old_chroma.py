"""Collections of Chroma 0.5 and 0.6, in folders that those versions wrote (`scripts/old_chroma_data.py`)."""

from __future__ import annotations

import tarfile
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any, Final

import numpy as np
import pytest

from tests.support.servers import running, start_chroma, start_service
from tests.support.transfers import Store, exported, ragstore

FOLDERS: Final = Path(__file__).parent
VERSIONS: Final = ("0.5.3", "0.6.3")
DISTANCE_OF: Final = {
    "old-saved": "cosine",
    "old-cosine": "cosine",
    "old-ip": "ip",
    "old-l2": "l2",
    "old-plain": "l2",
    "old-tuned": "cosine",
}
QUERY: Final = [1.0, 2.0, 3.0]


def unpack(version: str, folder: Path) -> None:
    """Unpack the data of an old Chroma into a folder."""
    with tarfile.open(FOLDERS / f"chroma-{version}.tar.gz") as archive:
        archive.extractall(folder, filter="data")


@pytest.fixture(scope="module", params=[f"{version}-{kind}" for version in VERSIONS for kind in ("embedded", "remote")])
def old(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Store]:
    """A service over the data of an old Chroma: embedded, and over a Chroma server of today."""
    version, _, kind = request.param.partition("-")
    folder = tmp_path_factory.mktemp("old")
    with ExitStack() as stack:
        environ = {}
        if kind == "remote":
            unpack(version, folder / "chroma")
            environ["RAGSTORE_CHROMA_URL"] = stack.enter_context(running(start_chroma(folder))).url
        else:
            unpack(version, folder / "data")
        served = stack.enter_context(running(start_service(folder, environ)))
        yield stack.enter_context(Store.of(served))


def expected(distance: str) -> tuple[list[float], list[float]]:
    """The distances of all documents to the query, nearest first, and their scores; computed here."""
    rows = np.array([[1 + number % 5, 1 + number % 7, number + 1] for number in range(24)], dtype=np.float64)
    query = np.array(QUERY)
    if distance == "cosine":
        distances = 1 - rows @ query / (np.linalg.norm(rows, axis=1) * np.linalg.norm(query))
    elif distance == "ip":
        distances = 1 - rows @ query
    else:
        distances = ((rows - query) ** 2).sum(axis=1)
    distances.sort()
    scores = 1 / (1 + distances) if distance == "l2" else 1 - distances
    return distances.tolist(), scores.tolist()


def query(store: Store, name: str, **options: object) -> list[dict[str, Any]]:
    """The results of a query."""
    body = {"query_embedding": QUERY, "top_k": 5, **options}
    response = store.http.post(f"/collections/{name}/query", json=body).raise_for_status()
    results: list[dict[str, Any]] = response.json()["results"]
    return results


@pytest.mark.parametrize(("name", "distance"), DISTANCE_OF.items())
def test_an_old_collection_has_the_distance_that_chroma_computes(old: Store, name: str, distance: str) -> None:
    listed = {each["name"]: each for each in old.http.get("/collections").json()["collections"]}
    assert listed[name]["distance"] == distance
    assert old.http.get(f"/collections/{name}").json()["distance"] == distance


@pytest.mark.parametrize(("name", "distance"), DISTANCE_OF.items())
def test_scores_of_an_old_collection_are_those_of_its_distance(old: Store, name: str, distance: str) -> None:
    distances, scores = expected(distance)
    results = query(old, name)
    assert [each["distance"] for each in results] == pytest.approx(distances[:5], abs=1e-5)
    assert [each["score"] for each in results] == pytest.approx(scores[:5], abs=1e-5)


def test_a_minimum_score_selects_by_the_distance_of_an_old_collection(old: Store) -> None:
    scores = expected("cosine")[1]
    limit = (scores[2] + scores[3]) / 2
    assert len(query(old, "old-cosine", min_score=limit)) == 3


def test_old_and_new_collections_score_the_same_document_alike(old: Store, name: str) -> None:
    old.create(name, "cosine")
    old.put(name, *old.listed("old-cosine"))
    body = {"query_embedding": QUERY, "top_k": 2, "collections": ["old-cosine", name]}
    results = old.http.post("/query", json=body).raise_for_status().json()["results"]
    assert results[0]["score"] == pytest.approx(results[1]["score"], abs=1e-6)


def test_the_metadata_of_an_old_collection_can_be_merged(old: Store) -> None:
    changed = old.http.put("/collections/old-saved/metadata", params={"merge": True}, json={"metadata": {"a": 1}})
    assert changed.status_code == 200, changed.text
    found = old.http.get("/collections/old-saved").json()
    assert found["metadata"]["a"] == 1
    assert found["distance"] == "cosine"


def test_an_old_collection_keeps_its_distance_when_its_metadata_is_replaced(old: Store) -> None:
    changed = old.http.put("/collections/old-ip/metadata", json={"metadata": {"title": "New"}})
    assert changed.status_code == 200, changed.text
    found = old.http.get("/collections/old-ip").json()
    assert found["metadata"] == {"title": "New", "hnsw:space": "ip"}
    assert found["distance"] == "ip"


def test_the_distance_of_an_old_collection_cannot_change(old: Store) -> None:
    body = {"metadata": {"hnsw:space": "l2"}}
    changed = old.http.put("/collections/old-tuned/metadata", params={"merge": True}, json=body)
    assert changed.status_code == 400
    assert "it is 'cosine'" in changed.json()["detail"]


@pytest.mark.parametrize("name", ["old-saved", "old-cosine", "old-ip", "old-tuned"])
def test_the_export_of_an_old_collection_can_be_imported(old: Store, name: str, tmp_path: Path) -> None:
    file, new_name = tmp_path / "export.jsonl", f"imported-{name}"
    exported(old, name, file)
    run = ragstore("import", file, "--url", old.url, "--into", new_name, "--verify")
    assert run.exit_code == 0, run.output
    assert old.http.get(f"/collections/{new_name}").json()["distance"] == DISTANCE_OF[name]
    assert query(old, new_name)[0]["score"] == pytest.approx(query(old, name)[0]["score"], abs=1e-6)


def test_an_old_collection_can_be_copied(old: Store) -> None:
    run = ragstore("copy", "old-cosine", "--from", old.url, "--to", old.url, "--into", "copied", "--verify")
    assert run.exit_code == 0, run.output
    assert old.http.get("/collections/copied").json()["distance"] == "cosine"


def test_documents_can_be_written_into_an_old_collection(old: Store) -> None:
    before = old.count("old-l2")
    old.put("old-l2", {"id": "new", "text": "New", "embedding": QUERY})
    assert old.count("old-l2") == before + 1
    assert query(old, "old-l2")[0]["id"] == "new"


def test_embedded_chroma_knows_the_distance_of_a_collection_whose_metadata_lost_it(old: Store) -> None:
    found = old.http.get("/collections/old-renamed").json()
    assert found["metadata"] == {"title": "Manual"}
    is_embedded = old.http.get("/health").json()["details"]["store"] == "embedded"
    # A Chroma server reports nothing that shows it; docs/operating.md describes the remedy.
    assert found["distance"] == ("cosine" if is_embedded else "l2")


def test_an_update_of_the_metadata_restores_a_distance_that_it_lost(old: Store) -> None:
    if old.http.get("/health").json()["details"]["store"] != "embedded":
        return
    body = {"metadata": {"owner": "team"}}
    old.http.put("/collections/old-renamed/metadata", params={"merge": True}, json=body).raise_for_status()
    found = old.http.get("/collections/old-renamed").json()
    assert found["metadata"] == {"title": "Manual", "owner": "team", "hnsw:space": "cosine"}
