"""`make run` starts the service with the settings of its environment, as the pages say."""

from __future__ import annotations

from pathlib import Path

from tests.support.page_runner import run_with_make
from tests.support.pages import blocks_of
from tests.support.servers import Served


def test_make_run_honours_a_chroma_server(chroma: Served, tmp_path: Path) -> None:
    settings = "RAGSTORE_CHROMA_URL=http://chroma:8000 RAGSTORE_KEYS_FILE=keys.jsonl RAGSTORE_HOST=0.0.0.0"
    assert f"{settings} make run\n" in [block.code for block in blocks_of("docs/operating.md")]
    with run_with_make(tmp_path, {"RAGSTORE_CHROMA_URL": chroma.url}):
        assert not (tmp_path / "data").exists()
