"""Escapes passages, visibly and reversibly, so that none can end its block or begin another one.

Each escape doubles the backslashes that precede what it escapes, so that it can be undone whatever the text contains.
Text that contains nothing to escape is unchanged.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Callable
from typing import Final, TypeAlias

Predicate: TypeAlias = Callable[[str], object]
"""Whether a line looks like structure of a format."""

_HIDDEN: Final = (
    "\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f"  # C0 and C1 controls except tab and line breaks
    "\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069"  # bidirectional marks, overrides and isolates
    "\u2028\u2029"  # line and paragraph separators
    # Invisible characters; joiners are kept, since scripts and emoji need them.
    "\u200b\u2060-\u2064\u206a-\u206f\ufeff\U0001bca0-\U0001bca3\U0001d173-\U0001d17a"
    "\ud800-\udfff"  # surrogates without a pair
    "\ufff9-\ufffb"  # interlinear annotation
    "\U000e0000-\U000e007f\U000e0100-\U000e01ef"  # tags and variation selectors that carry hidden text
)
_CODE: Final = r"u\{(?:10|[0-9a-f])?[0-9a-f]{1,4}\}"
# A run of backslashes is matched from its start only: otherwise a long run would take quadratic time.
_RUN: Final = r"(?<!\\)(\\*+)"
_TO_ESCAPE: Final = re.compile(rf"{_RUN}([{_HIDDEN}]|\r(?!\n)|{_CODE})")
_MAY_NEED_ESCAPE: Final = re.compile(rf"[{_HIDDEN}\r]|u\{{")
_ESCAPED: Final = re.compile(rf"{_RUN}(?<=\\)({_CODE})")
_QUOTE: Final = re.compile(rf'{_RUN}("|\Z)')
_INVISIBLE_IN_NAME: Final = re.compile(f"[{_HIDDEN}]")
_INVISIBLE: Final = re.compile(
    "[\u00ad\u034f\u115f\u1160\u17b4\u17b5\u180b-\u180e\u200c\u200d\u2800\u3164\ufe00-\ufe0f\uffa0\ufffc]"
)
_MARKS: Final = frozenset({"Mn", "Me", "Cf"})
"""Categories of characters that change the previous character: at the start of a line they are hardly seen."""

_BACKSLASHES: Final = re.compile(r"\\*")

_PIECE: Final = 256
"""Number of characters that are normalized at a time. `unicodedata` orders a run of combining marks in quadratic time:
100,000 of them took 20 s."""


def escape_controls(text: str) -> str:
    r"""Replace control characters, bidirectional overrides and hidden characters by `\u{202e}` and the like.

    Tab, LF and CR LF are kept.

    Args:
        text: any text.

    Returns:
        The text; `unescape_controls` restores it.
    """
    # The search is four times as fast as the substitution, which looks for backslashes at each position.
    return _TO_ESCAPE.sub(_escape_control, text) if _MAY_NEED_ESCAPE.search(text) else text


def unescape_controls(text: str) -> str:
    """Undo `escape_controls`."""
    return _ESCAPED.sub(_unescape_control, text)


def escape_quotes(text: str) -> str:
    r"""Write `\"` for each `"`. Backslashes before a quote, or at the end of the text, are doubled."""
    if '"' not in text and not text.endswith("\\"):
        return text
    return _QUOTE.sub(lambda match: match[1] * 2 + ('\\"' if match[2] else ""), text)


def unescape_quotes(text: str) -> str:
    """Undo `escape_quotes`."""
    return _QUOTE.sub(lambda match: match[1][: len(match[1]) // 2] + match[2], text)


def clean_name(name: str) -> str:
    """Make one line of a name: without hidden characters, and with single spaces for whitespace and controls."""
    return " ".join(_INVISIBLE_IN_NAME.sub(" ", name).split())


def escape_lines(text: str, is_structure: Predicate) -> str:
    """Put a backslash before each line that looks like structure, whatever number of backslashes it begins with.

    Args:
        text: the text of a passage.
        is_structure: whether a line without backslashes at its start looks like structure.

    Returns:
        The text; `unescape_lines` restores it.
    """
    lines = text.split("\n")
    return "\n".join("\\" + line if is_structure(_bare(line)) else line for line in lines)


def unescape_lines(text: str, is_structure: Predicate) -> str:
    """Undo `escape_lines`."""
    lines = text.split("\n")
    return "\n".join(line[1:] if line.startswith("\\") and is_structure(_bare(line)) else line for line in lines)


def skeleton(line: str) -> str:
    """Reduce a line to what a reader sees of it.

    Returns:
        The line without invisible characters, surrounding whitespace and marks at its start, in lower case; full-width
        and other compatibility characters become the plain ones.
    """
    if line.isascii():
        return line.strip().lower()
    visible = _INVISIBLE.sub("", line)
    pieces = (visible[begin : begin + _PIECE] for begin in range(0, len(visible), _PIECE))
    plain = "".join(unicodedata.normalize("NFKC", piece) for piece in pieces).strip()
    start = 0
    while start < len(plain) and (plain[start].isspace() or unicodedata.category(plain[start]) in _MARKS):
        start += 1
    return plain[start:].lower()


def _bare(line: str) -> str:
    return line[_end_of_backslashes(line) :]


def _end_of_backslashes(line: str) -> int:
    match = _BACKSLASHES.match(line)
    return match.end() if match else 0


def _escape_control(match: re.Match[str]) -> str:
    backslashes, what = match[1], match[2]
    if len(what) == 1:
        return f"{backslashes * 2}\\u{{{ord(what):x}}}"
    return backslashes * 2 + what


def _unescape_control(match: re.Match[str]) -> str:
    backslashes, code = match[1], match[2]
    kept = backslashes[: len(backslashes) // 2]
    return kept + (chr(int(code[2:-1], 16)) if len(backslashes) % 2 else code)
