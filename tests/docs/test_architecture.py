"""The gateway's folders, modules and classes on docs/architecture.md exist, and the page has all of its folders."""

from __future__ import annotations

import ast
import re
from typing import Final

import pytest

from scripts.draw_gateway import PACKAGE, ROOT, layers

PAGE: Final = (ROOT / "docs/architecture.md").read_text()
TABLE: Final = PAGE[PAGE.index("| in `gateway/ragstore_gateway` | content |") :].split("\n\n")[0].splitlines()[2:]
ROOTS: Final = (ROOT / "service", PACKAGE, ROOT / "clients/python")


def _defined(classes: set[str]) -> set[str]:
    """The names of classes, and of their methods and fields as `Class.method`, in the files that define some of them.

    Args:
        classes: names of classes.
    """
    names: set[str] = set()
    definition = re.compile(rf"^ *class (?:{'|'.join(classes)})\b", re.MULTILINE)
    for root in ROOTS:
        for path in root.rglob("*.py"):
            text = path.read_text()
            if not definition.search(text):
                continue
            for node in ast.walk(ast.parse(text)):
                if isinstance(node, ast.ClassDef):
                    names.add(node.name)
                    for each in node.body:
                        if isinstance(each, ast.FunctionDef | ast.AsyncFunctionDef):
                            names.add(f"{node.name}.{each.name}")
                        elif isinstance(each, ast.AnnAssign):
                            names.add(f"{node.name}.{ast.unparse(each.target)}")
    return names


def _files(text: str) -> set[str]:
    return set(re.findall(r"`([\w/]+\.py)`", text))


def test_the_table_has_the_gateways_folders_and_modules_in_the_order_of_the_layers() -> None:
    named = [name for row in TABLE for name in re.findall(r"`(\w+)(?:/|\.py)`", row.split("|")[1])]
    position = {name: index for index, layer in enumerate(layers()) for name in layer}
    assert set(named) == set(position)
    assert [position[name] for name in named] == sorted(position[name] for name in named)


@pytest.mark.parametrize("row", TABLE, ids=lambda row: row.split("|")[1].strip())
def test_the_modules_that_a_row_names_are_in_its_folder(row: str) -> None:
    _, first, content, *_ = row.split("|")
    folder = PACKAGE / first.strip().strip("`/") if "/" in first else PACKAGE
    for file in _files(first) | _files(content):
        assert (folder / file).is_file(), file


def test_modules_of_the_gateways_walks_and_tasks_exist() -> None:
    walks = PAGE[PAGE.index("## A chat with an assistant") : PAGE.index("## Where to look")]
    tasks = PAGE[PAGE.index("The same for the gateway, in") : PAGE.index("## Rules")]
    for file in _files(walks + tasks):
        if "/" in file:
            assert any((root / file).is_file() for root in (PACKAGE, ROOT)), file


def test_its_classes_and_methods_exist() -> None:
    named = set(re.findall(r"`([A-Z][a-z]+(?:[A-Z][a-z]+)+(?:\.\w+)?|[A-Z][a-z]\w+\.[a-z_]+)`", PAGE))
    aliases = {"ChunkStrategy", "SourceType"}
    assert len(named) > 60
    assert named - aliases - _defined({name.partition(".")[0] for name in named}) == set()
