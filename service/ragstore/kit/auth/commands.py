"""`ragstore keys`: make keys, and show which there are."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import get_args

import click

from ragstore.kit.auth.keys import KeysError, Role, append_key, new_key, read_keys


@dataclass(frozen=True)
class KeysFile:
    """Where a service keeps its keys, as the object of the click context.

    Attributes:
        locate: reads the service's setting; an empty path when it is not set.
    """

    locate: Callable[[], str]


def _file(path: str) -> str:
    """The file of keys: the option, or else the setting of the service that has the command.

    Raises:
        click.ClickException: neither names one.
    """
    if path:
        return path
    default: KeysFile | None = click.get_current_context().find_object(KeysFile)
    name = default.locate() if default is not None else ""
    if not name:
        raise click.ClickException("RAGSTORE_KEYS_FILE is not set, and neither is --file")
    return name


@click.group("keys")
def keys() -> None:
    """Make and list the keys that callers show."""


@keys.command("new")
@click.argument("name")
@click.option("--role", type=click.Choice(get_args(Role)), required=True, help="What the key may do.")
@click.option(
    "--collections",
    multiple=True,
    metavar="PATTERN",
    help="Collections that exist for it, such as 'repo_*'; give the option several times. All when absent.",
)
@click.option("--tenant", default="", help="Chroma tenant of its own.")
@click.option("--database", default="", help="Chroma database of its own.")
@click.option("--file", "path", default="", help="The file of keys, in place of RAGSTORE_KEYS_FILE.")
def new(name: str, role: Role, collections: tuple[str, ...], tenant: str, database: str, path: str) -> None:
    """Add the key NAME to the file, and print it: this once, for it is kept nowhere.

    A running service takes it up within two seconds.
    """
    try:
        plain, key = new_key(name, role, collections, tenant, database)
        append_key(_file(path), key)
    except KeysError as error:
        raise click.ClickException(str(error)) from None
    click.echo(plain)


@keys.command("list")
@click.option("--file", "path", default="", help="The file of keys, in place of RAGSTORE_KEYS_FILE.")
def show(path: str) -> None:
    """List the keys of the file: name, role, day, what they are for. Never the keys, nor their hashes."""
    try:
        present = read_keys(_file(path))
    except KeysError as error:
        raise click.ClickException(str(error)) from None
    rows = [("NAME", "ROLE", "CREATED", "COLLECTIONS", "TENANT", "DATABASE")]
    rows += [
        (
            key.name,
            key.role,
            key.created or "-",
            " ".join(key.collections or "*"),
            key.tenant or "-",
            key.database or "-",
        )
        for key in present
    ]
    widths = [max(len(row[column]) for row in rows) for column in range(len(rows[0]))]
    for row in rows:
        click.echo("  ".join(text.ljust(width) for text, width in zip(row, widths, strict=True)).rstrip())
