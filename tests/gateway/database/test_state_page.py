"""The commands of docs/operating.md that copy the state of the gateway."""

from __future__ import annotations

from pathlib import Path

import httpx
import pytest

from tests.support.gateways import start_gateway
from tests.support.page_commands import block_with, run_commands
from tests.support.postgres import Postgres
from tests.support.servers import running

pytestmark = pytest.mark.process


def test_the_state_is_copied_to_postgresql_and_back_and_restored_by_the_commands_of_the_page(
    tmp_path: Path, postgres: Postgres
) -> None:
    with running(start_gateway(tmp_path)) as gateway:
        httpx.post(f"{gateway.url}/ragstore/rags", json={"name": "manuals"}).raise_for_status()
    there, back = block_with("docs/operating.md", "state copy --to ./folder").code.splitlines()
    restore = block_with("docs/operating.md", "RAGSTORE_GATEWAY_DATA_PATH=/backup/state").code
    placeholder = "postgresql://user@host/database"
    databases = [postgres.create_database() for _ in range(2)]
    try:
        run_commands(there.replace(placeholder, f"'{databases[0]}'"), tmp_path)
        run_commands(back, tmp_path, RAGSTORE_GATEWAY_DATABASE_URL=databases[0])
        restored = restore.replace(placeholder, f"'{databases[1]}'").replace("/backup/state", "folder")
        assert run_commands(restored, tmp_path).splitlines()[-1].endswith("rows copied and verified")
        # The vectors of the base are in the folder of the gateway's own store.
        environ = {"RAGSTORE_GATEWAY_DATABASE_URL": databases[1]}
        with running(start_gateway(tmp_path, environ)) as gateway:
            found = httpx.get(f"{gateway.url}/ragstore/rags/descriptors?filter=manuals").json()
        assert [descriptor["name"] for descriptor in found] == ["manuals"]
    finally:
        for url in databases:
            postgres.drop_database(url)
