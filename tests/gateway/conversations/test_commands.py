"""`ragstore-gateway audit`: verification of the database and of an exported file."""

from __future__ import annotations

import asyncio
import json
from datetime import timedelta
from pathlib import Path

import pytest
from click.testing import CliRunner, Result
from sqlalchemy import make_url, text

from ragstore_gateway.commands.cli import main
from ragstore_gateway.conversations.chain import Head
from ragstore_gateway.conversations.ledger import Ledger
from ragstore_gateway.conversations.repository import ConversationRepository
from ragstore_gateway.database.database import Database
from tests.gateway.conversations.factories import step


def database_of(folder: Path) -> Database:
    return Database(make_url(f"sqlite+aiosqlite:///{folder / 'gateway.db'}"))


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder of a gateway with five entries."""

    async def write() -> None:
        database = database_of(tmp_path)
        repository = ConversationRepository(
            database, Ledger(database), keep_contexts=False, retention=timedelta(days=1)
        )
        async with database.running():
            await repository.write([step(number) for number in range(5)])

    monkeypatch.setenv("RAGSTORE_GATEWAY_DATA_PATH", str(tmp_path))
    asyncio.run(write())
    return tmp_path


def change(folder: Path, statement: str) -> None:
    async def execute() -> None:
        database = database_of(folder)
        async with database.running(), database.session() as session:
            await session.execute(text(statement))

    asyncio.run(execute())


def audit(*arguments: str) -> Result:
    return CliRunner().invoke(main, ["audit", *arguments])


def exported(folder: Path) -> Path:
    file = folder / "audit.jsonl"
    assert audit("export", str(file)).exit_code == 0
    return file


def test_an_intact_ledger_is_0_and_its_head_is_printed(folder: Path) -> None:
    result = audit("verify")
    assert result.exit_code == 0
    lines = result.output.splitlines()
    assert lines[0] == "5 entries, intact"
    assert audit("verify", "--head", lines[1].removeprefix("head ")).exit_code == 0


def test_a_changed_ledger_is_1_and_the_entry_is_named(folder: Path) -> None:
    change(folder, "UPDATE audit_entry SET body = replace(body, 'docs', 'dogs') WHERE sequence = 2")
    result = audit("verify")
    assert result.exit_code == 1
    assert "entry 2: its hash is not that of its content: it was changed" in result.output
    assert "5 entries, NOT INTACT" in result.output


def test_a_head_from_a_log_shows_that_the_end_was_removed(folder: Path) -> None:
    head = audit("verify").output.splitlines()[1].removeprefix("head ")
    change(folder, "DELETE FROM audit_entry WHERE sequence = 5")
    change(folder, "UPDATE audit_head SET count = 4, hash = (SELECT hash FROM audit_entry WHERE sequence = 4)")
    assert audit("verify").exit_code == 0
    result = audit("verify", "--head", head)
    assert result.exit_code == 1
    assert "its end was removed" in result.output


def test_the_result_is_json_for_machines(folder: Path) -> None:
    found = json.loads(audit("verify", "--json").output)
    assert (found["intact"], found["problems"]) == (True, [])
    assert Head.parse(found["head"]).count == 5


def test_an_exported_file_is_verified_without_the_database(
    folder: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    file = exported(folder)
    monkeypatch.setenv("RAGSTORE_GATEWAY_DATA_PATH", str(tmp_path / "absent"))
    result = audit("verify", "--file", str(file))
    assert (result.exit_code, result.output.splitlines()[0]) == (0, "5 entries, intact")


@pytest.mark.parametrize("kind", ["changed", "removed", "moved", "repeated", "cut", "cut with head"])
def test_a_changed_file_is_noticed(folder: Path, kind: str) -> None:
    file = exported(folder)
    lines = file.read_text().splitlines()
    head = json.loads(lines[-1])["head"]
    changed = {
        "changed": [lines[0].replace("docs", "dogs"), *lines[1:]],
        "removed": [lines[0], *lines[2:]],
        "moved": [lines[1], lines[0], *lines[2:]],
        "repeated": [lines[0], *lines],
        "cut": [*lines[:3], lines[-1]],
        "cut with head": lines[:3],
    }[kind]
    file.write_text("\n".join(changed) + "\n")
    assert audit("verify", "--file", str(file), "--head", head).exit_code == 1
    assert audit("verify", "--file", str(file)).exit_code == 1


@pytest.mark.parametrize("line", ["no JSON", "[]", "{}", '{"hash": "x"}', '{"head": "x"}'])
def test_a_file_of_another_form_is_one_line(folder: Path, line: str) -> None:
    file = folder / "other"
    file.write_text(line + "\n")
    result = audit("verify", "--file", str(file))
    assert result.exit_code == 1
    assert result.output == "Error: Line 1 is not an entry of an audit ledger\n"


def test_a_database_that_does_not_exist_is_no_intact_ledger(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RAGSTORE_GATEWAY_DATA_PATH", str(tmp_path))
    result = audit("verify")
    assert result.exit_code == 1
    assert "There is no database at" in result.output
    assert list(tmp_path.iterdir()) == []


def test_a_head_of_another_form_is_a_usage_error(folder: Path) -> None:
    assert audit("verify", "--head", "5").exit_code == 2
