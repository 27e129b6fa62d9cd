"""What the platform passes to an agent, and what the environment sets."""

from __future__ import annotations

import math
import os
from collections.abc import Callable, Mapping
from typing import TypeVar

import msgspec

from ragstore_client._exceptions import InvalidConfiguration

T = TypeVar("T")

DEFAULT_CHROMADB_URL = "http://chromadb:8000"
DEFAULT_EMBEDDINGS_URL = "http://tei-embeddings:8080"
DEFAULT_EMBEDDING_MODEL = "jinaai/jina-embeddings-v2-base-de"
MAX_TOP_K = 20


def default_chromadb_url(environ: Mapping[str, str] | None = None) -> str:
    """The URL of an archive that names none.

    Args:
        environ: the variables to read; the process's own when None.

    Returns:
        `DOCPROC_CHROMADB_URL`, or `http://chromadb:8000` when that is not set.
    """
    environ = os.environ if environ is None else environ
    return environ.get("DOCPROC_CHROMADB_URL", "").strip() or DEFAULT_CHROMADB_URL


class RagArchiveConfig(msgspec.Struct, frozen=True, kw_only=True):
    """One archive: a collection of documents that a user has switched on.

    Attributes:
        name: what people call it.
        collection_name: its collection, `repo_` and the repository's id.
        chromadb_url: the ragstore service, or the plain Chroma server, that holds it.
        embedding_model: the model that made its vectors.
    """

    name: str
    collection_name: str
    chromadb_url: str = msgspec.field(default_factory=default_chromadb_url)
    embedding_model: str = DEFAULT_EMBEDDING_MODEL


class RagConfig(msgspec.Struct, frozen=True, kw_only=True):
    """The archives of an invocation, as `config.configurable.rag_config` gives them.

    Attributes:
        archives: what to search.
    """

    archives: list[RagArchiveConfig] = []


class RagSettings(msgspec.Struct, frozen=True, kw_only=True):
    """What the environment sets for all archives.

    `DOCPROC_CHROMADB_URL` is not here: it fills in for an archive without a URL when that archive is read.

    Attributes:
        embeddings_url: the embeddings endpoint (`DOCPROC_TEI_EMBEDDINGS_URL`).
        default_top_k: results when a search does not say how many (`RAG_DEFAULT_TOP_K`).
        default_layer: layer that is searched when a search does not say (`RAG_DEFAULT_LAYER`); `*` for all.
        query_timeout: seconds for an archive to answer (`RAG_QUERY_TIMEOUT_SECONDS`).
        embed_timeout: seconds for the embeddings endpoint to answer (`RAG_EMBED_TIMEOUT_SECONDS`).
        api_key: key for ragstore services, if they want one (`RAGSTORE_API_KEY`).
    """

    embeddings_url: str = DEFAULT_EMBEDDINGS_URL
    default_top_k: int = 5
    default_layer: str = "chunk"
    query_timeout: float = 5.0
    embed_timeout: float = 10.0
    api_key: str | None = None

    @classmethod
    def from_env(cls, environ: Mapping[str, str] | None = None) -> RagSettings:
        """Read the settings.

        Args:
            environ: the variables to read; the process's own when None. An empty one counts as not set.

        Returns:
            The settings.

        Raises:
            InvalidConfiguration: a variable holds no such value; the text names it.
        """
        environ = os.environ if environ is None else environ
        given = {name: value.strip() for name, value in environ.items() if value.strip()}
        return cls(
            embeddings_url=given.get("DOCPROC_TEI_EMBEDDINGS_URL", DEFAULT_EMBEDDINGS_URL),
            default_top_k=_number(given, "RAG_DEFAULT_TOP_K", int, 5),
            default_layer=given.get("RAG_DEFAULT_LAYER", "chunk"),
            query_timeout=_number(given, "RAG_QUERY_TIMEOUT_SECONDS", float, 5.0),
            embed_timeout=_number(given, "RAG_EMBED_TIMEOUT_SECONDS", float, 10.0),
            api_key=given.get("RAGSTORE_API_KEY"),
        )


def extract_rag_config(
    config: Mapping[str, object], *, assistant: Mapping[str, object] | None = None
) -> RagConfig | None:
    """Find the archives of an invocation.

    Args:
        config: a LangGraph configuration, of the thread where there are two.
        assistant: the assistant's configuration, when the runtime has not merged the two itself.

    Returns:
        The archives; None when there is no `rag_config`. One that the thread gives replaces the assistant's whole,
        also when it lists no archive.

    Raises:
        InvalidConfiguration: it is not what the platform promises; the text says where.
    """
    for source in (config, assistant):
        configurable = (source or {}).get("configurable")
        if isinstance(configurable, Mapping) and "rag_config" in configurable:
            return _rag_config(configurable["rag_config"])
    return None


def clamp_top_k(top_k: int) -> int:
    """Bring a number of results to what is allowed, 1 to 20."""
    return min(max(top_k, 1), MAX_TOP_K)


def _rag_config(raw: object) -> RagConfig | None:
    if not raw:
        return None
    if isinstance(raw, RagConfig):
        return raw
    if isinstance(raw, Mapping) and isinstance(raw.get("archives"), list | tuple):
        # A null or blank member means "not given", so that its default holds.
        raw = {**raw, "archives": [_without_blanks(archive) for archive in raw["archives"]]}
    try:
        return msgspec.convert(raw, RagConfig)
    except msgspec.ValidationError as error:
        raise InvalidConfiguration(f"rag_config: {error}") from None


def _without_blanks(archive: object) -> object:
    if not isinstance(archive, Mapping):
        return archive
    return {key: value for key, value in archive.items() if value is not None and value != ""}


def _number(given: Mapping[str, str], name: str, kind: Callable[[str], T], default: T) -> T:
    if name not in given:
        return default
    try:
        number = kind(given[name])
    except ValueError:
        raise InvalidConfiguration(f"{name} must be a number") from None
    if isinstance(number, int | float) and not (math.isfinite(number) and number > 0):
        raise InvalidConfiguration(f"{name} must be greater than 0, and finite")
    return number
