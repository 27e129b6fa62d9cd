"""Problem documents as callers read them."""

from __future__ import annotations

from typing import Any, Final, TypeAlias

import httpx

from ragstore import errors
from ragstore.kit.errors import error_classes

Problem: TypeAlias = dict[str, Any]

CODES_OF_STATUS: Final[dict[int, set[str]]] = {}
"""The codes that problem documents of a status may carry."""
for _kind in error_classes(errors.__name__):
    CODES_OF_STATUS.setdefault(_kind.status, set()).add(_kind.code)


def problem_of(answer: httpx.Response, status: int) -> Problem:
    """The problem document that an answer is.

    Args:
        answer: the answer.
        status: the status that it must have.

    Returns:
        The document, which has all members that RFC 9457 and the contract name, and no trace of the code.
    """
    assert answer.status_code == status, answer.text[:1000]
    assert answer.headers["content-type"].partition(";")[0] == "application/problem+json"
    problem: Problem = answer.json()
    assert problem["status"] == status
    assert isinstance(problem["type"], str)
    assert problem["title"]
    assert problem["code"] in CODES_OF_STATUS[status]
    assert problem["detail"]
    assert "Traceback" not in answer.text
    assert ".py" not in answer.text
    return problem


def paths_of(problem: Problem) -> list[str]:
    """The fields to blame; each comes with a message."""
    assert all(blamed["message"] for blamed in problem["errors"])
    return [blamed["path"] for blamed in problem["errors"]]
