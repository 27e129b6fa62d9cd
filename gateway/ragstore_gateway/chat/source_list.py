"""The list of cited sources at the end of a reply, for clients that ignore annotations."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Final

from ragstore_client.context import Citation
from ragstore_gateway.chat.prompt_passage import PromptPassage

HEADING: Final = "\n\nSources:\n"

_MARKDOWN: Final = re.compile(r"([\\`*_\[\]<>])")
_UNSAFE: Final = re.compile(r"[\s<>()\\]")


def source_list(citations: Sequence[Citation], passages: Mapping[int, PromptPassage]) -> str:
    """The end of a reply: the cited sources as Markdown, each once, by number.

    Args:
        citations: the citations of the reply.
        passages: the passages in the prompt, by number.

    Returns:
        The list; empty if the reply cites nothing, or has a list of its own.
    """
    if any(citation.listed for citation in citations):
        return ""
    numbers = sorted({cited.number for citation in citations for cited in citation.passages})
    return HEADING + "\n".join(_items(passages[number] for number in numbers)) if numbers else ""


def _items(passages: Iterable[PromptPassage]) -> Iterable[str]:
    for passage in passages:
        title = _MARKDOWN.sub(r"\\\1", passage.title)
        url = _UNSAFE.sub(lambda match: f"%{ord(match[0]):02X}", passage.url)
        yield f"- [{passage.number}] " + (f"[{title}]({url})" if url else title)
