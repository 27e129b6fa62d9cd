"""The backup of docs/operating.md works: a copy of the data folder of a stopped service is a backup."""

from __future__ import annotations

import shutil
from pathlib import Path

from ragstore_client import Client, NewDocument
from tests.support.servers import running, start_service


def test_a_service_on_a_copy_of_the_folder_of_a_stopped_one_has_its_documents(tmp_path: Path) -> None:
    with running(start_service(tmp_path)) as served, Client(served.url) as client:
        client.create_collection("handbook", metadata={"language": "en"})
        document = NewDocument(id="heating", text="The boiler.", embedding=[0.6, 0.8], metadata={"page": 3})
        client.upsert_documents("handbook", [document])
        client.close()
        assert served.stop() == 0
    shutil.copytree(tmp_path / "data", tmp_path / "backup")
    shutil.rmtree(tmp_path / "data")
    restored = running(start_service(tmp_path, {"RAGSTORE_DATA_PATH": str(tmp_path / "backup")}))
    with restored as served, Client(served.url) as client:
        assert client.get_collection("handbook").metadata == {"language": "en"}
        found = client.query("handbook", [0.6, 0.8]).results
    assert [(match.id, match.text, match.metadata) for match in found] == [("heating", "The boiler.", {"page": 3})]
