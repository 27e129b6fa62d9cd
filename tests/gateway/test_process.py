"""The gateway as a process: nothing else has to run."""

from __future__ import annotations

import sqlite3
import subprocess
import sys
from pathlib import Path

import httpx
import pytest

from ragstore_client import Client, NewDocument
from tests.support.gateways import start_gateway
from tests.support.servers import Served, inherited_environ, running, start_service

pytestmark = pytest.mark.process


def test_health_names_the_model_and_the_state_of_store_and_upstream(gateway: Served) -> None:
    health = httpx.get(gateway.url + "/health").json()
    assert health["ok"] is True
    assert health["model"] == "builtin/wordllama"
    assert health["store"] == {"kind": "in-process", "ok": True}
    assert health["upstream"] == {"configured": False}


def test_the_contract_of_a_store_in_the_process_is_served_on_the_same_port(gateway: Served) -> None:
    with Client(gateway.url) as client:
        client.create_collection("mounted")
        client.upsert_documents("mounted", [NewDocument(id="a", text="tea", embedding=[1.0, 0.0])])
        assert [match.id for match in client.query("mounted", [1.0, 0.0]).results] == ["a"]


def test_an_unknown_path_is_a_problem_document(gateway: Served) -> None:
    response = httpx.get(gateway.url + "/no-such-path")
    assert response.status_code == 404
    assert response.json()["code"] == "not_found"


@pytest.mark.process
def test_a_remote_store_is_used_and_its_contract_is_not_served(tmp_path: Path) -> None:
    (tmp_path / "store").mkdir()
    with (
        running(start_service(tmp_path / "store", {"RAGSTORE_RESERVED_PREFIXES": "none"})) as store,
        running(start_gateway(tmp_path, {"RAGSTORE_URL": store.url})) as served,
    ):
        assert httpx.get(served.url + "/health").json()["store"] == {"kind": "remote", "ok": True}
        assert httpx.get(served.url + "/collections").status_code == 404
        store.stop()
        unready = httpx.get(served.url + "/health/ready?feature=knowledge_bases")
        degraded = httpx.get(served.url + "/health/ready")
    assert (unready.status_code, unready.json()["features"]["knowledge_bases"]) == (503, "store_unavailable")
    assert degraded.status_code == 200


@pytest.mark.process
def test_a_gateway_whose_store_has_never_responded_is_not_ready(tmp_path: Path) -> None:
    with running(start_gateway(tmp_path, {"RAGSTORE_URL": "http://127.0.0.1:1"}, ready=False)) as served:
        assert httpx.get(served.url + "/health/ready").status_code == 503
        assert httpx.get(served.url + "/health/ready?feature=embeddings").status_code == 503


@pytest.mark.process
def test_an_unknown_variable_with_the_prefix_fails_startup() -> None:
    ended = _serve({"RAGSTORE_GATEWAY_UPSTREM_URL": "http://127.0.0.1:9/v1"})
    assert ended.returncode == 1
    assert "RAGSTORE_GATEWAY_UPSTREM_URL is set, but is not a setting" in ended.stderr


@pytest.mark.process
def test_a_gateway_that_other_machines_reach_needs_keys() -> None:
    ended = _serve({"RAGSTORE_GATEWAY_HOST": "0.0.0.0"})
    assert ended.returncode == 1
    assert "RAGSTORE_GATEWAY_KEYS_FILE" in ended.stderr


@pytest.mark.process
def test_keys_protect_the_gateway_and_the_store_in_its_process(tmp_path: Path) -> None:
    keys = tmp_path / "keys"
    plain = subprocess.run(
        [sys.executable, "-m", "ragstore_gateway", "keys", "new", "chat", "--role", "reader", "--file", str(keys)],
        check=True,
        capture_output=True,
        text=True,
    ).stdout.strip()
    with running(start_gateway(tmp_path, {"RAGSTORE_GATEWAY_KEYS_FILE": str(keys)})) as served:
        authorization = {"Authorization": f"Bearer {plain}"}
        assert httpx.get(served.url + "/health").status_code == 401
        assert httpx.get(served.url + "/health", headers=authorization).json()["ok"] is True
        assert httpx.get(served.url + "/collections").status_code == 401
        # The key has a scope for the gateway only.
        assert httpx.get(served.url + "/collections", headers=authorization).status_code == 403


def _serve(environ: dict[str, str]) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "ragstore_gateway", "serve"]
    return subprocess.run(
        command, env={**inherited_environ(), **environ}, capture_output=True, text=True, timeout=60, check=False
    )


@pytest.mark.process
def test_a_data_folder_that_cannot_be_written_ends_the_start_with_one_line(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    ended = _serve({"RAGSTORE_GATEWAY_DATA_PATH": str(tmp_path / "file" / "data")})
    assert ended.returncode == 1
    assert ended.stderr.splitlines() == ["Error: RAGSTORE_GATEWAY_DATA_PATH cannot be used: Not a directory"]


@pytest.mark.process
def test_a_database_of_a_newer_version_ends_the_start_with_a_line_that_says_so(tmp_path: Path) -> None:
    with sqlite3.connect(tmp_path / "gateway.db") as connection:
        connection.execute("CREATE TABLE alembic_version (version_num VARCHAR(32) NOT NULL)")
        connection.execute("INSERT INTO alembic_version VALUES ('9999')")
    connection.close()
    ended = _serve({"RAGSTORE_GATEWAY_DATA_PATH": str(tmp_path), "RAGSTORE_URL": "http://127.0.0.1:1"})
    assert ended.returncode == 1
    (line,) = [line for line in ended.stderr.splitlines() if '"level": "info"' not in line]
    assert "the service cannot start" in line
    assert "newer version of the gateway" in line


@pytest.mark.process
def test_commands_that_call_a_gateway_do_not_load_the_database() -> None:
    code = "import sys, ragstore_gateway.commands.cli; print([each for each in sys.argv[1:] if each in sys.modules])"
    modules = ["sqlalchemy", "alembic", "psycopg", "aiosqlite"]
    ended = subprocess.run([sys.executable, "-c", code, *modules], capture_output=True, text=True, check=True)
    assert ended.stdout.strip() == "[]"


def test_a_new_data_folder_is_not_readable_by_other_users(gateway: Served) -> None:
    folder = gateway.log.parent / "data"
    assert folder.stat().st_mode & 0o777 == 0o700
    assert (folder / "gateway.db").stat().st_mode & 0o007 == 0
    assert "data folder readable by all users" not in gateway.log.read_text()


@pytest.mark.process
def test_an_existing_data_folder_that_all_users_can_read_is_used_with_a_warning(tmp_path: Path) -> None:
    folder = tmp_path / "data"
    folder.mkdir(mode=0o755)
    with running(start_gateway(tmp_path)) as served:
        assert served.log.read_text().count("data folder readable by all users") == 1
    assert folder.stat().st_mode & 0o777 == 0o755
    files = [path for path in folder.rglob("*") if path.is_file()]
    assert {"gateway.db", "chroma.sqlite3"} <= {path.name for path in files}
    assert not [path.name for path in files if path.stat().st_mode & 0o007]
