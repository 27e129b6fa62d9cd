"""The `ragstore` command, run as a process."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import httpx
import pytest

from tests.support.servers import Served, free_port, running, start_service

ROOT = Path(__file__).resolve().parents[2]


def ragstore(*arguments: str, folder: Path, **environ: str) -> subprocess.CompletedProcess[str]:
    """Run the command to its end."""
    inherited = {name: value for name, value in os.environ.items() if not name.startswith("RAGSTORE_")}
    return subprocess.run(
        [str(Path(sys.executable).parent / "ragstore"), *arguments],
        cwd=folder,
        env={**inherited, **environ},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("RAGSTORE_PORT", "eighty"),
        ("RAGSTORE_PORT", "65536"),
        ("RAGSTORE_CHROMA_URL", "chroma:8000"),
        ("RAGSTORE_CHROMA_HEADERS", "not json"),
        ("RAGSTORE_CHROMA_CA_FILE", "/no/such/file"),
        ("RAGSTORE_LOG_LEVEL", "loud"),
        ("RAGSTORE_MAX_BODY_BYTES", "0"),
    ],
)
def test_an_invalid_setting_fails_the_start_with_one_line_that_names_it(tmp_path: Path, name: str, value: str) -> None:
    run = ragstore("serve", folder=tmp_path, **{name: value})
    assert run.returncode == 1
    assert run.stdout == ""
    assert len(run.stderr.splitlines()) == 1
    assert name in run.stderr


def test_check_prints_the_settings_and_that_embedded_chroma_is_available(tmp_path: Path) -> None:
    with running(start_service(tmp_path)):
        pass
    run = ragstore("check", folder=tmp_path, RAGSTORE_LOG_LEVEL="debug")
    assert run.returncode == 0
    assert "RAGSTORE_PORT=8080" in run.stdout
    assert "RAGSTORE_LOG_LEVEL=debug" in run.stdout
    assert "Chroma (embedded)" in run.stdout
    assert "is available" in run.stdout


@pytest.mark.parametrize("exists", [False, True])
def test_a_data_folder_is_created_for_its_user_and_an_open_one_is_used_with_a_warning(
    tmp_path: Path, exists: bool
) -> None:
    folder = tmp_path / "data"
    if exists:
        folder.mkdir(mode=0o755)
    with running(start_service(tmp_path)) as served:
        assert served.log.read_text().count("data folder readable by all users") == exists
    assert folder.stat().st_mode & 0o777 == (0o755 if exists else 0o700)
    assert (folder / "chroma.sqlite3").stat().st_mode & 0o007 == 0


def test_a_data_folder_that_cannot_be_created_fails_the_start_with_one_line(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    run = ragstore("serve", folder=tmp_path, RAGSTORE_DATA_PATH="file/data")
    assert run.returncode == 1
    assert run.stderr.splitlines() == ["Error: RAGSTORE_DATA_PATH cannot be used: Not a directory"]


def test_check_does_not_create_a_folder_that_does_not_exist(tmp_path: Path) -> None:
    run = ragstore("check", folder=tmp_path, RAGSTORE_DATA_PATH="mistyped")
    assert run.returncode == 0
    assert "has no data in mistyped yet: the first start creates it" in run.stdout
    assert not (tmp_path / "mistyped").exists()


def test_check_fails_for_a_folder_that_cannot_be_created(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    run = ragstore("check", folder=tmp_path, RAGSTORE_DATA_PATH="file/data")
    assert run.returncode == 1
    assert "RAGSTORE_DATA_PATH cannot be used" in run.stderr


def test_check_masks_secrets(tmp_path: Path, chroma: Served) -> None:
    run = ragstore(
        "check",
        folder=tmp_path,
        RAGSTORE_CHROMA_URL=chroma.url.replace("http://", "http://user:hunter2@"),
        RAGSTORE_CHROMA_TOKEN="hunter2",
        RAGSTORE_CHROMA_HEADERS='{"X-Secret": "hunter2"}',
    )
    assert "hunter2" not in run.stdout + run.stderr
    assert "RAGSTORE_CHROMA_TOKEN=***" in run.stdout
    assert "X-Secret" in run.stdout


def test_check_fails_when_chroma_does_not_respond(tmp_path: Path) -> None:
    run = ragstore("check", folder=tmp_path, RAGSTORE_CHROMA_URL=f"http://127.0.0.1:{free_port()}")
    assert run.returncode == 1
    assert "Chroma (remote) is not available" in run.stderr


def test_check_reports_unknown_variables(tmp_path: Path) -> None:
    run = ragstore("check", folder=tmp_path, RAGSTORE_PROT="8081")
    assert "RAGSTORE_PROT is set, but is not a setting of ragstore" in run.stdout


def test_openapi_prints_the_committed_document(tmp_path: Path) -> None:
    run = ragstore("openapi", folder=tmp_path)
    assert run.stdout == (ROOT / "openapi" / "openapi.json").read_text()


def test_a_second_service_on_the_same_data_fails_with_a_clear_message(tmp_path: Path) -> None:
    with running(start_service(tmp_path)):
        run = ragstore("serve", folder=tmp_path, RAGSTORE_PORT=str(free_port()), RAGSTORE_DATA_PATH="data")
    assert run.returncode == 1
    assert run.stderr.splitlines()[-1].endswith("data is in use by another process")


def test_the_service_exits_with_0_on_sigterm(tmp_path: Path) -> None:
    served = start_service(tmp_path)
    httpx.post(f"{served.url}/collections", json={"name": "kept"}).raise_for_status()
    assert served.stop() == 0
    with running(start_service(tmp_path)) as again:
        assert httpx.get(f"{again.url}/collections/kept").is_success


def test_an_interrupt_ends_the_service_without_a_traceback(tmp_path: Path) -> None:
    served = start_service(tmp_path)
    served.process.send_signal(signal.SIGINT)
    served.process.wait(timeout=30)
    assert "Traceback" not in served.log.read_text()


def test_the_liveness_probe_succeeds_while_chroma_is_unavailable(tmp_path: Path) -> None:
    environ = {"RAGSTORE_CHROMA_URL": f"http://127.0.0.1:{free_port()}"}
    with running(start_service(tmp_path, environ, ready=False)) as served:
        assert httpx.get(f"{served.url}/health/live").is_success
        unready = httpx.get(f"{served.url}/health/ready")
    assert unready.status_code == 503
    assert unready.json() == {"status": "unready", "error": "Chroma cannot be reached"}


def test_check_measures_how_many_documents_an_index_has_lost(tmp_path: Path, chroma: Served) -> None:
    environ = {"RAGSTORE_CHROMA_URL": chroma.url, "RAGSTORE_CHROMA_DATABASE": "index_check"}
    with running(start_service(tmp_path, environ)) as service, httpx.Client(base_url=service.url) as http:
        http.post("/collections", json={"name": "measured"}).raise_for_status()
        documents = [{"id": str(n), "text": "t", "embedding": [1.0, n]} for n in range(30)]
        http.post("/collections/measured/documents", json={"documents": documents}).raise_for_status()
    run = ragstore("check", "--index", "measured", "--sample", "100", folder=tmp_path, **environ)
    assert run.stdout.splitlines()[-1] == "measured: the index lost 0 of 30 sampled documents (0.0%)"
    absent = ragstore("check", "--index", "absent", folder=tmp_path, **environ)
    assert absent.returncode == 1
    assert absent.stderr.splitlines() == ["Error: Collection 'absent' not found"]
