"""The `keys` commands of a service: create, remove and list keys."""

from __future__ import annotations

from collections.abc import Callable
from typing import Annotated, Any, get_args, get_origin

import click
import msgspec

from ragstore.kit.auth.keys import KeyFormat, KeysError, append_key, new_key, read_keys, remove_key


def key_commands(format_: KeyFormat[Any], variable: str, locate: Callable[[], str]) -> click.Group:
    """The commands, with an option for each field of the service's scope.

    A field is a text, a number, or a tuple of texts. The description of its `msgspec.Meta` is the option's help;
    `metavar` in `extra` its placeholder.

    Args:
        format_: the service.
        variable: environment variable of the file, for help and errors.
        locate: reads the path of the file from the settings; empty when it is not set.

    Returns:
        The group `keys`.
    """

    def path_or_setting(path: str) -> str:
        found = path or locate()
        if not found:
            raise click.ClickException(f"{variable} is not set, and neither is --file")
        return found

    file_option = click.option("--file", "path", default="", help=f"The file of keys, in place of {variable}.")

    @click.group("keys")
    def keys() -> None:
        """Create, remove and list the keys that callers send."""

    @keys.command("new")
    @click.argument("name")
    @click.option("--role", type=click.Choice(format_.roles), required=True, help="Role of the key.")
    @file_option
    def new(name: str, path: str, **fields: Any) -> None:
        """Add the key NAME to the file, and print it: only this once, because it is not stored.

        A running service accepts it within two seconds.
        """
        try:
            plain, key = new_key(name, format_, **{field: value for field, value in fields.items() if value})
            append_key(path_or_setting(path), key, format_)
        except KeysError as error:
            raise click.ClickException(str(error)) from None
        click.echo(plain)

    new.params[2:2] = _scope_options(format_)

    @keys.command("remove")
    @click.argument("name")
    @file_option
    def remove(name: str, path: str) -> None:
        """Remove the key NAME from the file, whose permissions stay.

        A running service rejects it within two seconds.
        """
        try:
            remove_key(path_or_setting(path), name, format_)
        except KeysError as error:
            raise click.ClickException(str(error)) from None

    @keys.command("list")
    @file_option
    def show(path: str) -> None:
        """List the keys of the file with name, role, day and scope; never the keys themselves, nor their hashes."""
        try:
            present = read_keys(path_or_setting(path), format_)
        except KeysError as error:
            raise click.ClickException(str(error)) from None
        columns = [name for name in format_.scope.__struct_fields__ if name != "role"]
        rows = [("NAME", "ROLE", "CREATED", *(name.upper() for name in columns))]
        for key in present:
            role = "-" if key.scope is None else key.scope.role
            cells = ["-" if key.scope is None else _cell(getattr(key.scope, name)) for name in columns]
            rows.append((key.name, role, key.created or "-", *cells))
        widths = [max(len(row[column]) for row in rows) for column in range(len(rows[0]))]
        for row in rows:
            click.echo("  ".join(text.ljust(width) for text, width in zip(row, widths, strict=True)).rstrip())

    return keys


def _scope_options(format_: KeyFormat[Any]) -> list[click.Parameter]:
    """An option for each field of the scope but the role."""
    options: list[click.Parameter] = []
    for field in msgspec.structs.fields(format_.scope):
        if field.name == "role":
            continue
        described = get_args(field.type)[1:] if get_origin(field.type) is Annotated else ()
        meta = next((mark for mark in described if isinstance(mark, msgspec.Meta) and mark.description), msgspec.Meta())
        multiple = _has_tuple(field.type)
        options.append(
            click.Option(
                [f"--{field.name.replace('_', '-')}"],
                multiple=multiple,
                default=None if multiple else "",
                metavar=(meta.extra or {}).get("metavar"),
                help=meta.description,
            )
        )
    return options


def _has_tuple(kind: Any) -> bool:
    return get_origin(kind) is tuple or any(_has_tuple(argument) for argument in get_args(kind))


def _cell(value: str | int | tuple[str, ...] | None) -> str:
    if value is None:
        return "*"
    if isinstance(value, tuple):
        return " ".join(value) or "-"
    return str(value) or "-"
