"""`ragstore-gateway kb change`, `delete`, `source` and `assistant` against a running gateway."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any
from uuid import uuid4

import httpx
import pytest

from tests.gateway.test_kb import done, kb, lines
from tests.support.servers import Served

pytestmark = pytest.mark.process


@pytest.fixture
def name(gateway: Served) -> str:
    """A new knowledge base."""
    name = f"kb-{uuid4().hex[:8]}"
    done(gateway.url, "create", name, "--set", "minScore=0")
    return name


def shown(gateway: Served, *words: str) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(done(gateway.url, *words))
    return found


def test_a_change_writes_a_new_version_and_leaves_other_fields(gateway: Served, name: str) -> None:
    assert done(gateway.url, "change", name, "--set", "maxResults=3") == f"{name}: version 2\n"
    found = shown(gateway, "show", name)
    assert (found["maxResults"], found["minScore"]) == (3, 0)


def test_a_change_needs_a_field(gateway: Served, name: str) -> None:
    assert kb(gateway.url, "change", name).exit_code == 2
    run = kb(gateway.url, "change", name, "--set", "maxResult=3")
    assert (run.exit_code, "maxResults" in run.stderr) == (2, True)


def test_a_deleted_base_is_not_listed(gateway: Served, name: str) -> None:
    assert done(gateway.url, "delete", name) == f"{name}: deleted\n"
    assert done(gateway.url, "list", "--filter", name) == ""
    run = kb(gateway.url, "delete", name)
    assert (run.exit_code, "There is no knowledge base" in run.stderr) == (1, True)


def test_a_base_can_be_removed_with_all_versions(gateway: Served, name: str) -> None:
    [listed] = lines(done(gateway.url, "list", "--filter", name, "--json"))
    assert done(gateway.url, "delete", name, "--permanent") == f"{name}: removed\n"
    assert httpx.get(f"{gateway.url}/ragstore/rags/{listed['id']}?version=1").status_code == 404


def test_uploaded_files_of_a_source_are_ingested_by_its_run(gateway: Served, name: str, tmp_path: Path) -> None:
    (tmp_path / "lift.txt").write_text("The lift is tested every year.")
    assert "files: added" in done(gateway.url, "source", "add", name, "files")
    assert "never run" in done(gateway.url, "source", "list", name)
    assert done(gateway.url, "source", "upload", name, "files", str(tmp_path / "lift.txt")) == "lift.txt: 30 bytes\n"
    assert done(gateway.url, "source", "run", name, "files") == "files: completed: 1 added\n"
    assert "The lift is tested" in done(gateway.url, "query", name, "lift")
    [listed] = lines(done(gateway.url, "source", "list", name, "--json"))
    assert (listed["name"], listed["type"], listed["lastRun"]["status"]) == ("files", "upload", "completed")
    [run] = lines(done(gateway.url, "source", "run", name, "files", "--json"))
    assert (run["status"], run["unchanged"]) == ("completed", 1)


def test_a_source_is_removed_with_its_documents(gateway: Served, name: str, tmp_path: Path) -> None:
    (tmp_path / "lift.txt").write_text("The lift is tested every year.")
    for source in ("files", "others"):
        done(gateway.url, "source", "add", name, source)
        done(gateway.url, "source", "upload", name, source, str(tmp_path / "lift.txt"))
    done(gateway.url, "source", "run", name, "files")
    assert done(gateway.url, "source", "remove", name, "files") == "files: removed\n"
    assert done(gateway.url, "show", name, "--documents") == ""
    done(gateway.url, "source", "run", name, "others")
    done(gateway.url, "source", "remove", name, "others", "--keep-documents")
    assert "lift.txt" in done(gateway.url, "show", name, "--documents")
    run = kb(gateway.url, "source", "remove", name, "others")
    assert (run.exit_code, "has no source 'others'" in run.stderr) == (1, True)


def test_a_website_is_a_source_with_its_fields(gateway: Served, name: str) -> None:
    added = ("source", "add", name, "site", "https://docs.example.com", "--cron", "0 3 * * *", "--set", "maxPages=50")
    assert "site: added" in done(gateway.url, *added)
    [source] = shown(gateway, "show", name)["sources"]
    assert (source["type"], source["cron"]) == ("web", "0 3 * * *")
    assert (source["web"]["startUrl"], source["web"]["maxPages"]) == ("https://docs.example.com", 50)
    assert "site: replaced" in done(gateway.url, *added)
    assert len(shown(gateway, "show", name)["sources"]) == 1
    assert "https://docs.example.com\t0 3 * * *\tnever run" in done(gateway.url, "source", "list", name)


def test_fields_of_a_website_need_its_address(gateway: Served, name: str) -> None:
    run = kb(gateway.url, "source", "add", name, "site", "--set", "maxPages=50")
    assert (run.exit_code, "START_URL" in run.stderr) == (2, True)


def test_a_source_that_does_not_exist_is_not_run(gateway: Served, name: str) -> None:
    run = kb(gateway.url, "source", "run", name, "nothing")
    assert (run.exit_code, "(404)" in run.stderr) == (1, True)


def test_an_assistant_answers_from_its_bases(gateway: Served, name: str) -> None:
    created = done(gateway.url, "assistant", "create", f"{name}-a", "--base", name, "--system-message", "Be brief.")
    assert created.startswith(f"rag/{name}-a: created as ")
    found = shown(gateway, "assistant", "show", f"{name}-a")
    assert (found["workflow"], found["systemMessage"]) == ([name], "Be brief.")
    assert found["tasks"][0]["enableWorkflowRag"] is True
    assert f"rag/{name}-a\t" in done(gateway.url, "assistant", "list", "--filter", name)
    assert done(gateway.url, "assistant", "change", f"{name}-a", "--set", "model=m") == f"rag/{name}-a: version 2\n"
    assert shown(gateway, "assistant", "show", f"{name}-a")["systemMessage"] == "Be brief."
    assert shown(gateway, "assistant", "show", f"{name}-a", "--version", "1")["model"] == ""
    assert done(gateway.url, "assistant", "delete", f"{name}-a") == f"rag/{name}-a: deleted\n"
    run = kb(gateway.url, "assistant", "show", f"{name}-a")
    assert (run.exit_code, "assistant list" in run.stderr) == (1, True)


def test_an_assistant_can_be_created_from_a_file(gateway: Served, name: str) -> None:
    body = {"name": f"{name}-f", "workflow": [name], "tasks": [{"knowledgeBases": [{"name": name}]}]}
    done(gateway.url, "assistant", "create", "--config", "-", stdin=json.dumps(body).encode())
    [listed] = lines(done(gateway.url, "assistant", "list", "--filter", f"{name}-f", "--json"))
    assert listed["name"] == f"{name}-f"
    tasks = shown(gateway, "assistant", "show", f"{name}-f")["tasks"]
    assert tasks[0]["enableWorkflowRag"] is False
    done(gateway.url, "assistant", "delete", f"{name}-f", "--permanent")


def test_an_assistant_of_an_unknown_base_is_not_created(gateway: Served, name: str) -> None:
    run = kb(gateway.url, "assistant", "create", f"{name}-x", "--base", "nothing")
    assert (run.exit_code, "no knowledge base of this name" in run.stderr) == (1, True)
