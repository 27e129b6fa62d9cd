"""Generate the synchronous Python client from the asynchronous one.

    python scripts/generate_sync_client.py            write the folders _sync of clients/python/ragstore_client
    python scripts/generate_sync_client.py --check    fail when the committed files differ

Every module of a folder `_async` except `runtime` becomes a module of the folder `_sync` beside it: `async` and `await`
are removed, names are replaced according to `NAMES` (also in docstrings and comments), whole passages according to
`PASSAGES`, and ruff sorts the imports and formats the result. `runtime` is written by hand on both sides: it contains
the code that a replacement of words cannot produce, such as the deadline while a body is read.

The package `unasync` is not used. It also replaces words, with a table that has to be supplied for the names used here
(its default turns `AsyncClient` into `SyncClient`). It does not change comments and docstrings and cannot check for
drift, so most of this script would remain, with two more packages (setuptools, tokenize-rt) in the lock file.
"""

from __future__ import annotations

import argparse
import difflib
import io
import re
import subprocess
import sys
import tokenize
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
PACKAGE = ROOT / "clients/python/ragstore_client"
FOLDERS = [(parent / "_async", parent / "_sync") for parent in (PACKAGE, PACKAGE / "gateway")]
"""Each folder of asynchronous modules, and the folder of the generated ones."""

HAND_WRITTEN = {"__init__.py", "runtime.py"}

DROPPED = {"async", "await"}

NAMES = {
    "_async": "_sync",
    "__aenter__": "__enter__",
    "__aexit__": "__exit__",
    "aclose": "close",
    "__aiter__": "__iter__",
    "__anext__": "__next__",
    "anext": "next",
}
"""Further names lose their prefix: `AsyncX` becomes `X`."""

PASSAGES = {
    '"""The asynchronous client."""': '"""The synchronous client."""',
    "A typed client of one ragstore service, for asyncio. Tasks of one event loop may share it.": (
        "A typed client of one ragstore service. Threads may share it."
    ),
    "timeout: total time limit of one attempt, in seconds. An `httpx.Timeout` limits steps; None limits none.": (
        "timeout: time limit in seconds for each step of an attempt: to connect, to send, to wait for the response.\n"
        "            The body must be complete within this time after the attempt began, or after those steps if\n"
        "            later. An `httpx.Timeout` limits the steps one by one; None limits none."
    ),
    "A typed client of a ragstore-gateway, for asyncio. Tasks of one event loop may share it.": (
        "A typed client of a ragstore-gateway. Threads may share it."
    ),
    "any iterable, or asynchronous iterable, of documents.": "any iterable of documents.",
}
"""Documentation that applies to one client only. Each passage must occur in the source."""

_NAME = re.compile(r"\b(_async|__aenter__|__aexit__|aclose|__aiter__|__anext__|anext|Async(?=[A-Z])\w+)\b")


def generate(path: Path, target: Path) -> str:
    """Generate one module.

    Args:
        path: a module of a folder `_async`.
        target: the folder of the generated module.

    Returns:
        The source of its synchronous counterpart.
    """
    source = path.read_text()
    for passage, replacement in PASSAGES.items():
        source = source.replace(passage, replacement)
    lines = source.splitlines(keepends=True)
    edits: list[tuple[int, int, int]] = []
    for token in tokenize.generate_tokens(io.StringIO(source).readline):
        if token.type == tokenize.NAME and token.string in DROPPED:
            row, end = token.end
            after = lines[row - 1][end:]
            edits.append((row, token.start[1], end + len(after) - len(after.lstrip(" "))))
    for row, start, end in reversed(edits):
        line = lines[row - 1]
        lines[row - 1] = line[:start] + line[end:]
    header = f"# Generated from _async/{path.name} by scripts/generate_sync_client.py: do not edit.\n"
    return _ruff(header + _NAME.sub(_replacement, "".join(lines)), target / path.name)


def _replacement(match: re.Match[str]) -> str:
    name = match.group()
    return NAMES.get(name) or name.removeprefix("Async")


def _ruff(source: str, path: Path) -> str:
    # UP028 replaces a loop that yields by `yield from`, which an asynchronous generator cannot contain, and C416 a
    # comprehension by `list`, which takes no asynchronous iterator.
    fix = ["check", "--quiet", "--select", "C416,I,UP028", "--fix", "--unsafe-fixes"]
    for command in (fix, ["format", "--quiet"]):
        ruff = [sys.executable, "-m", "ruff", *command, "--stdin-filename", str(path), "-"]
        source = subprocess.run(ruff, input=source, capture_output=True, text=True, check=True, cwd=ROOT).stdout
    return source


def main() -> None:
    """Write the modules, or compare them with the committed ones."""
    parser = argparse.ArgumentParser(description="Generate the synchronous Python client.")
    parser.add_argument("--check", action="store_true", help="fail when the committed files differ")
    check: bool = parser.parse_args().check
    texts = [path.read_text() for source, _ in FOLDERS for path in _modules(source)]
    if unused := [passage for passage in PASSAGES if not any(passage in text for text in texts)]:
        sys.exit(f"in no folder _async: {unused}")
    for source, target in FOLDERS:
        _write(source, target, check=check)


def _modules(source: Path) -> list[Path]:
    return [path for path in sorted(source.glob("*.py")) if path.name not in HAND_WRITTEN]


def _write(source: Path, target: Path, *, check: bool) -> None:
    """Write the modules of a folder, or compare them with the committed ones."""
    generated = {path.name: generate(path, target) for path in _modules(source)}
    present = {path.name for path in target.glob("*.py")} - HAND_WRITTEN
    for name in sorted(present - generated.keys()):
        if check:
            sys.exit(f"{target / name} has no counterpart in _async: make generate")
        (target / name).unlink()
    for name, text in generated.items():
        path = target / name
        old = path.read_text() if path.exists() else ""
        if not check:
            path.write_text(text)
        elif old != text:
            diff = difflib.unified_diff(old.splitlines(True), text.splitlines(True), f"{name}, committed", name)
            sys.exit("".join(diff) + "the synchronous client is out of date: make generate")


if __name__ == "__main__":
    main()
