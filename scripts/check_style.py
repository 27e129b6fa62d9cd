"""Check the prose of the project against docs/writing.md: `make check` runs this.

It reads Markdown pages, docstrings, comments, messages and help texts, and reports each construction that the style
guide forbids. Code, inline code and identifiers are not prose. Vale would do the same, but its packages download a
binary when they are installed, which a machine without network cannot.

`python -m scripts.check_style [--count] [PATH ...]` checks the given paths, or all tracked files.
"""

from __future__ import annotations

import argparse
import ast
import io
import json
import re
import subprocess
import sys
import tokenize
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Final, NamedTuple

from scripts.docstring_repeats import repeats
from scripts.syntax_nodes import syntax_nodes

ROOT: Final = Path(__file__).resolve().parents[1]

RULES: Final[tuple[tuple[str, str], ...]] = (
    (r"\b(?:told|tells?)\b(?! apart)", "say, report, return, show, or name the message"),
    (r"\bunder way\b", "in progress, in flight, pending"),
    (r"\bat hand\b", "available, current"),
    (r"\bpass(?:es|ed|ing)? over\b", "ignore, skip, drop"),
    (r"\b(?:taken|take|takes|took) for\b", "treated as, considered"),
    (
        r"\bstand(?:s|ing)? (?:in|by|beside|there|first|last|outside|between)\b|\bstood\b",
        "is in, is listed in, replaces",
    ),
    (r"\bas (?:it|they) stands?\b", "current"),
    (r"\banew\b", "again, or leave it out"),
    (r"\blet(?:s|ting)? go of\b", "close, release"),
    (r"\bat once\b", "immediately, concurrently"),
    (r"\b(?:is|are|was|were|be|been|being|not) asked\b|\basks?\b|\basking\b", "request, query, call"),
    (r"\b[Aa]nswer(?:s|ed|ing)?\b(?! with sources)", "response, respond, return; a model gives a reply"),
    (r"\bmend(?:s|ed|ing)?\b", "fix, repair"),
    (r"\b(?:nobody|somebody|whoever|everybody)\b", "name the caller, client, operator or user"),
    (
        r"(?:^|[.:;!?] )(?:Who|What|Whatever|That which|Which) (?![^.:;]*\?)(?!follows)",
        "begin with the thing that acts",
    ),
    (r"\brefusals?\b", "rejection, validation error"),
    (r"(?:^|[.:;!?] )(?:Most|Least|Longest|Shortest) [a-z]+", "maximum, minimum"),
    (r"\bat the most\b", "at most"),
    (r"\b(?:go|goes|going|went) on\b", "continue"),
    (r"\b(?:likelier|reckon|belongs? into|in so many words|by and by|by turns)\b", "plain words"),
    (r"\bis no more\b|\bare no more\b", "no longer exists"),
    (r"\b(?:says|said|saying) (?:nothing|no) of\b", "does not describe"),
    (r"\bhow (?:it|they|Chroma|the service) (?:is|are)\b", "health, state"),
    (r"\bof (?:its|their) own accord\b|\bfor good\b", "permanently, by itself"),
    (r"\b(?:so|as) many (?:at|as)\b(?! possible)", "a limit, a maximum"),
    (r"\b(?:begun|began|begin|begins) (?:it|them|its|again)\b", "restart, renew"),
)
"""Constructions that docs/writing.md forbids, and the words to use instead. A pattern is matched within a
paragraph."""

PRONOUNS: Final = re.compile(
    r"\b(?:that of\b|those (?:of|that|which|in|with|from|whose)"
    r"|the ones?(?= (?:that|which|of|in|with|whose|before|after|from|for)\b|[.,;:)]))"
)
"""Pronouns for things, which docs/writing.md forbids in pages and docstrings."""

PRONOUNS_LEFT: Final = ("CHANGELOG.md",)
"""The page whose pronouns stay: entries of past versions are not rewritten."""

LITERAL: Final = frozenset({"Documents array is required"})
"""Messages that the contract fixes word by word."""

SKIPPED: Final = (
    "examples/handbook/",
    "scripts/check_style.py",
    "requirements/",
    "docs/writing.md",
    "LICENSE",
    "package-lock",
    "clients/node/src/gateway/schema.d.ts",
)
"""Data, generated locks and types with values of the contract, and the pages that quote what they forbid."""

_CODE_SPAN: Final = re.compile(r"``.+?``|`[^`\n]*`", re.DOTALL)
_FENCE: Final = re.compile(r"^( *)(```|~~~).*?^\1\2[^\n]*$", re.DOTALL | re.MULTILINE)
_MARKDOWN_NOISE: Final = re.compile(r'\[[^\]]*\]\(https?:[^)]*\)|\]\([^)]*\)|https?://\S+|\b(?:src|srcset)="[^"]*"')
"""Targets of links and of pictures, and links to other sites: their texts are titles of others."""


class Finding(NamedTuple):
    """A forbidden construction.

    Attributes:
        path: the file, relative to the project.
        line: its line, counted from 1.
        text: the construction as written.
        instead: what to write.
    """

    path: str
    line: int
    text: str
    instead: str


class Prose(NamedTuple):
    """A piece of prose and the line that it begins on."""

    line: int
    text: str


def _blank(match: re.Match[str]) -> str:
    """As many line breaks as the match has, so that line numbers stay right."""
    return "\n" * match[0].count("\n") or " "


def docstrings(source: str) -> Iterator[Prose]:
    """The docstrings of a Python module, and the strings that document its constants."""
    for node in syntax_nodes(source):
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant) and isinstance(node.value.value, str):
            yield from _paragraphs(node.lineno, node.value.value)


def markdown(source: str) -> Iterator[Prose]:
    """The prose of a Markdown page, paragraph by paragraph."""
    text = _MARKDOWN_NOISE.sub("]", _FENCE.sub(_blank, source))
    yield from _paragraphs(1, re.sub(r"<!--.*?-->", _blank, text, flags=re.DOTALL))


def python(source: str, *, messages: bool = True) -> Iterator[Prose]:
    """The docstrings, comments and, optionally, messages of a Python module."""
    tokens = tokenize.generate_tokens(io.StringIO(source).readline) if "#" in source else ()
    for token in tokens:
        if token.type == tokenize.COMMENT and not re.match(r"#\s*(noqa|type:|!|pragma|--)", token.string):
            yield Prose(token.start[0], token.string.lstrip("# "))
    documented: set[int] = set()
    nodes = syntax_nodes(source)
    for node in nodes:
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant) and isinstance(node.value.value, str):
            documented.add(id(node.value))
            yield from _paragraphs(node.lineno, node.value.value)
    if not messages:
        return
    for node in nodes:
        is_text = isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in documented
        if is_text and isinstance(node, ast.Constant) and str(node.value).count(" ") > 1:
            yield from _paragraphs(node.lineno, str(node.value))


def typescript(source: str) -> Iterator[Prose]:
    """The comments of a TypeScript file."""
    for match in re.finditer(r"/\*\*?(.*?)\*/|//([^\n]*)", source, flags=re.DOTALL):
        text = re.sub(r"^\s*\* ?", "", match[1] or match[2] or "", flags=re.MULTILINE)
        yield from _paragraphs(source.count("\n", 0, match.start()) + 1, text)


def commented(source: str) -> Iterator[Prose]:
    """The comments and the texts of a Makefile, a YAML or TOML file."""
    for number, line in enumerate(source.splitlines(), 1):
        for text in re.findall(r"#+ (.+)$|(?:summary|description|title): *(.+)$|echo \"([^\"]+)\"", line):
            yield Prose(number, " ".join(text))


def titled(source: str) -> Iterator[Prose]:
    """The titles, summaries and descriptions of a JSON document."""

    def walk(value: object) -> Iterator[str]:
        if isinstance(value, dict):
            for key, inner in value.items():
                if key in ("title", "summary", "description") and isinstance(inner, str):
                    yield inner
                else:
                    yield from walk(inner)
        elif isinstance(value, list):
            for inner in value:
                yield from walk(inner)

    yield from (Prose(1, text) for text in walk(json.loads(source)))


READERS: Final[dict[str, Callable[[str], Iterator[Prose]]]] = {
    ".md": markdown,
    ".py": python,
    ".ts": typescript,
    ".mjs": typescript,
    ".yaml": commented,
    ".yml": commented,
    ".toml": commented,
    ".json": titled,
    "Makefile": commented,
    "Dockerfile": commented,
}


def _paragraphs(line: int, text: str) -> Iterator[Prose]:
    """Paragraphs and list items, each on one line, so that a construction may span a line break."""
    gathered: list[str] = []
    first = line
    for number, content in enumerate(text.split("\n"), line):
        begins = re.match(r"\s*(?:[-*|#>]|\d+\.|\w+: )", content)
        if (not content.strip() or begins) and gathered:
            yield Prose(first, " ".join(gathered))
            gathered = []
        if content.strip():
            if not gathered:
                first = number
            gathered.append(content.strip().lstrip("-*#> "))
    if gathered:
        yield Prose(first, " ".join(gathered))


def findings(path: Path, name: str) -> Iterator[Finding]:
    """Find what the style guide forbids in a file.

    Args:
        path: the file.
        name: its path relative to the project.

    Yields:
        The findings in their order; none for a kind of file that holds no prose.
    """
    reader = READERS.get(path.suffix) or READERS.get(path.name)
    if reader is None or name.startswith(SKIPPED) or any(skipped in name for skipped in SKIPPED):
        return
    source = path.read_text(encoding="utf-8")
    # Messages of tests are data that tests send; their names and comments are prose.
    prose = python(source, messages=not name.startswith("tests/")) if path.suffix == ".py" else reader(source)
    # The table of settings is made from the docstring of each field.
    if path.suffix == ".py" and path.name != "settings.py":
        for repeat in repeats(source):
            yield Finding(name, repeat.line, repeat.text, "leave the entry out: it repeats the name")
    for piece in prose:
        if piece.text in LITERAL:
            continue
        text = _CODE_SPAN.sub("`", piece.text)
        for pattern, instead in RULES:
            for match in re.finditer(pattern, text):
                yield Finding(name, piece.line, match[0].strip(" .:;"), instead)
    if path.suffix in (".md", ".py") and not name.startswith(PRONOUNS_LEFT):
        for piece in markdown(source) if path.suffix == ".md" else docstrings(source):
            for match in PRONOUNS.finditer(_CODE_SPAN.sub("`", piece.text)):
                yield Finding(name, piece.line, match[0], "the name of the thing")


def tracked() -> list[str]:
    """The files of the project that git tracks."""
    listed = subprocess.run(["git", "ls-files"], cwd=ROOT, capture_output=True, text=True, check=True)
    return listed.stdout.splitlines()


def main(arguments: list[str] | None = None) -> int:
    """Check files and print what is wrong.

    Returns:
        The exit code: 1 when something was found.
    """
    parser = argparse.ArgumentParser(description="Check prose against docs/writing.md.")
    parser.add_argument("--count", action="store_true", help="print the number of findings by folder, and exit with 0")
    parser.add_argument("paths", nargs="*", help="files or folders; all tracked files when absent")
    chosen = parser.parse_args(arguments)
    wanted = tuple(path.rstrip("/") for path in chosen.paths)
    names = [
        name for name in tracked() if not wanted or name in wanted or name.startswith(tuple(f"{p}/" for p in wanted))
    ]
    found = [finding for name in names if (ROOT / name).is_file() for finding in findings(ROOT / name, name)]
    if chosen.count:
        for folder, count in sorted(Counter("/".join(finding.path.split("/")[:2]) for finding in found).items()):
            print(f"{count:6}  {folder}")
        print(f"{len(found):6}  all")
        return 0
    for finding in found:
        print(f'{finding.path}:{finding.line}: "{finding.text}"; write: {finding.instead}')
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
