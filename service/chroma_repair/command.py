"""`chroma-repair`, for the data folder of a Chroma that was killed."""

from __future__ import annotations

import argparse
import sqlite3
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from chroma_repair.data_lock import DATABASE, DataInUse, lock_data
from chroma_repair.index_repair import repair
from chroma_repair.open_files import users_of
from chroma_repair.orphans import remove_orphans

FAILED: Final = 1
"""Exit code when the folder cannot be used."""

DAMAGED: Final = 4
"""Exit code when a collection is damaged and could not be repaired."""


def main(arguments: Sequence[str] | None = None, program: str = "chroma-repair") -> int:
    """Run the command.

    Args:
        arguments: the command line; the process's own by default.
        program: the command's name, for its help.

    Returns:
        The exit code.
    """
    options = _parser(program).parse_args(arguments)
    folder: Path = options.folder
    if not (folder / DATABASE).is_file():
        # Not an error: the command may run before each start of Chroma, the first one included.
        print(f"There is no {DATABASE} in {folder}: nothing to repair")
        return 0
    try:
        with lock_data(folder):
            if not options.is_stopped and (users := users_of(folder)):
                named = ", ".join(f"{user.name} (process {user.process_id})" for user in users)
                return _fail(f"{folder} is in use by {named}: stop it first")
            results = repair(folder, options.collections)
            removed = remove_orphans(folder) if options.reclaim else 0
    except DataInUse as error:
        return _fail(str(error))
    except (OSError, sqlite3.Error) as error:
        return _fail(f"{folder} cannot be read and written: {error}")
    for found in results:
        where = f"{found.collection} ({found.documents} documents, tenant {found.tenant}, database {found.database})"
        if found.removed_entries:
            print(f"{where}: removed {found.removed_entries} failed writes from its log, which Chroma cannot apply")
        if found.index:
            print(f"{where}: {found.problem or 'repaired; Chroma rebuilds its index when it is next used'}")
    if not results:
        print("No index is damaged")
    if options.reclaim:
        print(f"Removed the index folders of {removed} deleted collections")
    return DAMAGED if any(found.problem for found in results) else 0


def _parser(program: str) -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog=program,
        description="Repair in FOLDER, Chroma's data folder, the indexes that were damaged when Chroma was killed, and "
        "the logs that Chroma cannot apply because a document has too many metadata values.",
        epilog="Stop Chroma first: nothing else may use the folder while it is repaired. Exit codes: 0 no index is "
        f"damaged any more; {FAILED} the folder cannot be used; 2 wrong command line; {DAMAGED} a collection cannot be "
        "repaired, and is left unchanged.",
    )
    parser.add_argument("folder", metavar="FOLDER", type=_folder, help="the folder that holds chroma.sqlite3")
    parser.add_argument(
        "--collection",
        dest="collections",
        metavar="NAME",
        action="append",
        default=[],
        help="rebuild the index of this collection even if it looks undamaged; may be repeated",
    )
    parser.add_argument(
        "--chroma-is-stopped",
        dest="is_stopped",
        action="store_true",
        help="repair also if another process has a file of the folder open, such as a backup program",
    )
    parser.add_argument(
        "--reclaim",
        action="store_true",
        help="also remove the index folders of deleted collections, which Chroma leaves behind",
    )
    return parser


def _folder(name: str) -> Path:
    if not Path(name).is_dir():
        raise argparse.ArgumentTypeError(f"{name} is not a folder")
    return Path(name)


def _fail(text: str) -> int:
    print(f"Error: {text}", file=sys.stderr)
    return FAILED
