"""An imported collection equals the exported one, over either store."""

from __future__ import annotations

import json
import subprocess
import tracemalloc
from pathlib import Path

import pytest
import zstandard

from ragstore.transfer.counted import CountedCollection
from ragstore.transfer.documents import Document, compare
from ragstore.transfer.format import Checksum
from tests.support.transfers import Store, exported, ragstore, read_export, start


@pytest.mark.parametrize("distance", ["l2", "ip"])
def test_a_collection_imported_into_another_store_is_exported_byte_for_byte_the_same(
    embedded: Store, remote: Store, name: str, tmp_path: Path, distance: str
) -> None:
    embedded.fill(name, 2000, 32, distance)
    before = exported(embedded, name, tmp_path / "before.jsonl.zst")
    run = ragstore("import", tmp_path / "before.jsonl.zst", "--url", remote.url, "--verify")
    assert run.exit_code == 0, run.output
    assert exported(remote, name, tmp_path / "after.jsonl.zst") == before


def test_a_cosine_collection_imported_into_another_store_is_the_same_within_1e_6(
    embedded: Store, remote: Store, name: str, tmp_path: Path
) -> None:
    embedded.fill(name, 2000, 32, "cosine")
    exported(embedded, name, tmp_path / "before.jsonl")
    run = ragstore("import", tmp_path / "before.jsonl", "--url", remote.url, "--verify")
    assert run.exit_code == 0, run.output
    assert "equal but for Chroma's rounding (embeddings within 1e-06)" in run.stderr
    exported(remote, name, tmp_path / "after.jsonl")
    collection, before = read_export(tmp_path / "before.jsonl")
    same_collection, after = read_export(tmp_path / "after.jsonl")
    assert same_collection == collection
    assert [document.id for document in after] == [document.id for document in before]
    assert {compare(*documents, "cosine") for documents in zip(before, after, strict=True)} <= {"equal", "rounded"}


def test_every_kind_of_value_survives(embedded: Store, remote: Store, name: str, tmp_path: Path) -> None:
    metadata = {
        "beyond a float": 2**53 + 1,
        "least": -(2**63),
        "most": 2**63 - 1,
        "float": 1e300,
        "whole float": 1.0,
        "small": -0.015625,
        "true": True,
        "texts": ["a", "ü", ""],
        "whole numbers": [1, 2**53 + 1],
        "floats": [1.0, 0.5],
        "truths": [True, False],
        "Schlüssel 漢": "line\nbreak \u2028 \x00",
    }
    documents = [
        {"id": "a/b:c d%20?#", "text": "", "embedding": [1.5, -0.0], "metadata": metadata},
        {"id": '{"count":', "text": "\r\n\u2028\x85 𝄞", "embedding": [3.4e38, 1e-45], "metadata": {}},
    ]
    embedded.create(name, "l2", **{"hnsw:space": "l2", "whole": 2**53 + 1, "float": 1.0, "Übung": "漢"})
    embedded.put(name, *documents)
    before = exported(embedded, name, tmp_path / "before.jsonl")
    assert ragstore("import", tmp_path / "before.jsonl", "--url", remote.url, "--verify").exit_code == 0
    assert exported(remote, name, tmp_path / "after.jsonl") == before
    assert _listed(remote, name) == _listed(embedded, name)
    assert ragstore("import", tmp_path / "after.jsonl", "--url", embedded.url, "--into", f"{name}-2").exit_code == 0
    assert _listed(embedded, f"{name}-2") == _listed(embedded, name)


def test_metadata_floats_that_chroma_rounds_are_counted(embedded: Store, name: str, tmp_path: Path) -> None:
    checksum = Checksum()
    collection = CountedCollection(name, {}, 200, 1, "l2")
    documents = [Document(f"d{number}", "", {"share": number / 997}, b"\0\0\x80?") for number in range(200)]
    lines = [checksum.header(collection), *map(checksum.document, documents), checksum.trailer()]
    (tmp_path / "x.jsonl").write_bytes(b"".join(lines))
    run = ragstore("import", tmp_path / "x.jsonl", "--url", embedded.url, "--verify")
    assert run.exit_code == 0
    assert "equal but for Chroma's rounding" in run.stderr


def test_an_empty_collection_survives(embedded: Store, remote: Store, name: str, tmp_path: Path) -> None:
    embedded.create(name, "ip", team="docs")
    before = exported(embedded, name, tmp_path / "before.jsonl.zst")
    assert ragstore("import", tmp_path / "before.jsonl.zst", "--url", remote.url).exit_code == 0
    assert exported(remote, name, tmp_path / "after.jsonl.zst") == before


def test_the_compressed_file_has_the_content_of_the_plain_one(embedded: Store, filled: str, tmp_path: Path) -> None:
    plain = exported(embedded, filled, tmp_path / "x.jsonl", "--batch", "7")
    compressed = exported(embedded, filled, tmp_path / "x.jsonl.zst", "--batch", "7")
    with zstandard.ZstdDecompressor().stream_reader(compressed, read_across_frames=True) as reader:
        assert reader.read() == plain


def test_the_size_of_pages_does_not_show_in_a_plain_file(embedded: Store, filled: str, tmp_path: Path) -> None:
    paged = exported(embedded, filled, tmp_path / "paged.jsonl", "--batch", "7")
    assert paged == exported(embedded, filled, tmp_path / "whole.jsonl")


def test_streams_need_no_file(embedded: Store, remote: Store, filled: str, tmp_path: Path) -> None:
    reading = start("export", filled, "-", "--url", embedded.url, stdout=subprocess.PIPE)
    writing = start("import", "-", "--url", remote.url, stdin=reading.stdout)
    assert reading.stdout is not None
    reading.stdout.close()
    assert (reading.wait(60), writing.wait(60)) == (0, 0)
    assert exported(remote, filled, tmp_path / "r.jsonl") == exported(embedded, filled, tmp_path / "e.jsonl")


def test_a_compressed_stream_is_recognised(embedded: Store, remote: Store, filled: str, tmp_path: Path) -> None:
    exported(embedded, filled, tmp_path / "x.jsonl.zst")
    with (tmp_path / "x.jsonl.zst").open("rb") as file:
        assert start("import", "-", "--url", remote.url, stdin=file).wait(60) == 0
    assert remote.count(filled) == 50


def test_memory_does_not_grow_with_the_collection(embedded: Store, remote: Store, name: str, tmp_path: Path) -> None:
    embedded.create(name)
    text = "x" * 10_000
    for start_ in range(0, 1000, 500):
        documents = ({"id": str(each), "text": text, "embedding": [each]} for each in range(start_, start_ + 500))
        embedded.put(name, *documents)
    exported(embedded, name, tmp_path / "first.jsonl")
    tracemalloc.start()
    try:
        size = len(exported(embedded, name, tmp_path / "x.jsonl", "--batch", "20"))
        # Reading the file here allocated memory too.
        tracemalloc.reset_peak()
        assert ragstore("import", tmp_path / "x.jsonl", "--url", remote.url, "--batch", "20").exit_code == 0
        imported = tracemalloc.get_traced_memory()[1]
        (tmp_path / "x.jsonl").unlink()
        tracemalloc.reset_peak()
        assert ragstore("export", name, tmp_path / "x.jsonl", "--url", remote.url, "--batch", "20").exit_code == 0
        read = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert size > 10_000_000
    assert max(imported, read) < size / 4


def _listed(store: Store, name: str) -> str:
    """The documents as JSON, which distinguishes 1 from 1.0."""
    return json.dumps(store.listed(name), sort_keys=True)
