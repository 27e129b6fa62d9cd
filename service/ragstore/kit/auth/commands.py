"""The `keys` commands of a service: create, remove and list keys."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Annotated, Any, get_args, get_origin

import click
import msgspec

from ragstore.kit.auth.keys import (
    KeyFormat,
    KeyScope,
    KeysError,
    append_key,
    new_key,
    new_scope,
    read_keys,
    remove_key,
)
from ragstore.kit.command_line import one_line


def key_commands(
    format_: KeyFormat[Any], variable: str, locate: Callable[[], str], others: Sequence[KeyFormat[Any]] = ()
) -> click.Group:
    """The commands, with an option for each field of the service's scope.

    A field is a text, a number, or a tuple of texts. The description of its `msgspec.Meta` is the option's help;
    `metavar` in `extra` its placeholder.

    Args:
        format_: the service.
        variable: environment variable of the file, for help and errors.
        locate: reads the path of the file from the settings; empty when it is not set.
        others: further services of the process. A key may have a scope for each. The option of a field that the service
            has, too, begins with the name of the further service: `--store-tenant`.

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
        with one_line(KeysError):
            scopes = _further_scopes(others, fields, format_)
            plain, key = new_key(name, format_, **{field: value for field, value in fields.items() if value})
            append_key(path_or_setting(path), key, format_, scopes)
        click.echo(plain)

    new.params[2:2] = [
        *_scope_options(format_, format_),
        *(each for other in others for each in _further_options(other, format_)),
    ]

    @keys.command("remove")
    @click.argument("name")
    @file_option
    def remove(name: str, path: str) -> None:
        """Remove the key NAME from the file, whose permissions stay.

        A running service rejects it within two seconds.
        """
        with one_line(KeysError):
            remove_key(path_or_setting(path), name, format_)

    @keys.command("list")
    @file_option
    def show(path: str) -> None:
        """List the keys of the file with name, role, day and scope; never the keys themselves, nor their hashes."""
        with one_line(KeysError):
            present = read_keys(path_or_setting(path), format_)
            further = [read_keys(path_or_setting(path), other) for other in others]
        titles = [_role_of(other).upper().replace("_", " ") for other in others]
        heads = [
            name.upper() if _parameter(each, name, format_) == name else f"{each.service} {name}".upper()
            for each in (format_, *others)
            for name in _fields(each)
        ]
        rows = [("NAME", "ROLE", "CREATED", *titles, *heads)]
        for key, *further_keys in zip(present, *further, strict=True):
            roles = ["-" if each.scope is None else each.scope.role for each in (key, *further_keys)]
            cells = [
                "-" if each.scope is None else _cell(getattr(each.scope, name))
                for each, kind in zip((key, *further_keys), (format_, *others), strict=True)
                for name in _fields(kind)
            ]
            rows.append((key.name, roles[0], key.created or "-", *roles[1:], *cells))
        widths = [max(len(row[column]) for row in rows) for column in range(len(rows[0]))]
        for row in rows:
            click.echo("  ".join(text.ljust(width) for text, width in zip(row, widths, strict=True)).rstrip())

    return keys


def _fields(format_: KeyFormat[Any]) -> list[str]:
    """The fields of a scope but the role."""
    return [name for name in format_.scope.__struct_fields__ if name != "role"]


def _role_of(format_: KeyFormat[Any]) -> str:
    """The parameter of the role in a further service."""
    return f"{format_.service}_role"


def _parameter(format_: KeyFormat[Any], name: str, own: KeyFormat[Any]) -> str:
    """The parameter of a field of a service.

    Args:
        own: the service of the command.
    """
    return f"{format_.service}_{name}" if format_ is not own and name in _fields(own) else name


def _further_scopes(
    others: Sequence[KeyFormat[Any]], fields: dict[str, Any], own: KeyFormat[Any]
) -> dict[str, KeyScope]:
    """The scopes of a key in further services. Their values are removed from the options.

    Raises:
        KeysError: a value is not valid, or there is one without a role.
    """
    scopes: dict[str, KeyScope] = {}
    for other in others:
        role = fields.pop(_role_of(other))
        given = {name: value for name in _fields(other) if (value := fields.pop(_parameter(other, name, own)))}
        if role:
            scopes[other.service] = new_scope(other, role=role, **given)
        elif given:
            option = _parameter(other, next(iter(given)), own).replace("_", "-")
            raise KeysError(f"--{option} needs --{other.service}-role")
    return scopes


def _further_options(other: KeyFormat[Any], own: KeyFormat[Any]) -> list[click.Parameter]:
    """The options of a further service."""
    service = other.service
    text = f"Role of the key in the {service} of the same process; none when absent."
    return [click.Option([f"--{service}-role"], type=click.Choice(other.roles), help=text), *_scope_options(other, own)]


def _scope_options(format_: KeyFormat[Any], own: KeyFormat[Any]) -> list[click.Parameter]:
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
                [f"--{_parameter(format_, field.name, own).replace('_', '-')}"],
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
