"""Errors of a batch that came in lines: which line is to blame, and where in it."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Final

import msgspec

from ragstore.errors import DimensionMismatch
from ragstore.kit.errors import FieldProblem, ServiceError

BODY: Final = "The body "
"""How a text begins that is of a line here."""

DOCUMENT: Final = re.compile(r"\$\.documents\[(\d+)\]")
"""A document's place in a batch."""


def with_line_numbers(error: ServiceError, numbers: Sequence[int]) -> ServiceError:
    """An error of a batch, told by the lines that it came in.

    Args:
        error: the error, with paths such as `$.documents[3].embedding`.
        numbers: the number of each document's line.

    Returns:
        The same error with paths within a document, such as `$.embedding`, and the line.
    """

    def lines_named(text: str) -> str:
        return DOCUMENT.sub(lambda place: f"line {numbers[int(place[1])]}, $", text)

    problems = [_by_line(problem, numbers) for problem in error.problems]
    if isinstance(error, DimensionMismatch):  # repeats nothing that was sent, so what looks like a place is one
        named = [FieldProblem(problem.path, lines_named(problem.message), problem.line) for problem in problems]
        return error.with_detail(lines_named(error.detail), named)
    detail = error.detail
    if problems and problems[0].line is not msgspec.UNSET:
        place = error.problems[0].path
        if detail.endswith(f": {place}"):
            detail = f"{detail.removesuffix(place)}line {problems[0].line}, {problems[0].path}"
        elif detail.startswith(BODY):
            detail = f"{_of_line(detail)}: line {problems[0].line}"
    return error.with_detail(detail, problems)


def _by_line(problem: FieldProblem, numbers: Sequence[int]) -> FieldProblem:
    place = DOCUMENT.match(problem.path)
    if place is None:
        return problem
    return FieldProblem(f"${problem.path[place.end() :]}", _of_line(problem.message), numbers[int(place[1])])


def _of_line(text: str) -> str:
    return text.replace(BODY, "The line ", 1) if text.startswith(BODY) else text
