"""Generate the settings tables of the documentation from the code: `python -m scripts.settings_table`."""

from __future__ import annotations

import re
from pathlib import Path

import msgspec

from ragstore.kit.settings import variable
from ragstore.settings import PREFIX, Settings
from ragstore_gateway import settings as gateway

PAGE = Path(__file__).resolve().parents[1] / "docs/settings.md"
TABLES: tuple[tuple[str, type[msgspec.Struct], str], ...] = (
    ("The store", Settings, PREFIX),
    ("The gateway", gateway.Settings, gateway.PREFIX),
)
"""The heading of each table of the page, its struct, and the prefix of its variables."""

HEAD = "| variable | default | meaning |\n| --- | --- | --- |\n"


def table(kind: type[msgspec.Struct] = Settings, prefix: str = PREFIX) -> str:
    """Build the table of a settings struct from its defaults, its docstring and its parents' docstrings.

    Args:
        kind: the struct.
        prefix: the prefix of the variables.
    """
    described: dict[str, str] = {}
    for parent in reversed(kind.__mro__):
        attributes = (parent.__doc__ or "").partition("Attributes:")[2]
        described |= dict(re.findall(r"^ {8}(\w+): (.*?)(?=^ {8}\w+: |\Z)", attributes, flags=re.S | re.M))
    rows = [
        f"| `{variable(prefix, field.name)}` | {_shown(field.default)} | {' '.join(described[field.name].split())} |\n"
        for field in msgspec.structs.fields(kind)
    ]
    return HEAD + "".join(rows)


def _shown(default: object) -> str:
    if default in ("", (), msgspec.NODEFAULT):
        return ""
    return f"`{str(default).lower() if isinstance(default, bool) else default}`"


def replace_table(page: Path, heading: str, head: str, rows: str) -> None:
    """Replace a table of a page.

    Args:
        heading: the section that has the table.
        head: the first lines of the table.
        rows: the whole table.

    Raises:
        ValueError: the section has no table with this head.
    """
    before, section, rest = page.read_text().partition(f"\n## {heading}\n")
    replaced, count = re.subn(re.escape(head) + r"(?:\|.*\n)*", lambda _: rows, rest, count=1)
    if not count:
        raise ValueError(f"{page.name} has no table below '{heading}'")
    page.write_text(before + section + replaced)


def main() -> None:
    """Replace the tables of the page."""
    for heading, kind, prefix in TABLES:
        replace_table(PAGE, heading, HEAD, table(kind, prefix))


if __name__ == "__main__":
    main()
