"""The pages of the documentation, and the blocks of code in them.

A block is run unchanged unless a comment directly before it says otherwise:

    <!-- not run: why -->    it is not run; what it names is looked for all the same
    <!-- fails -->           it is run, and is to fail
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Final

from markdown_it import MarkdownIt

ROOT: Final = Path(__file__).resolve().parents[2]
PAGES: Final = sorted(
    str(page.relative_to(ROOT))
    for pattern in ("*.md", "docs/**/*.md", "clients/*/README.md", "gateway/README.md", "examples/README.md")
    for page in ROOT.glob(pattern)
)
"""Every page that a reader is meant to read."""

RUN: Final = ("sh", "python", "js")
ANSWER: Final = ("json", "text", "http")
DATA: Final = ("yaml", "json")
DIRECTIVES: Final = ("{eval-rst}",)
"""Blocks that Sphinx executes when it builds the site."""

LANGUAGES: Final = (*RUN, *ANSWER, *DATA, *DIRECTIVES)

_MARK: Final = re.compile(r"<!-- (not run: (?P<reason>\S.*?)|(?P<fails>fails)) -->\s*")


@dataclass(frozen=True)
class Block:
    """A block of code in a page.

    Attributes:
        page: the page's path below the root.
        line: the line on which its code begins.
        language: as its fence names it; empty for a block that is only indented.
        code: its text.
        reason: why it is not run; empty when it is.
        fails: whether it is to fail.
    """

    page: str
    line: int
    language: str
    code: str
    reason: str = ""
    fails: bool = False

    @property
    def place(self) -> str:
        """Where it stands, for a person to find it."""
        return f"{self.page}:{self.line}"


def text_of(page: str) -> str:
    """A page's Markdown."""
    return (ROOT / page).read_text()


@cache
def blocks_of(page: str) -> list[Block]:
    """The blocks of a page in their order, also in lists and quotes, and blocks that are only indented."""
    blocks: list[Block] = []
    mark: re.Match[str] | None = None
    for token in MarkdownIt().parse(text_of(page)):
        if token.type == "html_block":
            mark = _MARK.fullmatch(token.content)
        elif token.type in ("fence", "code_block"):
            line = (token.map or [0])[0] + (2 if token.type == "fence" else 1)
            reason, fails = ("", False) if mark is None else (mark["reason"] or "", bool(mark["fails"]))
            blocks.append(Block(page, line, token.info.strip(), token.content, reason, fails))
            mark = None
        elif token.nesting >= 0 and token.type != "inline":
            mark = None
    return blocks


def prose_before(block: Block) -> str:
    """The text of a page between a block and the block before, in one line."""
    before = [other for other in blocks_of(block.page) if other.line < block.line]
    end = before[-1].line + before[-1].code.count("\n") if before else 1
    return " ".join(text_of(block.page).splitlines()[end - 1 : block.line - 1])


def stands_alone(block: Block) -> bool:
    """Whether a block is data, and not the output of the block before it."""
    before = [other for other in blocks_of(block.page) if other.line < block.line]
    answers = bool(before) and before[-1].language in RUN and not before[-1].reason
    return block.language == "yaml" or (block.language == "json" and not answers)
