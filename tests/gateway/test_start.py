"""The start of the gateway: what prevents it is one line, and a signal ends it."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.fake_upstream import fake_upstream
from tests.support.gateways import FAST_MODEL, start_gateway
from tests.support.keyed_services import eventually
from tests.support.log_lines import log_lines
from tests.support.servers import Served, free_port, inherited_environ, running, start_process, start_service

pytestmark = pytest.mark.process

NOBODY = "http://127.0.0.1:1"
"""An address where nothing listens."""


def command(folder: Path, name: str, environ: dict[str, str]) -> subprocess.CompletedProcess[str]:
    """Run a command of `ragstore-gateway` with a data folder until it ends."""
    own = {
        "RAGSTORE_GATEWAY_PORT": str(free_port()),
        "RAGSTORE_GATEWAY_DATA_PATH": str(folder),
        "RAGSTORE_GATEWAY_EMBEDDING_MODEL": FAST_MODEL,
    }
    return subprocess.run(
        [sys.executable, "-m", "ragstore_gateway", name],
        env={**inherited_environ(), **own, **environ},
        capture_output=True,
        text=True,
        timeout=90,
        check=False,
    )


def errors(ended: subprocess.CompletedProcess[str]) -> list[str]:
    """The lines that a command printed to standard error, without log lines of the level info."""
    return [line for line in ended.stderr.splitlines() if '"level": "info"' not in line]


def test_a_gateway_on_the_data_of_a_running_store_is_refused_in_one_line(tmp_path: Path) -> None:
    with running(start_service(tmp_path, {"RAGSTORE_DATA_PATH": str(tmp_path / "data")})):
        ended = command(tmp_path / "data", "serve", {})
    assert ended.returncode == 1
    reason = "The data is in use by another process"
    assert errors(ended) == [f"Error: RAGSTORE_GATEWAY_DATA_PATH={tmp_path / 'data'} cannot be used: {reason}"]


def test_a_second_gateway_on_the_data_of_another_is_refused_in_one_line_also_with_another_store(tmp_path: Path) -> None:
    with running(start_gateway(tmp_path)):
        ended = command(tmp_path / "data", "serve", {"RAGSTORE_URL": NOBODY})
    assert ended.returncode == 1
    (line,) = errors(ended)
    assert line.startswith(f"Error: RAGSTORE_GATEWAY_DATA_PATH={tmp_path / 'data'} cannot be used: another gateway")
    assert "RAGSTORE_GATEWAY_DATABASE_URL" in line


def test_a_database_file_that_cannot_be_opened_ends_the_start_at_once_in_one_line(tmp_path: Path) -> None:
    (tmp_path / "gateway.db").mkdir()
    ended = command(tmp_path, "serve", {"RAGSTORE_URL": NOBODY})
    assert ended.returncode == 1
    (line,) = errors(ended)
    assert json.loads(line)["event"] == "the service cannot start"
    assert json.loads(line)["error"] == "The database cannot be used: unable to open database file"


@pytest.mark.parametrize("signal", ["TERM", "INT"])
def test_a_signal_while_the_start_waits_for_the_database_ends_it_without_a_failure(tmp_path: Path, signal: str) -> None:
    environ = {"RAGSTORE_URL": NOBODY, "RAGSTORE_GATEWAY_DATABASE_URL": "postgresql://user@127.0.0.1:1/x"}
    served: Served = start_gateway_without_waiting(tmp_path, environ)
    with running(served):
        eventually(lambda: log_lines(served.log, "database not reachable yet"), 30)
        subprocess.run(["kill", f"-{signal}", str(served.process.pid)], check=True)
        # The wait for the database has 30 s.
        assert served.process.wait(timeout=15) == 0
    assert "Traceback" not in served.log.read_text()
    assert "cannot start" not in served.log.read_text()


@pytest.mark.parametrize("event", ["embedding model", "started"])
def test_a_signal_during_the_start_or_right_after_it_ends_it_within_the_limit(tmp_path: Path, event: str) -> None:
    served = start_gateway_without_waiting(tmp_path, {})
    with running(served):
        eventually(lambda: log_lines(served.log, event), 60)
        served.process.terminate()
        # The limit is RAGSTORE_GATEWAY_SHUTDOWN_SECONDS.
        assert served.process.wait(timeout=20) == 0
    assert "Traceback" not in served.log.read_text()


def start_gateway_without_waiting(folder: Path, environ: dict[str, str]) -> Served:
    """Start a gateway that does not listen yet."""
    own = {
        "RAGSTORE_GATEWAY_PORT": str(free_port()),
        "RAGSTORE_GATEWAY_DATA_PATH": str(folder / "data"),
        "RAGSTORE_GATEWAY_EMBEDDING_MODEL": FAST_MODEL,
    }
    return start_process(
        [sys.executable, "-m", "ragstore_gateway", "serve"], "http://127.0.0.1", folder / "log", {**own, **environ}
    )


def test_check_tries_everything_that_the_settings_name(tmp_path: Path) -> None:
    environ = {
        "RAGSTORE_URL": NOBODY,
        "RAGSTORE_GATEWAY_DATABASE_URL": "postgresql://user:canary-secret@127.0.0.1:1/x",
        "RAGSTORE_GATEWAY_UPSTREAM_URL": NOBODY,
        "RAGSTORE_GATEWAY_ENGINES": json.dumps({"shard-1": {"storeType": "ragstore", "baseUrl": NOBODY}}),
        "RAGSTORE_GATEWAY_EMBEDDING_PROVIDER": "tei",
        "RAGSTORE_GATEWAY_EMBEDDING_URL": NOBODY,
        "RAGSTORE_GATEWAY_EMBEDDING_MODEL": "",
        "RAGSTORE_GATEWAY_EMBEDDING_TIMEOUT_SECONDS": "2",
    }
    ended = command(tmp_path / "data", "check", environ)
    assert ended.returncode == 1
    assert ended.stderr.splitlines() == [
        "Error: Not usable: Database, Store, Engines, Embedding provider, Model server"
    ]
    assert f"RAGSTORE_GATEWAY_UPSTREAM_URL={NOBODY}" in ended.stdout
    results = dict(line.split(": ", 1) for line in ended.stdout.splitlines()[-7:])
    assert results["Settings"] == "valid"
    assert "refused" in results["Database"].lower()
    assert "cannot be reached" in results["Model server"]
    assert "canary-secret" not in ended.stdout + ended.stderr
    assert not (tmp_path / "data").exists()


def test_check_of_a_gateway_that_was_never_started_creates_nothing(tmp_path: Path) -> None:
    with fake_upstream() as upstream:
        ended = command(tmp_path / "data", "check", {"RAGSTORE_GATEWAY_UPSTREAM_URL": upstream.url})
    assert ended.returncode == 0, ended.stderr
    assert ended.stdout.splitlines()[-6:] == [
        "Settings: valid",
        "Keys: none: everyone who reaches the gateway may do everything (RAGSTORE_GATEWAY_KEYS_FILE)",
        f"Database: none in {tmp_path / 'data'} yet: the first start creates it",
        f"Store: none in {tmp_path / 'data'} yet: the first start creates it",
        "Embedding provider: builtin/wordllama is available: vectors of 256 components",
        "Model server: available: 9 models",
    ]
    assert not (tmp_path / "data").exists()


def test_check_reads_the_database_of_a_running_gateway_and_names_a_wrong_key(tmp_path: Path) -> None:
    keys = tmp_path / "keys"
    keys.write_text("no key\n")
    with running(start_gateway(tmp_path)) as served:
        environ = {"RAGSTORE_URL": served.url, "RAGSTORE_GATEWAY_KEYS_FILE": str(keys)}
        ended = command(tmp_path / "data", "check", environ)
    assert "Database: SQLite is available" in ended.stdout.splitlines()
    assert ended.stderr.splitlines()[-1].startswith("Error: Not usable: Keys")
