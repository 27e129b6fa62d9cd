"""The index of a copied or imported collection has the parameters of its source's index, or of the command."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import pytest

from tests.support.servers import Served
from tests.support.transfers import Store, exported, ragstore, read_export

HNSW = {"ef_construction": 200, "max_neighbors": 32, "ef_search": 150}


def parameters_of(store: Store, name: str) -> object:
    """The parameters of the index of a collection."""
    return store.http.get(f"/collections/{name}").raise_for_status().json().get("hnsw")


@pytest.fixture
def tuned(embedded: Store, name: str) -> str:
    """A collection of three documents in the embedded store, with parameters of its index."""
    embedded.http.post("/collections", json={"name": name, "hnsw": HNSW}).raise_for_status()
    embedded.put(name, *({"id": str(number), "text": "t", "embedding": [1.0, number]} for number in range(3)))
    return name


def test_a_copy_has_the_parameters_of_the_index_of_its_source(embedded: Store, remote: Store, tuned: str) -> None:
    run = ragstore("copy", tuned, "--from", embedded.url, "--to", remote.url)
    assert run.exit_code == 0, run.output
    assert parameters_of(remote, tuned) == HNSW


def test_an_import_has_the_parameters_of_the_index_of_the_export(
    embedded: Store, remote: Store, tuned: str, tmp_path: Path
) -> None:
    before = exported(embedded, tuned, tmp_path / "before.jsonl")
    run = ragstore("import", tmp_path / "before.jsonl", "--url", remote.url)
    assert run.exit_code == 0, run.output
    assert parameters_of(remote, tuned) == HNSW
    header = exported(remote, tuned, tmp_path / "after.jsonl").splitlines()[0]
    assert header == before.splitlines()[0]


def test_an_export_of_a_collection_with_chromas_defaults_has_no_parameters(
    embedded: Store, filled: str, tmp_path: Path
) -> None:
    assert b"hnsw" not in exported(embedded, filled, tmp_path / "x.jsonl").splitlines()[0]
    assert read_export(tmp_path / "x.jsonl")[0].hnsw is None


def test_options_of_a_copy_replace_single_parameters(embedded: Store, remote: Store, tuned: str) -> None:
    options = ("--max-neighbors", "64", "--ef-search", "400")
    run = ragstore("copy", tuned, "--from", embedded.url, "--to", remote.url, "--into", f"{tuned}-2", *options)
    assert run.exit_code == 0, run.output
    assert parameters_of(remote, f"{tuned}-2") == {"ef_construction": 200, "max_neighbors": 64, "ef_search": 400}


def test_options_of_an_import_replace_parameters(embedded: Store, remote: Store, filled: str, tmp_path: Path) -> None:
    exported(embedded, filled, tmp_path / "x.jsonl")
    run = ragstore("import", tmp_path / "x.jsonl", "--url", remote.url, "--ef-construction", "400")
    assert run.exit_code == 0, run.output
    assert parameters_of(remote, filled) == {"ef_construction": 400}


def test_options_of_an_import_apply_to_each_file_of_a_folder(
    embedded: Store, remote: Store, filled: str, tmp_path: Path
) -> None:
    exported(embedded, filled, tmp_path / "x.jsonl")
    run = ragstore("import", tmp_path, "--url", remote.url, "--max-neighbors", "48")
    assert run.exit_code == 0, run.output
    assert parameters_of(remote, filled) == {"max_neighbors": 48}


def test_parameters_beyond_their_bounds_are_rejected_before_anything_is_written(
    embedded: Store, remote: Store, tuned: str
) -> None:
    run = ragstore("copy", tuned, "--from", embedded.url, "--to", remote.url, "--max-neighbors", "257")
    assert run.exit_code == 2
    assert remote.http.get(f"/collections/{tuned}").status_code == 404


def lost(chroma: Served, name: str) -> int:
    """The number of documents that an index has lost, as `ragstore check` prints it."""
    environ = {"RAGSTORE_CHROMA_URL": chroma.url, "RAGSTORE_CHROMA_DATABASE": "transfer_tests"}
    run = ragstore("check", "--index", name, **environ)
    assert run.exit_code == 0, run.output
    found = re.search(r"the index lost ([0-9]+) of 500 sampled documents", run.stdout)
    assert found, run.stdout
    return int(found[1])


def test_a_copy_within_a_service_has_a_new_index_that_loses_fewer_documents(
    remote: Store, chroma: Served, name: str
) -> None:
    """Over a Chroma server whose folder cannot be reached, this is the rebuild."""
    remote.create(name, "l2")
    for seed in range(6):  # documents that are replaced again and again
        generator = np.random.default_rng(seed)
        # More numbers than a small collection has, which is compared exactly.
        rows = generator.normal(size=(500, 600)) / 24 * generator.lognormal(0, 0.1, (500, 1))
        embeddings = rows.astype(np.float32).tolist()
        remote.put(name, *({"id": str(row), "text": "t", "embedding": embeddings[row]} for row in range(500)))
    options = ("--from", remote.url, "--to", remote.url, "--into", f"{name}-2", "--max-neighbors", "48")
    assert ragstore("copy", name, *options).exit_code == 0
    assert lost(chroma, f"{name}-2") < lost(chroma, name)
