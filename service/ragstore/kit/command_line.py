"""Parts of the commands of several services."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import click
import structlog

from ragstore.kit.data_folder import prepare_folder


@contextmanager
def one_line(*kinds: type[Exception]) -> Iterator[None]:
    """End the program with one line for errors of these classes, which is their text.

    Raises:
        click.ClickException: the block raised one.
    """
    try:
        yield
    except kinds as error:
        raise click.ClickException(str(error)) from None


def prepare_data(path: str, setting: str) -> None:
    """Create a data folder, and warn if all users of the machine can read it.

    Args:
        setting: name of the variable that has the path.

    Raises:
        click.ClickException: it cannot be created.
    """
    try:
        if prepare_folder(Path(path)):
            log = structlog.get_logger(__name__)
            log.warning("data folder readable by all users", path=path, remedy=f"chmod o= {path}")
    except OSError as error:
        raise click.ClickException(f"{setting} cannot be used: {error.strerror}") from None
