"""The effect of an import on the service."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import msgspec
import numpy as np
import pytest

from ragstore.transfer.counted import CountedCollection
from ragstore.transfer.documents import Document, compare
from ragstore.transfer.failures import NotVerified
from ragstore.transfer.format import Checksum
from ragstore.transfer.importing import Importer
from ragstore.transfer.service import Service
from ragstore_client import AsyncClient, Distance
from tests.support.servers import running, start_service
from tests.support.transfers import Store, document, exported, ragstore, read_export


def test_an_existing_collection_is_rejected_and_stays_unchanged(embedded: Store, filled: str, tmp_path: Path) -> None:
    exported(embedded, filled, tmp_path / "x.jsonl")
    embedded.put(filled, document(0, [9, 9, 9, 9]))
    changed = embedded.listed(filled)
    run = ragstore("import", tmp_path / "x.jsonl", "--url", embedded.url)
    assert run.exit_code == 1
    assert f"'{filled}' exists" in run.stderr
    assert embedded.listed(filled) == changed


def test_merging_writes_missing_and_different_documents_and_skips_the_others(
    embedded: Store, filled: str, tmp_path: Path
) -> None:
    exported(embedded, filled, tmp_path / "x.jsonl")
    before = embedded.listed(filled)
    embedded.put(filled, document(0, [9, 9, 9, 9]), {"id": "own", "text": "", "embedding": [1, 1, 1, 1]})
    embedded.http.delete(f"/collections/{filled}/documents", params={"ids": before[7]["id"]}).raise_for_status()
    run = ragstore("import", tmp_path / "x.jsonl", "--url", embedded.url, "--merge", "--verify")
    assert run.exit_code == 0
    assert "48 of them existed already, 2 read back and compared" in run.stderr
    after = {each["id"]: each for each in embedded.listed(filled)}
    assert after.pop("own")
    assert after == {each["id"]: each for each in before}


@pytest.mark.parametrize(("distance", "dimension"), [("cosine", 4), ("l2", 3)])
def test_a_collection_of_another_distance_or_dimension_is_rejected(
    embedded: Store, remote: Store, filled: str, tmp_path: Path, distance: str, dimension: int
) -> None:
    exported(embedded, filled, tmp_path / "x.jsonl")
    remote.fill(filled, 3, dimension, distance)
    run = ragstore("import", tmp_path / "x.jsonl", "--url", remote.url, "--merge")
    assert run.exit_code == 1
    assert ("distance cosine" if distance == "cosine" else "dimension 3") in run.stderr
    assert remote.count(filled) == 3


def test_another_name_can_be_given(embedded: Store, filled: str, tmp_path: Path) -> None:
    exported(embedded, filled, tmp_path / "x.jsonl")
    assert ragstore("import", tmp_path / "x.jsonl", "--url", embedded.url, "--into", f"{filled}-2").exit_code == 0
    assert embedded.listed(f"{filled}-2") == embedded.listed(filled)


def test_a_count_that_differs_is_reported(embedded: Store, name: str, tmp_path: Path) -> None:
    embedded.fill(name, 3, 4, "l2")
    exported(embedded, name, tmp_path / "x.jsonl")
    collection, documents = read_export(tmp_path / "x.jsonl")
    checksum = Checksum()
    twice = [checksum.header(collection), *(checksum.document(each) for each in [*documents, documents[0]])]
    (tmp_path / "twice.jsonl").write_bytes(b"".join([*twice, checksum.trailer()]))
    run = ragstore("import", tmp_path / "twice.jsonl", "--url", embedded.url, "--into", f"{name}-2", "--batch", "1")
    assert run.exit_code == 3
    assert "holds 3 documents and should hold 4" in run.stderr


async def test_verifying_detects_a_document_that_differs_from_what_was_sent(embedded: Store, name: str) -> None:
    class Spoiling(Service):
        """Another client writes between our write and the read after it."""

        async def upsert(self, name: str, documents: Sequence[Document]) -> None:
            spoiled = msgspec.structs.replace(documents[0], text="spoiled")
            await super().upsert(name, [spoiled, *documents[1:]])

    wanted = [Document(f"d{number}", "text", {}, b"\0\0\x80?") for number in range(3)]
    async with AsyncClient(embedded.url) as client:
        importer = Importer(Spoiling(client), CountedCollection(name, {}, 3, 1, "l2"), merge=False, verify=True)
        await importer.begin()
        with pytest.raises(NotVerified, match="'d0' is not stored as it was sent"):
            await importer.write(wanted)


def test_batches_are_split_to_fit_the_service_s_limits(embedded: Store, filled: str, tmp_path: Path) -> None:
    whole = exported(embedded, filled, tmp_path / "x.jsonl")
    limits = {"RAGSTORE_MAX_BATCH_SIZE": "20", "RAGSTORE_MAX_BODY_BYTES": "1500"}
    with running(start_service(tmp_path, limits)) as served, Store.of(served) as small:
        run = ragstore("import", tmp_path / "x.jsonl", "--url", small.url, "--verify")
        assert run.exit_code == 0, run.output
        assert exported(small, filled, tmp_path / "y.jsonl") == whole


@pytest.mark.parametrize(
    ("distance", "error", "result"),
    [("cosine", 9e-7, "rounded"), ("cosine", 2e-6, "different"), ("l2", 9e-7, "different"), ("ip", 0.0, "equal")],
)
def test_embeddings_of_cosine_collections_are_the_same_within_1e_6(
    distance: Distance, error: float, result: str
) -> None:
    sent = np.array([0.5, -3.0, 1e-30], dtype="<f4")
    stored = (sent.astype(np.float64) * (1 + error)).astype("<f4")
    documents = [Document("a", "text", {}, embedding.tobytes()) for embedding in (sent, stored)]
    assert compare(documents[0], documents[1], distance) == result


def test_a_document_that_the_service_rejects_is_named(embedded: Store, filled: str, tmp_path: Path) -> None:
    exported(embedded, filled, tmp_path / "x.jsonl")
    collection, documents = read_export(tmp_path / "x.jsonl")
    documents[3] = msgspec.structs.replace(documents[3], metadata={"list": [*range(5001)]})
    checksum = Checksum()
    lines = [checksum.header(collection), *(checksum.document(each) for each in documents)]
    (tmp_path / "large.jsonl").write_bytes(b"".join([*lines, checksum.trailer()]))
    run = ragstore("import", tmp_path / "large.jsonl", "--url", embedded.url, "--into", f"{filled}-2")
    assert run.exit_code == 1
    assert "at most 5000 metadata values" in run.stderr
    assert f"Document '{documents[3].id}':" in run.stderr
    assert "(400)" in run.stderr
