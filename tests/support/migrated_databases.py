"""Each SQLite database of the gateway's tests is a copy of the first one, which was migrated.

Migrations take a tenth of a second of processor time, and tests make hundreds of databases. Tests of migrations use
`real_migrations`.
"""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from ragstore_gateway.database.database import Database

_migrate = Database._migrate
_migrated: list[bytes] = []
"""The file of an empty database with the newest schema, as soon as there is one."""


async def _copy_or_migrate(database: Database) -> None:
    """Migrate a database, or write its file if it is a new one of SQLite."""
    file = Path(str(database.url.database))
    is_new = not database.is_postgresql and await asyncio.to_thread(_is_new, file)
    if is_new and _migrated:
        await asyncio.to_thread(file.write_bytes, _migrated[0])
        return
    await _migrate(database)
    # SQLite has moved its log into the file when the last connection was closed.
    if is_new:
        _migrated.append(await asyncio.to_thread(file.read_bytes))


def _is_new(file: Path) -> bool:
    return file.parent.is_dir() and not file.exists()


def copy_migrated_databases() -> None:
    """Let all databases of this process be copies from now on."""
    Database._migrate = _copy_or_migrate  # type: ignore[assignment, method-assign]  # only a test replaces it


@pytest.fixture
def real_migrations(monkeypatch: pytest.MonkeyPatch) -> None:
    """Migrate each database of a test."""
    monkeypatch.setattr(Database, "_migrate", _migrate)
