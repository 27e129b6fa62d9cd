"""Generate the settings tables of the documentation from the code: `python -m scripts.settings_table`."""

from __future__ import annotations

import re
from pathlib import Path

import msgspec

from ragstore.kit.settings import variable
from ragstore.settings import PREFIX, Settings
from ragstore_gateway import settings as gateway

DOCS = Path(__file__).resolve().parents[1] / "docs"
PAGES: tuple[tuple[str, type[msgspec.Struct], str], ...] = (
    ("operating.md", Settings, PREFIX),
    ("gateway.md", gateway.Settings, gateway.PREFIX),
)
"""Each page with the struct of its table, and the prefix of its variables."""

HEAD = "| variable | default | meaning |\n| --- | --- | --- |\n"


def table(kind: type[msgspec.Struct] = Settings, prefix: str = PREFIX) -> str:
    """Build the table of a settings struct from its defaults, its docstring and those of its parents.

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


def replace_table(page: Path, head: str, rows: str) -> None:
    """Replace the table of a page.

    Args:
        head: the first lines of the table, by which it is found.
        rows: the whole table.
    """
    page.write_text(re.sub(re.escape(head) + r"(?:\|.*\n)*", lambda _: rows, page.read_text()))


def main() -> None:
    """Replace the tables in the pages."""
    for name, kind, prefix in PAGES:
        replace_table(DOCS / name, HEAD, table(kind, prefix))


if __name__ == "__main__":
    main()
