"""Makes docs/chroma-quirks.md from the tests in tests/chroma_quirks: `python -m scripts.quirks_page`."""

from __future__ import annotations

import importlib
import re
import sys
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Final

import click

from tests.chroma_quirks.elsewhere import ELSEWHERE
from tests.chroma_quirks.quirk import SHOWN, Quirk

ROOT: Final = Path(__file__).resolve().parents[1]
PAGE: Final = ROOT / "docs/chroma-quirks.md"
FOLDER: Final = ROOT / "tests/chroma_quirks"
ISSUES: Final = "https://github.com/chroma-core/chroma/issues"

INTRODUCTION: Final = """\
# Chroma's quirks

<!-- made by scripts/quirks_page.py from tests/chroma_quirks: change it there -->

What Chroma 1.5.9 does that ragstore works around, or that callers of ragstore may meet. Each quirk has a test in
`tests/chroma_quirks` that shows it on bare Chroma, embedded or a server, without ragstore. The test fails when Chroma
no longer does it, and its report names the code that may go: remove that, then the test, and run
`python -m scripts.quirks_page`. "In" says where the quirk was seen.

Where no upstream issue is named, none was found. An issue is of
[chroma-core/chroma](https://github.com/chroma-core/chroma/issues).
"""

HEAD: Final = (
    "| quirk | in | what ragstore does | code that may go | upstream | test |",
    "| --- | --- | --- | --- | --- | --- |",
)

LAST: Final = """\
## Without a test here

These are matters of speed, of chance, or of a Chroma that the tests cannot run.
"""


def page() -> str:
    """The page."""
    for module in sorted(FOLDER.glob("test_*.py")):
        importlib.import_module(f"tests.chroma_quirks.{module.stem}")
    areas: dict[str, list[tuple[Quirk, Callable[..., object]]]] = {}
    for quirk, test in SHOWN.values():
        title = (sys.modules[test.__module__].__doc__ or "").partition("\n")[0].rstrip(".")
        areas.setdefault(title, []).append((quirk, test))
    total = len(SHOWN) + len(ELSEWHERE)
    parts = [INTRODUCTION, f"There are {total}, {len(SHOWN)} of them with a test.\n"]
    for title, quirks in areas.items():
        parts.append(f"## {title}\n")
        parts.append(_table(_row(quirk, _name(test)) for quirk, test in quirks))
    parts.append(LAST)
    parts.append(_table(_row(quirk, quirk.covered_by) for quirk in ELSEWHERE))
    return "\n".join(parts)


def _table(rows: Iterable[str]) -> str:
    return "".join(f"{line}\n" for line in (*HEAD, *rows))


def _row(quirk: Quirk, test: str) -> str:
    cells = (
        f"**{quirk.name}**: {quirk.summary}",
        ", ".join(quirk.stores) or "Chroma Cloud",
        quirk.workaround,
        ", ".join(f"`{name}`" for name in quirk.works_around) or "none",
        _linked(quirk.upstream) if quirk.upstream else "no issue known",
        test,
    )
    return f"| {' | '.join(cell.replace('|', '&#124;') for cell in cells)} |"


def _linked(upstream: str) -> str:
    return re.sub(r"#(\d+)", lambda found: f"[#{found[1]}]({ISSUES}/{found[1]})", upstream)


def _name(test: Callable[..., object]) -> str:
    return f"`{test.__module__.rpartition('.')[2]}.py::{test.__name__}`"


@click.command()
@click.option("--check", is_flag=True, help="Change nothing; end with 1 when the page is out of date.")
def main(check: bool) -> None:
    """Write docs/chroma-quirks.md."""
    text = page()
    if not check:
        PAGE.write_text(text)
    elif PAGE.read_text() != text:
        raise click.ClickException("docs/chroma-quirks.md is out of date: python -m scripts.quirks_page")


if __name__ == "__main__":
    main()
