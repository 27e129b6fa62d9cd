"""The state copied from SQLite to PostgreSQL and back: counts, hashes, the ledger, and what is refused."""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, Final
from uuid import uuid4

import httpx
import pytest
import sqlalchemy as sa
import yaml
from sqlalchemy import URL, make_url

from ragstore_gateway.commands.state import import_tables
from ragstore_gateway.conversations.ledger import Ledger
from ragstore_gateway.conversations.repository import ConversationRepository
from ragstore_gateway.database.base import Base
from ragstore_gateway.database.database import Database
from ragstore_gateway.database.state_copy import NOT_COPIED, CopyFailed, copy_state
from tests.gateway.conversations.factories import step
from tests.support.gateways import start_gateway
from tests.support.keyed_services import eventually
from tests.support.servers import inherited_environ, running

import_tables()

ROOT: Final = Path(__file__).resolve().parents[3]
DOCUMENTS: Final = 10_000
LEDGER: Final = ("audit_entry", "audit_head", "conversation_step", "conversation_context")
"""Tables that the repository of conversations fills."""


def value(column: sa.Column[Any], number: int) -> object:
    """A value of a column. The columns of a row that refer to each other have the same one."""
    kind = column.type
    if isinstance(kind, sa.LargeBinary):
        return bytes([0, 255, number % 256])
    if isinstance(kind, sa.JSON):
        return {"b": [1, None, "\u00e4"], "a": {"z": number, "y": 0.25}}
    if isinstance(kind, sa.Boolean):
        return True
    if isinstance(kind, sa.Float):
        return number + 0.5
    if isinstance(kind, sa.Integer):
        return number
    if isinstance(kind, sa.String):
        return f"{number:05}"
    return datetime(2026, 11, 25, 14, 3, tzinfo=UTC) + timedelta(microseconds=number)


def sqlite(folder: Path) -> URL:
    folder.mkdir(exist_ok=True)
    return URL.create("sqlite+aiosqlite", database=str(folder / "gateway.db"))


async def fill(url: URL, documents: int = 3) -> None:
    """Fill all tables: documents, rows that refer to them, and a ledger."""
    database = Database(url)
    async with database.running():
        async with database.session() as session:
            for table in Base.metadata.sorted_tables:
                if table.name in LEDGER:
                    continue
                count = documents if table.name == "document" else 3
                rows = [{each.name: value(each, number) for each in table.columns} for number in range(1, count + 1)]
                await session.execute(sa.insert(table), rows)
        ledger = Ledger(database)
        repository = ConversationRepository(database, ledger, keep_contexts=True, retention=timedelta(days=30))
        await repository.write([step(number) for number in range(20)])


async def contents(url: URL) -> dict[str, list[tuple[Any, ...]]]:
    """The rows of all tables that are copied."""
    database = Database(url)
    found: dict[str, list[tuple[Any, ...]]] = {}
    async with database.running(), database.reading() as session:
        for table in Base.metadata.sorted_tables:
            columns = [each for each in table.columns if each.name != "has_keywords"]
            rows = [tuple(row) for row in await session.execute(sa.select(*columns))]
            found[table.name] = sorted(rows, key=repr)
    return found


async def test_ten_thousand_documents_are_the_same_after_a_copy_to_postgresql_and_back(
    tmp_path: Path, postgres_url: str
) -> None:
    first, last = sqlite(tmp_path / "first"), sqlite(tmp_path / "last")
    between = make_url(postgres_url).set(drivername="postgresql+psycopg")
    await fill(first, DOCUMENTS)
    forth = await copy_state(first, between)
    back = await copy_state(between, last)
    assert forth == back
    counts = {table.name: table.rows for table in forth}
    assert (counts["document"], counts["audit_entry"], counts["audit_head"]) == (DOCUMENTS, 20, 1)
    before, after = await contents(first), await contents(last)
    for name, rows in before.items():
        assert after[name] == ([] if name in NOT_COPIED else rows), name
    for url in (between, last):
        database = Database(url)
        async with database.running():
            check = await Ledger(database).verify(None)
        assert (check.intact, check.head.count) == (True, 20)


async def test_a_target_with_state_is_refused_and_stays_as_it_was(tmp_path: Path) -> None:
    source, target = sqlite(tmp_path / "source"), sqlite(tmp_path / "target")
    await fill(source)
    await copy_state(source, target)
    before = await contents(target)
    with pytest.raises(CopyFailed, match="The target has state already"):
        await copy_state(source, target)
    assert await contents(target) == before


async def test_a_failed_copy_leaves_the_target_empty(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    source, target = sqlite(tmp_path / "source"), sqlite(tmp_path / "target")
    await fill(source)
    monkeypatch.setattr("ragstore_gateway.database.state_copy.NOT_COPIED", NOT_COPIED | {"configuration"})
    # Rows that refer to a table which is not there.
    monkeypatch.setattr("ragstore_gateway.database.state_copy.RESET", {"document": {"base_id": None}})
    with pytest.raises(CopyFailed, match="A database cannot be used"):
        await copy_state(source, target)
    monkeypatch.undo()
    assert {table.name: table.rows for table in await copy_state(source, target)}["document"] == 3


async def test_a_source_of_another_version_is_refused(tmp_path: Path) -> None:
    source = sqlite(tmp_path / "source")
    await fill(source)
    database = Database(source)
    async with database.running(), database.session() as session:
        await session.execute(sa.text("UPDATE alembic_version SET version_num = '0001'"))
    with pytest.raises(CopyFailed, match="schema of another version"):
        await copy_state(source, sqlite(tmp_path / "target"))


def copy(data: Path, target: str) -> subprocess.CompletedProcess[str]:
    """Run `ragstore-gateway state copy`."""
    return subprocess.run(
        [sys.executable, "-m", "ragstore_gateway", "state", "copy", "--to", target],
        env={**inherited_environ(), "RAGSTORE_GATEWAY_DATA_PATH": str(data)},
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )


@pytest.mark.process
def test_a_gateway_over_the_copy_finds_the_documents_of_a_running_one(tmp_path: Path, postgres_url: str) -> None:
    for name in ("old", "new"):
        (tmp_path / name).mkdir()
    own = {"RAGSTORE_RESERVED_PREFIXES": "none"}
    with running(start_gateway(tmp_path / "old", own)) as old:
        path = _base_with_document(old.url)
        copied = copy(tmp_path / "old/data", postgres_url)
        assert copied.returncode == 0, copied.stderr
        assert copied.stdout.splitlines()[-1].endswith("rows copied and verified")
        assert "in use by a gateway" in copy(tmp_path / "old/data", str(tmp_path / "old/data")).stderr
        # The vectors stay where they are.
        environ = {"RAGSTORE_URL": old.url, "RAGSTORE_GATEWAY_DATABASE_URL": postgres_url}
        with running(start_gateway(tmp_path / "new", environ)) as new:

            def found() -> list[str]:
                response = httpx.post(f"{new.url}{path}/query", json={"query": "kettle"}, timeout=30)
                return [each["text"] for each in response.json()["results"]]

            assert eventually(found) == ["The kettle is warm."]
        # A gateway with a store of its own has the state of another store.
        (tmp_path / "other").mkdir()
        with running(start_gateway(tmp_path / "other", {"RAGSTORE_GATEWAY_DATABASE_URL": postgres_url})) as other:
            refused = httpx.post(f"{other.url}{path}/query", json={"query": "kettle"}, timeout=30)
            assert (refused.status_code, refused.json()["code"]) == (503, "store_unavailable")
            assert "has none of the collections of the gateway's documents" in refused.json()["detail"]
            health = httpx.get(f"{other.url}/health").json()
            assert health["store"]["error"] == refused.json()["detail"]


def _base_with_document(url: str) -> str:
    """Make a base with a document; its path."""
    base = {"name": f"moved-{uuid4().hex}", "minScore": 0.5}
    location = httpx.post(f"{url}/ragstore/rags", json=base, timeout=30).headers["Location"]
    path: str = location.partition("?")[0]
    headers = {"Content-Type": "text/plain"}
    httpx.post(f"{url}{path}/ingest", content=b"The kettle is warm.", headers=headers, timeout=30)
    eventually(lambda: httpx.get(f"{url}{path}/documents").json()["documents"][0]["searchable"])
    return path


@pytest.mark.process
async def test_the_nightly_copy_of_kubernetes_replaces_the_former_one_and_can_be_restored(tmp_path: Path) -> None:
    *_, job = yaml.safe_load_all((ROOT / "k8s/components/gateway-backup/backup.yaml").read_text())
    (container,) = job["spec"]["jobTemplate"]["spec"]["template"]["spec"]["containers"]
    script = container["args"][0].replace("/backup", str(tmp_path / "backup"))
    await fill(source := sqlite(tmp_path / "data"))
    for folder in ("new", "state"):
        (tmp_path / "backup" / folder).mkdir(parents=True)
        (tmp_path / "backup" / folder / "of-a-former-night").touch()
    environ = {**inherited_environ(), "RAGSTORE_GATEWAY_DATA_PATH": str(tmp_path / "data")}
    environ["PATH"] = f"{Path(sys.executable).parent}:{environ['PATH']}"
    await asyncio.to_thread(subprocess.run, [*container["command"], script], env=environ, check=True, timeout=120)
    assert [each.name for each in (tmp_path / "backup").iterdir()] == ["state"]
    assert not (tmp_path / "backup/state/of-a-former-night").exists()
    restored = copy(tmp_path / "backup/state", str(tmp_path / "restored"))
    assert restored.returncode == 0, restored.stderr
    before, after = await contents(source), await contents(sqlite(tmp_path / "restored"))
    for name, rows in before.items():
        assert after[name] == ([] if name in NOT_COPIED else rows), name


@pytest.mark.process
def test_a_source_that_does_not_exist_is_one_line(tmp_path: Path) -> None:
    ended = copy(tmp_path / "absent", str(tmp_path / "target"))
    assert ended.returncode == 1
    assert ended.stderr == f"Error: There is no database at {tmp_path / 'absent'}{os.sep}gateway.db\n"
