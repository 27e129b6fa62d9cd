"""The README's examples run as they stand, and print what it says they print."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from client.corpus import chunk
from client.servers import Embeddings, LocalServer
from ragstore_client import Client
from serving import Served

README = Path(__file__).parents[2] / "clients" / "python" / "README.md"
BLOCKS = re.compile(r"```python\n(.*?)```\n\n```text\n(.*?)```", re.DOTALL)


def test_the_examples_print_what_they_say(
    service: Served,
    store: Client,
    embeddings: tuple[Embeddings, LocalServer],
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setenv("DOCPROC_TEI_EMBEDDINGS_URL", embeddings[1].url)
    store.create_collection("repo_readme")
    store.upsert_documents(
        "repo_readme",
        [
            chunk(0, "Die Heizung wird im Herbst gewartet.", heading="Heizung", page=3),
            chunk(1, "Den Termin nennt der Aushang.", heading="Heizung", page=3),
            chunk(2, "Die Miete ist am Monatsanfang fällig.", heading="Miete", page=4),
        ],
    )
    examples = BLOCKS.findall(README.read_text())
    assert len(examples) == 4
    names: dict[str, object] = {}
    for code, printed in examples:
        exec(compile(code.replace("http://127.0.0.1:8080", service.url), str(README), "exec"), names)
        assert capsys.readouterr().out == printed
    store.delete_collection("repo_readme")
    store.delete_collection("handbook")


def test_the_first_example_has_ten_lines() -> None:
    code, _ = BLOCKS.findall(README.read_text())[0]
    assert len([line for line in code.splitlines() if line.strip()]) <= 10
