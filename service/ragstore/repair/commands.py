"""`ragstore repair`, for the folder of a Chroma that was killed.

What it needs is imported when it runs, so that `ragstore serve` starts without it.
"""

from __future__ import annotations

from pathlib import Path
from typing import Final

import click

DAMAGED: Final = 4
"""Exit code when a collection could not be repaired."""


@click.command("repair")
@click.argument("folder", type=click.Path(exists=True, file_okay=False, path_type=Path))
@click.option("--collection", "names", metavar="NAME", multiple=True, help="Make its index anew in any case.")
def repair_folder(folder: Path, names: tuple[str, ...]) -> None:
    """Repair in FOLDER what a kill of Chroma, or a document with too many metadata values, has damaged.

    Nothing may run on the folder meanwhile: stop the Chroma server, or the service, first. Embedded Chroma is repaired
    by the service itself when it starts after a kill. Exit code 4 when a collection is damaged and cannot be repaired.
    """
    import sqlite3

    from ragstore.chroma.embedded.process import Refusal, locked
    from ragstore.repair.repairing import DATABASE, repair

    if not (folder / DATABASE).is_file():
        # No failure: it may be run before each start of Chroma, the first one included.
        click.echo(f"There is no {DATABASE} in {folder}: nothing to repair")
        return
    try:
        with locked(str(folder)):
            repaired = repair(folder, names)
    except Refusal as refusal:
        raise click.ClickException(refusal.text) from None
    except (OSError, sqlite3.Error) as error:
        raise click.ClickException(f"{folder} cannot be read and written: {error}") from None
    for found in repaired:
        place = f"{found.collection} ({found.documents} documents, tenant {found.tenant}, database {found.database})"
        if found.removed:
            click.echo(f"{place}: removed {found.removed} failed writes from its log, which Chroma cannot apply")
        if found.index:
            click.echo(f"{place}: {found.problem or 'repaired; Chroma makes its index when it is next used'}")
    if not repaired:
        click.echo("No index is damaged")
    if any(found.problem for found in repaired):
        raise SystemExit(DAMAGED)
