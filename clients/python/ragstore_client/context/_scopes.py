"""Scopes: the passages that may be used for a question."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import msgspec

from ragstore_client._exceptions import InvalidConfiguration
from ragstore_client._models import JSON, Where
from ragstore_client.context._settings import MAX_CANDIDATES

SESSION_ID = "{session_id}"
"""A value of a scope's filter that is replaced by the id of the session."""

GLOBAL_SESSION_ID = "{global_session_id}"
"""A value of a scope's filter that is replaced by the setting `global_session_id`."""

_PLACEHOLDERS = (SESSION_ID, GLOBAL_SESSION_ID)
_MAX_DEPTH = 100
"""Maximum nesting of a scope's filter. The service accepts less."""


class Scope(msgspec.Struct, frozen=True, kw_only=True):
    """Passages that may be searched: some collections, and a filter.

    Attributes:
        collections: names of the collections; empty for the collections that the source searches by default.
        where: a filter on metadata. The value `"{session_id}"` is replaced by the id of the session, as a value. A
            scope with such a value is skipped when there is no session. `"{global_session_id}"` is replaced by the
            setting `global_session_id`.
        top_k: maximum number of passages to fetch; None for the number that follows from the settings.
        name: its name in the context's errors and in logs; the collections' names when None.

    Raises:
        InvalidConfiguration: a value is of a wrong type, `top_k` is out of range, or `"{session_id}"` is only part of a
            value, or a field's name.
    """

    collections: Sequence[str] = ()
    where: Where | None = None
    top_k: int | None = None
    name: str | None = None

    def __post_init__(self) -> None:
        """Check the values."""
        collections, where, top_k, name = _untyped(self)
        if isinstance(collections, str):
            raise InvalidConfiguration("the collections of a scope must be a list of names, not one string")
        if not (isinstance(collections, Sequence) and all(isinstance(each, str) for each in collections)):
            raise InvalidConfiguration("the collections of a scope must be a list of names")
        if top_k is not None and not (type(top_k) is int and 1 <= top_k <= MAX_CANDIDATES):
            raise InvalidConfiguration(f"top_k of a scope must be 1 to {MAX_CANDIDATES}")
        if not (name is None or isinstance(name, str)):
            raise InvalidConfiguration("the name of a scope must be a string")
        if where is not None:
            _check_filter(where, 0)

    @property
    def title(self) -> str:
        """Its name in the context's errors and in logs."""
        return self.name or ", ".join(self.collections) or "all"

    @property
    def needs_session(self) -> bool:
        """Whether its filter contains the id of the session."""
        return _contains(self.where, SESSION_ID)


class ScopedSearch(msgspec.Struct, frozen=True, kw_only=True):
    """One search: a scope, or several of the same collections, of one session.

    Attributes:
        collections: names of the collections; empty for the collections that the source searches by default.
        where: the filter, with the id of the session.
        top_k: maximum number of passages; None for the number that follows from the settings.
        title: its name in the context's errors and in logs.
    """

    collections: tuple[str, ...]
    where: Where | None
    top_k: int | None
    title: str


def session_scopes(
    collections: Sequence[str] = (), *, field: str = "session_id", global_value: str | None = None
) -> list[Scope]:
    """The scopes of a chat with uploads: the session's documents, and the documents of all sessions.

    Args:
        collections: names of the collections that hold both.
        field: the metadata field with the id of the session.
        global_value: its value in documents of all sessions; the setting `global_session_id` when None.

    Returns:
        Two scopes, which are searched in one call.
    """
    return [
        Scope(collections=collections, where={field: SESSION_ID}, name="session"),
        Scope(
            collections=collections,
            where={field: GLOBAL_SESSION_ID if global_value is None else global_value},
            name="global",
        ),
    ]


def searches(scopes: Sequence[Scope], session_id: str | None, global_session_id: str = "GLOBAL") -> list[ScopedSearch]:
    """The searches of a session.

    Args:
        session_id: the id of the session; None or empty when there is none.
        global_session_id: the session id of documents of all sessions.

    Returns:
        A search for each scope that applies. Scopes of the same collections without a `top_k` of their own share one
        search: the best passages of both together are among the best of each.
    """
    merged: dict[tuple[str, ...], list[tuple[Scope, Where | None]]] = {}
    alone: list[ScopedSearch] = []
    values = {GLOBAL_SESSION_ID: global_session_id, **({SESSION_ID: session_id} if session_id else {})}
    for scope in scopes:
        if scope.needs_session and not session_id:
            continue
        where = _replace(scope.where, values) if scope.where else None
        collections = tuple(dict.fromkeys(scope.collections))
        if scope.top_k is None:
            merged.setdefault(collections, []).append((scope, where))
        else:
            alone.append(ScopedSearch(collections=collections, where=where, top_k=scope.top_k, title=scope.title))
    together = [
        ScopedSearch(
            collections=collections,
            where=_any([where for _, where in parts]),
            top_k=None,
            title=" + ".join(dict.fromkeys(scope.title for scope, _ in parts)),
        )
        for collections, parts in merged.items()
    ]
    return together + alone


def _any(filters: list[Where | None]) -> Where | None:
    """A filter that selects what any of the filters selects."""
    some = [where for where in filters if where]
    if len(some) < len(filters):
        return None  # one of them selects everything
    if len(some) == 1:
        return some[0]
    fields = {field for where in some for field in where}
    values = [value for where in some for value in where.values()]
    if len(fields) == 1 and all(len(where) == 1 for where in some) and all(isinstance(value, str) for value in values):
        return {fields.pop(): {"$in": list(dict.fromkeys(map(str, values)))}}
    return {"$or": some}


def _replace(where: Where, values: Mapping[str, str]) -> Where:
    """A copy of a filter with some of its string values replaced. Names of fields stay."""
    return {field: _replace_value(value, values) for field, value in where.items()}


def _replace_value(value: JSON, values: Mapping[str, str]) -> JSON:
    if isinstance(value, str):
        return values.get(value, value)
    if isinstance(value, Mapping):
        return _replace(value, values)
    if isinstance(value, Sequence):
        return [_replace_value(item, values) for item in value]
    return value


def _contains(value: JSON, text: str) -> bool:
    """Whether a value of a filter, or one in it, is a text."""
    if isinstance(value, Mapping):
        return any(_contains(item, text) for item in value.values())
    if isinstance(value, Sequence) and not isinstance(value, str):
        return any(_contains(item, text) for item in value)
    return value == text


def _check_filter(value: object, depth: int) -> None:
    """Check that a value of a filter is JSON, and that placeholders are whole values."""
    if depth > _MAX_DEPTH:
        raise InvalidConfiguration(f"the filter of a scope is nested deeper than {_MAX_DEPTH}")
    if isinstance(value, Mapping):
        for field, item in value.items():
            if not isinstance(field, str) or any(placeholder in field for placeholder in _PLACEHOLDERS):
                raise InvalidConfiguration(f"{SESSION_ID} cannot be the name of a field in a scope's filter")
            _check_filter(item, depth + 1)
    elif depth == 0:
        raise InvalidConfiguration("the filter of a scope must be a mapping")
    elif isinstance(value, list | tuple):
        for item in value:
            _check_filter(item, depth + 1)
    elif isinstance(value, str):
        for placeholder in _PLACEHOLDERS:
            if placeholder in value and value != placeholder:
                raise InvalidConfiguration(f"{placeholder} must be the whole value in a scope's filter")
    elif not (value is None or isinstance(value, bool | int | float)):
        raise InvalidConfiguration(f"the filter of a scope must be JSON, and a {type(value).__name__} is not")


def _untyped(scope: Scope) -> tuple[object, object, object, object]:
    """The values of a scope, as a caller without a type checker may have given them."""
    return scope.collections, scope.where, scope.top_k, scope.name
