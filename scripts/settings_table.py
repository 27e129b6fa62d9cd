"""Generate the settings table of docs/operating.md from the code: `python -m scripts.settings_table`."""

from __future__ import annotations

import re
from pathlib import Path

import msgspec

from ragstore.kit.settings import variable
from ragstore.settings import PREFIX, Settings

PAGE = Path(__file__).resolve().parents[1] / "docs" / "operating.md"
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


def main() -> None:
    """Replace the table in the page."""
    text = PAGE.read_text()
    PAGE.write_text(re.sub(re.escape(HEAD) + r"(?:\|.*\n)*", lambda _: table(), text))


if __name__ == "__main__":
    main()
