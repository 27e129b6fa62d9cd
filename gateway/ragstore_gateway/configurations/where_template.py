"""Filters of configurations, whose values may be variables of a request, such as `{session_id}`."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final, TypeVar

from ragstore.filters import where as language
from ragstore.filters.grammar import Combination, InvalidFilter
from ragstore.kit.errors import FieldError, InvalidRequest
from ragstore_gateway.api.request_variables import VARIABLES, RequestVariables, SessionFrom, read_session
from ragstore_gateway.conversations.conversation_id import read_id
from ragstore_gateway.keys import key_name_of

if TYPE_CHECKING:
    from litestar.types import Scope

    from ragstore_client import Where

T = TypeVar("T")

MAX_COMPARISONS: Final = 50
"""Maximum number of comparisons of a filter. A search may add a filter of the base, of the task and of the caller, and
engines take 500."""

MAX_LEVELS: Final = 8
"""Maximum number of levels of `$and` and `$or`."""

_VARIABLE: Final = re.compile(r"\{(\w+)\}")
_ROOT: Final = "$.where"
_KNOWN: Final = ", ".join(f"{{{name}}}" for name in VARIABLES)


def check_where(where: Mapping[str, Any], path: str) -> None:
    """Check the filter of a configuration.

    Args:
        where: the filter.
        path: its JSON path.

    Raises:
        InvalidRequest: it is none, it is too large, or it has a variable that does not exist.
    """
    try:
        parsed = language.parse(where)
    except InvalidFilter as error:
        raise InvalidRequest(
            error.detail,
            [FieldError(path + each.path.removeprefix(_ROOT), each.message) for each in error.field_errors],
        ) from None
    comparisons, levels = _size(parsed)
    if comparisons > MAX_COMPARISONS or levels > MAX_LEVELS:
        raise InvalidRequest.at(path, f"Must have at most {MAX_COMPARISONS} comparisons and {MAX_LEVELS} levels")
    _check_variables(where, path)


def _size(parsed: language.Where | None) -> tuple[int, int]:
    """The number of comparisons, where each item of a list counts, and of levels."""
    if parsed is None:
        return 0, 0
    if isinstance(parsed, Combination):
        sizes = [_size(clause) for clause in parsed.clauses]
        return sum(comparisons for comparisons, _ in sizes), 1 + max(levels for _, levels in sizes)
    return len(parsed.operand) if isinstance(parsed.operand, tuple) else 1, 0


def _check_variables(value: object, path: str) -> None:
    if isinstance(value, Mapping):
        for key, item in value.items():
            if _names_variable(key):
                raise InvalidRequest.at(f"{path}.{key}", "A variable is a value, and not a key")
            _check_variables(item, f"{path}.{key}")
    elif isinstance(value, list):
        for index, item in enumerate(value):
            _check_variables(item, f"{path}[{index}]")
    elif isinstance(value, str):
        check_variable(value, path)


def check_variable(text: str, path: str) -> None:
    """Check a text that may be a variable.

    Args:
        path: its JSON path.

    Raises:
        InvalidRequest: it is a variable that does not exist, or contains one among other characters.
    """
    whole = _VARIABLE.fullmatch(text)
    if whole is None and _names_variable(text):
        raise InvalidRequest.at(path, "A variable must be the whole value")
    if whole is not None and whole[1] not in VARIABLES:
        raise InvalidRequest.at(path, f"There is no such variable: the variables are {_KNOWN}")


def _names_variable(text: str) -> bool:
    return any(name in VARIABLES for name in _VARIABLE.findall(text))


def variable_in(value: object) -> str | None:
    """The name of the variable that a value is; None if it is none."""
    whole = _VARIABLE.fullmatch(value) if isinstance(value, str) else None
    return whole[1] if whole is not None and whole[1] in VARIABLES else None


def joined(filters: Sequence[Mapping[str, Any]], variables: RequestVariables) -> Where | None:
    """One filter of several that must all hold, with the values of the variables. The values are only values.

    A comparison with a variable that the request does not have matches nothing, whatever its operator is.

    Args:
        filters: filters that `check_where` accepts.

    Returns:
        The filter, which may select everything; None if it matches nothing.
    """
    clauses: list[Where] = []
    for each in filters:
        filled = _filled(each, variables)
        if filled is None:
            return None
        if filled:
            clauses.append(filled)
    if len(clauses) > 1:
        return {"$and": clauses}
    return clauses[0] if clauses else {}


def _filled(where: Mapping[str, Any], variables: RequestVariables) -> dict[str, Any] | None:
    """A filter with the values of the variables; None if it matches nothing."""
    filled: dict[str, Any] = {}
    for key, value in where.items():
        found: Any
        if key == "$or":
            found = [clause for each in value if (clause := _filled(each, variables)) is not None] or None
        elif key == "$and":
            clauses = [_filled(each, variables) for each in value]
            found = None if None in clauses else clauses
        elif isinstance(value, Mapping):
            operators = {operator: _operand(operator, operand, variables) for operator, operand in value.items()}
            found = None if None in operators.values() else operators
        else:
            found = _operand("$eq", value, variables)
        if found is None:
            return None
        filled[key] = found
    return filled


def _operand(operator: str, value: object, variables: RequestVariables) -> object:
    """The operand of a comparison; None if the comparison matches nothing."""
    if not isinstance(value, list):
        return _value(value, variables)
    items = [_value(item, variables) for item in value]
    if operator == "$nin":
        return None if None in items else items
    return [item for item in items if item is not None] or None


def _value(value: T, variables: RequestVariables) -> T | str | None:
    """A value; None if it is a variable that is absent."""
    name = variable_in(value)
    return value if name is None else variables.value(name) or None


def variables_of(scope: Scope, session_from: SessionFrom) -> RequestVariables:
    """The variables of a request whose body names none.

    Args:
        scope: the request.
        session_from: where its session is from.

    Raises:
        InvalidRequest: the id of its session or of its conversation is not valid.
    """
    name = key_name_of(scope)
    headers = scope["headers"]
    return RequestVariables(read_session(headers, name, session_from), read_id(headers, None), key=name)
