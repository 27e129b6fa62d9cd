"""Draws `docs/gateway-layers.svg`, the picture of the gateway's folders in `docs/architecture.md`.

`python -m scripts.draw_gateway`. The order comes from the `layers` contract in `pyproject.toml`, which `make check`
verifies, and the notes are the first sentences of the packages' docstrings. A test compares the file with the drawing.
"""

from __future__ import annotations

import ast
import textwrap
import tomllib
from pathlib import Path
from typing import Final
from xml.sax.saxutils import escape

ROOT: Final = Path(__file__).resolve().parents[1]
PICTURE: Final = ROOT / "docs/gateway-layers.svg"
PACKAGE: Final = ROOT / "gateway/ragstore_gateway"

WIDTH: Final = 980
GAP: Final = 8
LEFT: Final = 12
TOP: Final = 40
LINE: Final = 15
CHARACTER: Final = 6.3
"""Width of a character at a font size of 12, in pixels, on average."""


def layers() -> list[list[str]]:
    """The gateway's folders and modules by layer, the top one first."""
    contracts = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["importlinter"]["contracts"]
    found = next(each for each in contracts if each.get("containers") == ["ragstore_gateway"])
    return [[name.strip() for name in layer.split("|")] for layer in found["layers"]]


def note(name: str) -> str:
    """The first sentence of the docstring of a folder or a module."""
    folder = PACKAGE / name
    file = folder / "__init__.py" if folder.is_dir() else folder.with_suffix(".py")
    first = (ast.get_docstring(ast.parse(file.read_text())) or "").split("\n\n")[0]
    return " ".join(first.split()).partition(". ")[0].rstrip(".")


def drawing() -> str:
    """The picture as SVG."""
    parts: list[str] = []
    y = TOP
    for row in layers():
        width = (WIDTH - 2 * LEFT - GAP * (len(row) - 1)) // len(row)
        notes = [textwrap.wrap(note(name), int((width - 20) / CHARACTER)) for name in row]
        height = 28 + LINE * max(map(len, notes))
        for column, (name, lines) in enumerate(zip(row, notes, strict=True)):
            x = LEFT + column * (width + GAP)
            parts.append(
                f'<rect x="{x}" y="{y}" width="{width}" height="{height}" rx="4" fill="#e5f3e6" stroke="#8899aa"/>'
            )
            parts.append(_text(x + 10, y + 18, name, bold=True))
            parts += [_text(x + 10, y + 34 + LINE * index, line) for index, line in enumerate(lines)]
        y += height + GAP
    head = (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {y + 4}" font-family="sans-serif" '
        'font-size="12" role="img">'
    )
    return "\n".join(
        [
            head,
            "<title>The folders of the gateway; each imports only from those below it</title>",
            f'<rect width="{WIDTH}" height="{y + 4}" fill="#ffffff"/>',
            _text(LEFT, 24, "ragstore_gateway: a module imports only from lower rows", bold=True),
            *parts,
            "</svg>",
            "",
        ]
    )


def _text(x: int, y: int, text: str, *, bold: bool = False) -> str:
    weight = ' font-weight="bold"' if bold else ""
    return f'<text x="{x}" y="{y}" fill="#111111"{weight}>{escape(text)}</text>'


if __name__ == "__main__":
    PICTURE.write_text(drawing())
