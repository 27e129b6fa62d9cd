"""Entries of `Args:` and `Attributes:` that repeat the name and nothing else, which docs/writing.md forbids."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from typing import Final, NamedTuple

from scripts.syntax_nodes import syntax_nodes

SECTION: Final = re.compile(r"^( *)(Args|Attributes):$")
ENTRY: Final = re.compile(r"^( +)(\*{0,2}\w+): (.+)$")
ARTICLES: Final = frozenset({"a", "an", "the", "its", "this", "their", "of", "all"})


class Repeat(NamedTuple):
    """An entry that repeats its name.

    Attributes:
        line: its line in the file, counted from 1.
        text: the entry.
    """

    line: int
    text: str


def repeats(source: str) -> Iterator[Repeat]:
    """Find the entries of a module's docstrings that say no more than the name."""
    lines = source.split("\n")
    for node in syntax_nodes(source):
        if not isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef) or not node.body:
            continue
        first = node.body[0]
        if isinstance(first, ast.Expr) and isinstance(first.value, ast.Constant) and isinstance(first.value.value, str):
            yield from _of_docstring(lines, first.lineno, first.end_lineno or first.lineno)


def _of_docstring(lines: list[str], start: int, end: int) -> Iterator[Repeat]:
    """The repeats between two lines of a file, counted from 1."""
    margin: int | None = None
    for number in range(start, end + 1):
        line = lines[number - 1]
        section = SECTION.match(line)
        if section:
            margin = len(section[1])
            continue
        entry = ENTRY.match(line)
        if margin is None or not entry or len(entry[1]) != margin + 4:
            if line.strip() and len(line) - len(line.lstrip()) <= (margin or 0):
                margin = None
            continue
        following = lines[number] if number < len(lines) else ""
        is_continued = following.startswith(" " * (margin + 5)) and following.strip() != ""
        if not is_continued and _says_nothing(entry[2], entry[3]):
            yield Repeat(number, line.strip())


def _says_nothing(name: str, text: str) -> bool:
    words = re.findall(r"[a-z0-9]+", name.lower())
    said = [word for word in re.findall(r"[a-z0-9]+|[^\sa-z0-9.]", text.lower()) if word not in ARTICLES]
    return said == words or said == words[-1:]
