"""Scopes: the passages that may be used for a question."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

import msgspec

from ragstore_client._exceptions import InvalidConfiguration
from ragstore_client._models import JSON, Where
from ragstore_client.context._settings import MAX_CANDIDATES

SESSION_ID = "{session_id}"
"""A value of a scope's filter that is replaced by the id of the session."""


class Scope(msgspec.Struct, frozen=True, kw_only=True):
    """Passages that may be searched: some collections, and a filter.

    Attributes:
        collections: names of the collections; empty for those that the source searches by itself.
        where: a filter on metadata. The value `"{session_id}"` is replaced by the id of the session, as a value. A
            scope with such a value is skipped when there is no session.
        top_k: maximum number of passages to fetch; None for the number that follows from the settings.
        name: its name in the context's errors and in logs; the collections' names when None.

    Raises:
        InvalidConfiguration: `top_k` is out of range, or `"{session_id}"` is only part of a value, or a field's name.
    """

    collections: Sequence[str] = ()
    where: Where | None = None
    top_k: int | None = None
    name: str | None = None

    def __post_init__(self) -> None:
        """Check the values."""
        if isinstance(self.collections, str):
            raise InvalidConfiguration("the collections of a scope must be a list of names, not one string")
        if self.top_k is not None and not 1 <= self.top_k <= MAX_CANDIDATES:
            raise InvalidConfiguration(f"top_k of a scope must be 1 to {MAX_CANDIDATES}")
        _replace(self.where or {}, _whole)

    @property
    def title(self) -> str:
        """Its name in the context's errors and in logs."""
        return self.name or ", ".join(self.collections) or "all"

    @property
    def needs_session(self) -> bool:
        """Whether its filter contains the id of the session."""
        texts: list[str] = []

        def record(text: str) -> str:
            texts.append(text)
            return text

        _replace(self.where or {}, record)
        return SESSION_ID in texts


class ScopedSearch(msgspec.Struct, frozen=True, kw_only=True):
    """One search: a scope, or several of the same collections, of one session.

    Attributes:
        collections: names of the collections; empty for those that the source searches by itself.
        where: the filter, with the id of the session.
        top_k: maximum number of passages; None for the number that follows from the settings.
        title: its name in the context's errors and in logs.
    """

    collections: tuple[str, ...]
    where: Where | None
    top_k: int | None
    title: str


def session_scopes(
    collections: Sequence[str] = (), *, field: str = "session_id", global_value: str = "GLOBAL"
) -> list[Scope]:
    """The scopes of a chat with uploads: the session's documents, and those of all sessions.

    Args:
        collections: names of the collections that hold both.
        field: the metadata field with the id of the session.
        global_value: its value in documents of all sessions.

    Returns:
        Two scopes, which are searched in one call.
    """
    return [
        Scope(collections=collections, where={field: SESSION_ID}, name="session"),
        Scope(collections=collections, where={field: global_value}, name="global"),
    ]


def searches(scopes: Sequence[Scope], session_id: str | None) -> list[ScopedSearch]:
    """The searches of a session.

    Args:
        scopes: the scopes.
        session_id: the id of the session; None or empty when there is none.

    Returns:
        A search for each scope that applies. Scopes of the same collections without a `top_k` of their own share one
        search: the best passages of both together are among the best of each.
    """
    merged: dict[tuple[str, ...], list[tuple[Scope, Where | None]]] = {}
    alone: list[ScopedSearch] = []
    for scope in scopes:
        if scope.needs_session and not session_id:
            continue
        where = _with_session(scope.where, session_id)
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


def _with_session(where: Where | None, session_id: str | None) -> Where | None:
    if not where or not session_id:
        return where or None
    return _replace(where, lambda text: session_id if text == SESSION_ID else text)


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


def _replace(where: Where, text: Callable[[str], str]) -> Where:
    """A copy of a filter with its string values replaced. Names of fields stay, and are checked."""
    for field in where:
        if SESSION_ID in field:
            raise InvalidConfiguration(f"{SESSION_ID} cannot be the name of a field in a scope's filter")
    return {field: _replace_value(value, text) for field, value in where.items()}


def _replace_value(value: JSON, text: Callable[[str], str]) -> JSON:
    if isinstance(value, str):
        return text(value)
    if isinstance(value, Mapping):
        return _replace(value, text)
    if isinstance(value, Sequence):
        return [_replace_value(item, text) for item in value]
    return value


def _whole(text: str) -> str:
    if SESSION_ID in text and text != SESSION_ID:
        raise InvalidConfiguration(f"{SESSION_ID} must be the whole value in a scope's filter")
    return text
