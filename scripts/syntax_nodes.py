"""The syntax tree of a Python module, which several checks read."""

from __future__ import annotations

import ast
from functools import lru_cache


@lru_cache(maxsize=1)
def syntax_nodes(source: str) -> tuple[ast.AST, ...]:
    """All nodes of a module. The last module is kept: parsing takes most of the time of a check."""
    return tuple(ast.walk(ast.parse(source)))
