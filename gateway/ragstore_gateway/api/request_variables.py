"""`RequestVariables`: who sends a request, and in which session. Filters and metadata of documents refer to them."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final, Literal, TypeAlias

from ragstore.kit.errors import InvalidRequest
from ragstore_gateway.api.names import MAX_NAME_CHARACTERS

SESSION_HEADER: Final = "X-Session-Id"
VARIABLES: Final = ("session_id", "conversation_id", "user", "key")
"""The names of the variables, each of which is a field of `RequestVariables`."""

SessionFrom: TypeAlias = Literal["header", "key"]
"""Whether a request names its session itself, or the name of its key is its session."""


@dataclass(frozen=True, slots=True)
class RequestVariables:
    """The values of the variables. An empty one is absent.

    Attributes:
        session_id: the session.
        conversation_id: the conversation.
        user: the user, as the caller names it.
        key: name of the caller's key.
    """

    session_id: str = ""
    conversation_id: str = ""
    user: str = ""
    key: str = ""

    def value(self, name: str) -> str:
        """The value of a variable; empty if the request has none.

        Args:
            name: one of `VARIABLES`.
        """
        return str(getattr(self, name))


NO_VARIABLES: Final = RequestVariables()
"""The variables of a request that names nothing."""


def read_session(headers: Iterable[tuple[bytes, bytes]], key: str, session_from: SessionFrom, in_body: str = "") -> str:
    """The session of a request.

    Args:
        headers: the headers of the request, with names in lower case.
        key: name of its key; empty without keys.
        session_from: where the session is from.
        in_body: the session that the body names; the header's counts if there are both.

    Returns:
        Its id; empty if it has none.

    Raises:
        InvalidRequest: the header is too long, is not UTF-8, or occurs with several values.
    """
    if session_from == "key":
        return key
    name = SESSION_HEADER.lower().encode()
    given = {value for own, value in headers if own == name and value}
    if len(given) > 1:
        # A proxy may have added its own behind the caller's.
        raise InvalidRequest.at(SESSION_HEADER, "Must have one value")
    try:
        session = next(iter(given), b"").decode()
    except UnicodeDecodeError:
        raise InvalidRequest.at(SESSION_HEADER, "Must be UTF-8") from None
    if len(session) > MAX_NAME_CHARACTERS:
        raise InvalidRequest.at(SESSION_HEADER, f"Must have at most {MAX_NAME_CHARACTERS} characters")
    return session or in_body
