"""Generate the settings table of docs/operating.md from the code: `python -m scripts.settings_table`."""

from __future__ import annotations

import re
from pathlib import Path

from ragstore.settings import Settings, variable

PAGE = Path(__file__).resolve().parents[1] / "docs" / "operating.md"
HEAD = "| variable | default | meaning |\n| --- | --- | --- |\n"


def table() -> str:
    """Build the table from the defaults of `Settings` and from its docstring."""
    attributes = (Settings.__doc__ or "").split("Attributes:")[1]
    described = re.findall(r"^ {8}(\w+): (.*?)(?=^ {8}\w+: |\Z)", attributes, flags=re.S | re.M)
    rows = [f"| `{variable(field)}` | {_shown(field)} | {' '.join(text.split())} |\n" for field, text in described]
    return HEAD + "".join(rows)


def _shown(field: str) -> str:
    default = getattr(Settings(), field)
    if default in ("", {}, ()):
        return ""
    return f"`{str(default).lower() if isinstance(default, bool) else default}`"


def main() -> None:
    """Replace the table in the page."""
    text = PAGE.read_text()
    PAGE.write_text(re.sub(re.escape(HEAD) + r"(?:\|.*\n)*", lambda _: table(), text))


if __name__ == "__main__":
    main()
