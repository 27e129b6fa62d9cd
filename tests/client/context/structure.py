"""Reads the structure of a formatted context back, as a reader who knows nothing of its passages would."""

from __future__ import annotations

import re

from markdown_it import MarkdownIt


def sections(prompt: str) -> tuple[str, list[tuple[str, str]], str]:
    """The system sentence, the citation and escaped text of each passage, and the question."""
    system, _, rest = prompt.partition("\n[Context]")
    passages: list[tuple[str, str]] = []
    item = re.compile(r'\n- From ((?:[^"\\]|\\.)*?): "((?:[^"\\]|\\.)*)"(?=\n- From |\n\[User\] )', re.DOTALL)
    position = 0
    while match := item.match(rest, position):
        passages.append((match[1], match[2]))
        position = match.end()
    assert rest.startswith("\n[User] ", position), "something else than a passage or the question"
    return system.removeprefix("[System] "), passages, rest[position + len("\n[User] ") :]


def numbered(content: str) -> tuple[str, list[tuple[int, str, str]], list[tuple[int, str]]]:
    """The question, the number, URL and escaped text of each source, and the list of sources."""
    question, _, rest = content.partition("\n\nContext:\n")
    starts = [*re.finditer(r"^Source \[(\d+)\] (.*)\n", rest, re.MULTILINE)]
    [listing] = re.finditer(r"^Sources:\n", rest, re.MULTILINE)
    ends = [*(match.start() for match in starts[1:]), listing.start()]
    sources: list[tuple[int, str, str]] = []
    for match, end in zip(starts, ends, strict=True):
        block = rest[match.end() : end]
        assert block.endswith("\n\n")
        sources.append((int(match[1]), match[2], block[:-2]))
    items = rest[listing.end() :]
    assert items.endswith("\n\n")
    parsed = [re.fullmatch(r"- \[(\d+)\] (.*)", line) for line in items[:-2].split("\n")]
    return question.removeprefix("Question: "), sources, [(int(m[1]), m[2]) for m in parsed if m]


def headings(context: str) -> list[tuple[str, str]]:
    """The source and escaped text of each passage."""
    heading, *blocks = re.split(r"^### Source: ", context, flags=re.MULTILINE)
    assert heading == "## Relevant Context\n\n"
    passages: list[tuple[str, str]] = []
    for index, block in enumerate(blocks):
        name, _, text = block.partition("\n\n")
        passages.append((name, text if index == len(blocks) - 1 else text[:-2]))
    return passages


def markdown_headings(context: str) -> list[tuple[str, str]]:
    """The level and text of each top-level heading that a Markdown parser finds."""
    tokens = MarkdownIt("commonmark").parse(context)
    return [
        (token.tag, tokens[index + 1].content)
        for index, token in enumerate(tokens)
        if token.type == "heading_open" and token.level == 0 and token.tag in ("h1", "h2", "h3")
    ]


def archives(context: str) -> list[tuple[int, str, str]]:
    """The number, heading and escaped text of each passage."""
    _, _, rest = context.partition(":\n\n")
    passages: list[tuple[int, str, str]] = []
    for block in re.split(r"\n\n---\n\n(?=\[\d+\] Archiv: )", rest):
        heading, _, text = block.partition("\n")
        match = re.fullmatch(r"\[(\d+)\] Archiv: (.*)", heading)
        assert match
        passages.append((int(match[1]), match[2], text))
    return passages
