"""Problem documents of responses."""

from __future__ import annotations

from typing import Any, Final, TypeAlias

import httpx

from ragstore import errors
from ragstore.kit.errors import error_classes

Problem: TypeAlias = dict[str, Any]

CODES_OF_STATUS: Final[dict[int, set[str]]] = {}
"""The codes that problem documents of a status may carry."""
for _kind in error_classes(*errors.MODULES):
    CODES_OF_STATUS.setdefault(_kind.status, set()).add(_kind.code)


def problem_of(response: httpx.Response, status: int) -> Problem:
    """The problem document of a response.

    Args:
        response: the response.
        status: the status that it must have.

    Returns:
        The document. It has all members of RFC 9457 and the contract, and no traceback.
    """
    assert response.status_code == status, response.text[:1000]
    assert response.headers["content-type"].partition(";")[0] == "application/problem+json"
    problem: Problem = response.json()
    assert problem["status"] == status
    assert isinstance(problem["type"], str)
    assert problem["title"]
    assert problem["code"] in CODES_OF_STATUS[status]
    assert problem["detail"]
    assert "Traceback" not in response.text
    assert ".py" not in response.text
    return problem


def assert_problem(response: httpx.Response, status: int, code: str) -> Problem:
    """Check the problem document of a service of any kind.

    Args:
        response: the response.
        status: the status that it must have.
        code: the code that it must have.

    Returns:
        The document.
    """
    assert response.status_code == status, response.text[:1000]
    assert response.headers["content-type"].partition(";")[0] == "application/problem+json"
    problem: Problem = response.json()
    assert (problem["status"], problem["code"]) == (status, code)
    return problem


def paths_of(problem: Problem) -> list[str]:
    """The paths of the invalid fields, each of which has a message."""
    assert all(field["message"] for field in problem["errors"])
    return [field["path"] for field in problem["errors"]]
