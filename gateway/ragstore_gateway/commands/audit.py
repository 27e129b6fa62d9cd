"""`ragstore-gateway audit`: checks the chain of the audit ledger, and exports its entries."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any

import click

from ragstore.kit.command_line import one_line
from ragstore.kit.errors import ServiceError
from ragstore_gateway.conversations.chain import ChainCheck, ChainedEntry, Head, canonical, exported
from ragstore_gateway.settings import Settings

if TYPE_CHECKING:
    from ragstore_gateway.conversations.ledger import Ledger

BROKEN = 1


class HeadParameter(click.ParamType[Head]):
    """The end of a ledger, `COUNT:HASH`."""

    name = "COUNT:HASH"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Head:
        """Read it."""
        try:
            return Head.parse(str(value).strip())
        except ValueError:
            self.fail("it must be a number, a colon and a hash, as `verify` prints it", param, ctx)


def audit_commands(loaded_settings: Callable[[], Settings]) -> click.Group:
    """The group of commands.

    Args:
        loaded_settings: reads the settings.
    """

    @click.group()
    def audit() -> None:
        """Check and export the audit ledger."""

    @audit.command()
    @click.option("--file", type=click.File("r", encoding="utf-8"), help="An exported file, in place of the database.")
    @click.option(
        "--head", type=HeadParameter(), help="The end of the ledger at an earlier time, from a log or a note."
    )
    @click.option("--json", "as_json", is_flag=True, help="Print one JSON object.")
    @click.pass_context
    def verify(context: click.Context, file: IO[str] | None, head: Head | None, as_json: bool) -> None:
        """Check that no entry was changed, inserted, moved or removed.

        Exits with 1 if one was. A ledger that was rewritten as a whole, or cut off together with its head, is noticed
        with --head only.
        """
        check = (
            asyncio.run(_verified_database(_check_exists(loaded_settings()), head))
            if file is None
            else _verified(file, head)
        )
        if as_json:
            problems = [{"sequence": each.sequence, "message": each.message} for each in check.problems]
            click.echo(json.dumps({"intact": check.intact, "head": str(check.head), "problems": problems}))
        else:
            for problem in check.problems:
                click.echo(f"entry {problem.sequence}: {problem.message}")
            click.echo(f"{check.head.count} entries, {'intact' if check.intact else 'NOT INTACT'}")
            click.echo(f"head {check.head}")
        if not check.intact:
            context.exit(BROKEN)

    @audit.command()
    @click.argument("file", type=click.File("w", encoding="utf-8"))
    def export(file: IO[str]) -> None:
        """Write all entries to FILE, one a line, and the end of the ledger; `verify --file FILE` checks them."""
        count = asyncio.run(_export(_check_exists(loaded_settings()), file))
        click.echo(f"{count} entries", err=True)

    return audit


def _verified(file: IO[str], expected: Head | None) -> ChainCheck:
    """Check an exported file."""
    check = ChainCheck(expected)
    head: Head | None = None
    for number, (entry, end) in enumerate(_lines(file), 1):
        if head is not None:
            raise click.ClickException(f"Line {number} follows the end of the ledger")
        head = end
        if entry is not None:
            check.feed(entry)
    check.finish(head)
    return check


def _lines(file: IO[str]) -> Iterator[tuple[ChainedEntry | None, Head | None]]:
    """The entries of a file, and the head."""
    for number, line in enumerate(file, 1):
        try:
            fields = json.loads(line)
            if "head" in fields:
                yield None, Head.parse(fields["head"])
                continue
            own = fields.pop("hash")
            yield ChainedEntry(int(fields["sequence"]), canonical(fields), str(own)), None
        except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
            raise click.ClickException(f"Line {number} is not an entry of an audit ledger") from None


def _check_exists(settings: Settings) -> Settings:
    """Check that SQLite's file exists: a new one would be an empty ledger, which is intact.

    Raises:
        click.ClickException: it does not.
    """
    from ragstore_gateway.database.database import FILE

    path = Path(settings.data_path) / FILE
    if not settings.database_url and not path.exists():
        raise click.ClickException(f"There is no database at {path}")
    return settings


async def _verified_database(settings: Settings, expected: Head | None) -> ChainCheck:
    async with _ledger(settings) as ledger:
        return await ledger.verify(expected)


async def _export(settings: Settings, file: IO[str]) -> int:
    count = 0
    async with _ledger(settings) as ledger:
        async for part in ledger.export():
            for each in part:
                with one_line(ValueError):
                    file.write(exported(each))
                count += isinstance(each, ChainedEntry)
    return count


@asynccontextmanager
async def _ledger(settings: Settings) -> AsyncIterator[Ledger]:
    """The ledger of the database that the settings choose.

    Raises:
        click.ClickException: the database cannot be used.
    """
    # Only now: other commands load neither SQLAlchemy nor a driver.
    from ragstore_gateway.conversations.ledger import Ledger
    from ragstore_gateway.database.database import Database
    from ragstore_gateway.database.errors import DatabaseNotUsable

    database = Database.from_settings(settings)
    try:
        async with database.running():
            yield Ledger(database)
    except DatabaseNotUsable as error:
        raise click.ClickException(str(error)) from None
    except ServiceError as error:
        raise click.ClickException(error.detail) from None
