"""The settings of a context builder."""

from __future__ import annotations

import math
import os
from collections.abc import Mapping
from typing import Literal, TypeAlias

import msgspec

from ragstore_client._exceptions import InvalidConfiguration

ShortQuestions: TypeAlias = Literal["search", "skip"]

MAX_CANDIDATES = 1000
"""Maximum number of passages that one search returns; the service's own maximum."""


class ContextSettings(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The settings of a context builder, checked when they are made. `from_env()` reads the variables in parentheses.

    Attributes:
        enabled: whether anything is retrieved (`ENABLE_RAG`).
        token_budget: maximum number of tokens of the formatted context (`RAG_TOKEN_BUDGET`).
        top_k_max: maximum number of passages of a context (`RAG_TOP_K_MAX`).
        similarity_threshold: minimum cosine similarity of a passage (`RAG_SIMILARITY_THRESHOLD`).
        cache_ttl_seconds: how long a retrieval is cached; 0 disables the cache (`RAG_CACHE_TTL_SECONDS`).
        timeout_seconds: time limit of a retrieval: embedding, search and reranking (`RAG_TIMEOUT_SECONDS`).
        debug: whether `debug_line()` returns a line (`RAG_DEBUG_MODE`). The line contains ids and metadata.
        diversity: orders by maximal marginal relevance with this weight, 0 to 1; None orders by similarity
            (`MMR_LAMBDA`).
        fetch_k: number of passages to fetch; None means three times `top_k_max` where passages are chosen from them
            (MMR, a reranker, limits for each source), and `top_k_max` otherwise (`QDRANT_TOP_K`).
        max_sources: maximum number of different sources; None for no limit (`RAG_MAX_SOURCES`).
        max_characters: maximum number of characters of a passage; None for no limit (`RAG_MAX_CHARS`).
        deduplicate_by_url: whether passages with the same `url` are duplicates (`RAG_DEDUPLICATE_BY_URL`).
        short_questions: `search` searches for a short question too, and needs a passage above the threshold for it;
            `skip` never searches for one (`RAG_SHORT_QUESTIONS`).
        global_session_id: the session id of documents of all sessions, in `session_scopes`
            (`RAG_GLOBAL_SESSION_ID`).
        min_question_characters: a question with fewer characters is short (`RAG_MIN_QUESTION_CHARS`).

    Raises:
        InvalidConfiguration: a value is out of range; the text names the setting.
    """

    enabled: bool = True
    token_budget: int = 50_000
    top_k_max: int = 40
    similarity_threshold: float = 0.2
    cache_ttl_seconds: float = 300.0
    timeout_seconds: float = 6.0
    debug: bool = False
    diversity: float | None = None
    fetch_k: int | None = None
    max_sources: int | None = None
    max_characters: int | None = None
    deduplicate_by_url: bool = False
    short_questions: ShortQuestions = "search"
    min_question_characters: int = 10
    global_session_id: str = "GLOBAL"

    def __post_init__(self) -> None:
        """Check the values."""
        for name, minimum, maximum in _RANGES:
            value: object = getattr(self, name)
            if value is None and name in _OPTIONAL:
                continue
            kinds = int if name in _INTEGERS else int | float
            if isinstance(value, bool) or not isinstance(value, kinds):
                raise InvalidConfiguration(f"{name} must be a number")
            # An integer may be too large for a float, and is finite.
            if not (minimum <= value <= maximum and (isinstance(value, int) or math.isfinite(value))):
                upper = "" if maximum == math.inf else f", and at most {maximum:g}"
                raise InvalidConfiguration(f"{name} must be at least {minimum:g}{upper}")
        for name in ("enabled", "debug", "deduplicate_by_url"):
            if not isinstance(getattr(self, name), bool):
                raise InvalidConfiguration(f"{name} must be true or false")
        if self.timeout_seconds == 0:
            raise InvalidConfiguration("timeout_seconds must be greater than 0")
        if self.short_questions not in ("search", "skip"):
            raise InvalidConfiguration("short_questions must be 'search' or 'skip'")
        identifier: object = self.global_session_id
        if not (isinstance(identifier, str) and identifier):
            raise InvalidConfiguration("global_session_id must be a string that is not empty")

    def override(self, **changes: object) -> ContextSettings:
        """Settings with some values replaced, for one call.

        Args:
            changes: new values by the name of the attribute.

        Returns:
            The new settings.

        Raises:
            InvalidConfiguration: there is no such setting, or a value is out of range.
        """
        if unknown := changes.keys() - set(self.__struct_fields__):
            raise InvalidConfiguration(f"no setting {sorted(unknown)[0]!r}")
        return msgspec.structs.replace(self, **changes)

    @classmethod
    def from_env(cls, environ: Mapping[str, str] | None = None) -> ContextSettings:
        """Read the settings from the environment.

        Args:
            environ: the environment; the process's when None. An empty variable counts as not set.

        Returns:
            The settings.

        Raises:
            InvalidConfiguration: the value of a variable is not valid; the text names the variable.
        """
        environ = os.environ if environ is None else environ
        settings = cls()
        for name, field in VARIABLES.items():
            given: object = environ.get(name, "")
            if not isinstance(given, str):
                raise InvalidConfiguration(f"{name} must be a string, as all variables of an environment")
            text = given.strip()
            if not text:
                continue
            value = _parse(name, field, text)
            try:
                settings = settings.override(**{field: value})
            except InvalidConfiguration as error:
                raise InvalidConfiguration(str(error).replace(field, name, 1)) from None
        return settings

    def candidates(self, *, reranks: bool) -> int:
        """Number of passages to fetch for a scope without a `top_k`.

        Args:
            reranks: whether a reranker chooses from them.
        """
        chooses = reranks or self.deduplicate_by_url or (self.diversity, self.max_sources) != (None, None)
        wanted = self.fetch_k or (_FAN_OUT * self.top_k_max if chooses else self.top_k_max)
        return min(wanted, MAX_CANDIDATES)


VARIABLES = {
    "ENABLE_RAG": "enabled",
    "RAG_TOKEN_BUDGET": "token_budget",
    "RAG_TOP_K_MAX": "top_k_max",
    "RAG_SIMILARITY_THRESHOLD": "similarity_threshold",
    "RAG_CACHE_TTL_SECONDS": "cache_ttl_seconds",
    "RAG_TIMEOUT_SECONDS": "timeout_seconds",
    "RAG_DEBUG_MODE": "debug",
    "MMR_LAMBDA": "diversity",
    "QDRANT_TOP_K": "fetch_k",
    "RAG_MAX_SOURCES": "max_sources",
    "RAG_MAX_CHARS": "max_characters",
    "RAG_DEDUPLICATE_BY_URL": "deduplicate_by_url",
    "RAG_SHORT_QUESTIONS": "short_questions",
    "RAG_GLOBAL_SESSION_ID": "global_session_id",
    "RAG_MIN_QUESTION_CHARS": "min_question_characters",
}
"""The attribute that each environment variable sets."""

_FAN_OUT = 3
"""Passages fetched for each passage of the context, where a later step chooses."""

_RANGES: tuple[tuple[str, float, float], ...] = (
    ("token_budget", 0, math.inf),
    ("top_k_max", 1, MAX_CANDIDATES),
    ("similarity_threshold", -1, 1),
    ("cache_ttl_seconds", 0, math.inf),
    ("timeout_seconds", 0, 3600),
    ("diversity", 0, 1),
    ("fetch_k", 1, MAX_CANDIDATES),
    ("max_sources", 1, math.inf),
    ("max_characters", 4, math.inf),
    ("min_question_characters", 0, math.inf),
)
_INTEGERS = {"token_budget", "top_k_max", "fetch_k", "max_sources", "max_characters", "min_question_characters"}
_OPTIONAL = {"diversity", "fetch_k", "max_sources", "max_characters"}
_BOOLEANS = {"enabled", "debug", "deduplicate_by_url"}
_WORDS = {"1": True, "true": True, "yes": True, "on": True, "0": False, "false": False, "no": False, "off": False}


def _parse(name: str, field: str, text: str) -> object:
    if field == "short_questions":
        return text.lower()
    if field == "global_session_id":
        return text
    if field in _BOOLEANS:
        if text.lower() not in _WORDS:
            raise InvalidConfiguration(f"{name} must be true or false")
        return _WORDS[text.lower()]
    try:
        return int(text) if field in _INTEGERS else float(text)
    except ValueError:
        raise InvalidConfiguration(f"{name} must be a{' whole' if field in _INTEGERS else ''} number") from None
