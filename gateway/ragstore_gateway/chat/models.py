"""The upstream's models, and which of them serves a `rag/` model."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from typing import Final

import aiohttp
import msgspec
import structlog
from multidict import CIMultiDict

from ragstore.kit.errors import ServiceError
from ragstore_gateway.chat.body import RAG_PREFIX, UNREADABLE, encode_raw, write_fields
from ragstore_gateway.chat.headers import is_credential
from ragstore_gateway.chat.rag_models import PlainModels, RagModel, RagModels
from ragstore_gateway.chat.relay import read_all
from ragstore_gateway.chat.upstream import Upstream
from ragstore_gateway.errors import ModelNotFound
from ragstore_gateway.settings import variable

FRESH_SECONDS: Final = 60.0
"""Age of a list of models up to which it is used. An older one is used while a new one is read."""

RECHECK_SECONDS: Final = 5.0
"""Age of a list above which a model that it does not have is looked up in a new one."""

LIST_SECONDS: Final = 5.0
"""Maximum time for reading the list before a chat. It serves to find a name, so the chat does not fail with it."""

MAX_LISTS: Final = 256
"""Maximum number of lists kept: with forwarded keys, each caller has its own."""

MAX_LIST_BYTES: Final = 16 * 1024 * 1024
"""Maximum size of a list. A larger one counts as none."""

LOCAL_PREFIX: Final = "local/"
MAX_DETAIL: Final = 400

_log = structlog.get_logger(__name__)


class _Entry(msgspec.Struct, frozen=True):
    id: str


class _List(msgspec.Struct, frozen=True):
    data: list[msgspec.Raw]


@dataclass(frozen=True, slots=True)
class ModelEntry:
    """A model of the upstream.

    Attributes:
        fields: its fields, as the upstream sent them.
    """

    id: str
    fields: dict[str, msgspec.Raw]

    def renamed(self, name: str) -> msgspec.Raw:
        """The model under another id."""
        return msgspec.Raw(write_fields({**self.fields, "id": encode_raw(name)}))


def read_models(content: bytes) -> list[ModelEntry]:
    """Read a list of models.

    Args:
        content: the response's body.

    Raises:
        ValueError: it is not one.
    """
    try:
        listed = msgspec.json.decode(content, type=_List).data
        fields = [msgspec.json.decode(entry, type=dict[str, msgspec.Raw]) for entry in listed]
        return [
            ModelEntry(msgspec.json.decode(entry, type=_Entry).id, own)
            for entry, own in zip(listed, fields, strict=True)
        ]
    except UNREADABLE as error:
        raise ValueError("not a list of models") from error


@dataclass(slots=True)
class _Cached:
    entries: list[ModelEntry] | None
    at: float


class Models:
    """Finds the model for a name, with a cache of the upstream's list.

    Args:
        assistants: named models with retrieval.
        plain: makes the models of all other names.
        fallback: the upstream's model for a name that it does not have; empty for none.
    """

    def __init__(self, upstream: Upstream, assistants: RagModels, plain: PlainModels, fallback: str) -> None:
        self._upstream = upstream
        self._assistants = assistants
        self._plain = plain
        self._fallback = fallback
        self._lists: dict[str, _Cached] = {}
        self._reading: dict[str, asyncio.Task[list[ModelEntry] | None]] = {}

    async def find(self, name: str, headers: CIMultiDict[str]) -> tuple[RagModel, str]:
        """Find the model for a `rag/` name.

        Args:
            name: the name without the prefix.
            headers: the headers of a request to the upstream, for its list of models.

        Returns:
            The model with retrieval, and the upstream's model that serves it.

        Raises:
            DatabaseUnavailable: whether the name is an assistant is unknown. A plain model would lack its system
                message, its knowledge bases and its entry in the audit ledger.
            ModelNotFound: the upstream has none.
        """
        model = await self._assistants.find(name)
        if model is None:
            names = (name, LOCAL_PREFIX + name, self._fallback)
            model = self._plain.model([candidate for candidate in names if candidate])
        found = await self._first(model.upstream_models, headers)
        if found is None:
            raise ModelNotFound(f"{model.no_upstream_model}: '{RAG_PREFIX}{name}'"[:MAX_DETAIL])
        return model, found

    async def default(self, headers: CIMultiDict[str]) -> str:
        """The model for a request that names none: the model of the settings, or else the first one of the upstream.

        Args:
            headers: the headers of a request to the upstream, for its list of models.

        Raises:
            ModelNotFound: the upstream has none.
        """
        if self._fallback:
            return self._fallback
        entries = await self._list(headers, FRESH_SECONDS) or []
        first = next((entry.id for entry in entries if "*" not in entry.id), None)
        if first is None:
            raise ModelNotFound(f"The model server lists no model: set {variable('model')} to one")
        return first

    async def entry(self, name: str, headers: CIMultiDict[str]) -> msgspec.Raw:
        """A `rag/` model as an entry of the list.

        Args:
            name: the name without the prefix.
            headers: the headers of a request to the upstream.

        Raises:
            DatabaseUnavailable: whether the name is an assistant is unknown.
            ModelNotFound: there is no such model.
        """
        _, found = await self.find(name, headers)
        entries = await self._list(headers, FRESH_SECONDS) or []
        own = next((entry for entry in entries if entry.id == found), ModelEntry(found, _minimal()))
        return own.renamed(RAG_PREFIX + name)

    async def with_rag(self, entries: Sequence[ModelEntry]) -> list[msgspec.Raw]:
        """The entries of the `rag/` models beside the upstream's models, without assistants that it has no model for.

        Args:
            entries: the upstream's models.

        Raises:
            DatabaseUnavailable: the assistants are unknown.
        """
        names = _Names(entries)
        known = names.ids
        usable = (name for name, model in (await self._assistants.upstream_models()).items() if names.first_of([model]))
        assistants = [RAG_PREFIX + name for name in usable]
        plain = {RAG_PREFIX + entry.id: entry for entry in entries if not entry.id.startswith(RAG_PREFIX)}
        for entry in entries:
            if entry.id.startswith(LOCAL_PREFIX):
                # `find` tries this prefix, too.
                plain.setdefault(RAG_PREFIX + entry.id.removeprefix(LOCAL_PREFIX), entry)
        added = [ModelEntry(name, _minimal()).renamed(name) for name in assistants if name not in known]
        taken = known | set(assistants)
        return [*added, *(entry.renamed(name) for name, entry in plain.items() if name not in taken)]

    async def _first(self, names: Sequence[str], headers: CIMultiDict[str]) -> str | None:
        """The first name that the upstream has; without a list, the first one."""
        entries = await self._list(headers, FRESH_SECONDS)
        found = _first_of(names, entries)
        if found is None:
            found = _first_of(names, await self._list(headers, RECHECK_SECONDS, wait=True))
        return found

    async def _list(
        self, headers: CIMultiDict[str], max_age_seconds: float, *, wait: bool = False
    ) -> list[ModelEntry] | None:
        """The list for a caller; None if it cannot be read. An old one is used while a new one is read."""
        # With forwarded keys, each caller has its own list, whichever header its key is in.
        key = "\n".join(f"{name.lower()}:{value}" for name, value in headers.items() if is_credential(name))
        cached = self._lists.get(key)
        now = asyncio.get_running_loop().time()
        if cached is not None and (now - cached.at < max_age_seconds):
            return cached.entries
        reading = self._reading.get(key)
        if reading is None:
            reading = asyncio.get_running_loop().create_task(self._read(key, headers.copy()), name="read-models")
            self._reading[key] = reading
            reading.add_done_callback(lambda _: self._reading.pop(key, None))
        if cached is not None and cached.entries is not None and not wait:
            return cached.entries
        # Other callers may wait for the same list, so a caller that leaves does not cancel it.
        return await asyncio.shield(reading)

    async def _read(self, key: str, headers: CIMultiDict[str]) -> list[ModelEntry] | None:
        for name in ("Content-Type", "Accept-Encoding", "Accept"):
            headers.popall(name, None)
        entries: list[ModelEntry] | None = None
        try:
            async with asyncio.timeout(LIST_SECONDS):
                response = await self._upstream.send("GET", "/models", headers, decompress=True)
                async with response:
                    if response.status == 200:
                        entries = read_models(await read_all(response, MAX_LIST_BYTES))
        except (ServiceError, aiohttp.ClientError, TimeoutError, ValueError) as error:
            _log.warning("models not listed", error=type(error).__name__)
        if key not in self._lists and len(self._lists) >= MAX_LISTS:
            self._lists.pop(next(iter(self._lists)))
        known = self._lists.get(key)
        if entries is None and known is not None:
            entries = known.entries
        self._lists[key] = _Cached(entries, asyncio.get_running_loop().time())
        return entries


class _Names:
    """The names of an upstream's models.

    Args:
        entries: the models.
    """

    def __init__(self, entries: Sequence[ModelEntry]) -> None:
        self.ids = {entry.id for entry in entries}
        # LiteLLM lists a whole provider as `openai/*`.
        self._patterns = [name for name in self.ids if "*" in name]

    def first_of(self, names: Sequence[str]) -> str | None:
        """The first name that the upstream has."""
        matches = (
            name for name in names if name in self.ids or any(fnmatchcase(name, each) for each in self._patterns)
        )
        return next(matches, None)


def _first_of(names: Sequence[str], entries: Sequence[ModelEntry] | None) -> str | None:
    if entries is None:
        return names[0] if names else None
    return _Names(entries).first_of(names)


def _minimal() -> dict[str, msgspec.Raw]:
    fields = {"id": "", "object": "model", "created": 0, "owned_by": "ragstore"}
    return {name: encode_raw(value) for name, value in fields.items()}
