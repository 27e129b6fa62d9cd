"""The configuration that the platform passes to an agent, and the settings from the environment."""

from __future__ import annotations

import logging
import math
import os
import re
from collections.abc import Callable, Mapping
from typing import TypeVar

import msgspec

from ragstore_client._endpoint import parse_endpoint
from ragstore_client._exceptions import InvalidConfiguration

T = TypeVar("T")

logger = logging.getLogger("ragstore_client.rag")

DEFAULT_CHROMADB_URL = "http://chromadb:8000"
CHROMA_PORT = 8000
DEFAULT_EMBEDDINGS_URL = "http://tei-embeddings:8080"
DEFAULT_EMBEDDING_MODEL = "jinaai/jina-embeddings-v2-base-de"
MAX_TOP_K = 20
"""Maximum number of results of an agent's tool."""


_PORT = re.compile(r":\d*$")


def default_chromadb_url(environ: Mapping[str, str] | None = None) -> str:
    """The URL of an archive without one.

    Args:
        environ: the environment; the process's when None.

    Returns:
        `DOCPROC_CHROMADB_URL`, or `http://chromadb:8000` when that is not set.
    """
    environ = os.environ if environ is None else environ
    return environ.get("DOCPROC_CHROMADB_URL", "").strip() or DEFAULT_CHROMADB_URL


class RagArchiveConfig(msgspec.Struct, frozen=True, kw_only=True):
    """One archive: a collection of documents that a user has enabled.

    Attributes:
        name: its display name.
        collection_name: its collection, `repo_` and the repository's id.
        chromadb_url: URL of the ragstore service, or of the plain Chroma server, that holds it.
        embedding_model: name of the model that it was embedded with.
    """

    name: str
    collection_name: str
    chromadb_url: str = msgspec.field(default_factory=default_chromadb_url)
    embedding_model: str = DEFAULT_EMBEDDING_MODEL

    @property
    def service_url(self) -> str:
        """Its URL with a port. Without one, http means 8000, which is Chroma's; https keeps its own default, 443."""
        url = self.chromadb_url.strip()
        scheme, separator, rest = url.partition("://")
        host, slash, path = rest.partition("/")
        if scheme.lower() != "http" or not host or _PORT.search(host):
            return url
        return f"{scheme}{separator}{host}:{CHROMA_PORT}{slash}{path}"


class RagConfig(msgspec.Struct, frozen=True, kw_only=True):
    """The archives of an invocation, from `config.configurable.rag_config`.

    Attributes:
        archives: the archives to search.
    """

    archives: list[RagArchiveConfig] = []


class RagSettings(msgspec.Struct, frozen=True, kw_only=True):
    """Settings for all archives.

    `DOCPROC_CHROMADB_URL` is not among them: it is the default of `RagArchiveConfig.chromadb_url`.

    Attributes:
        embeddings_url: URL of the embeddings endpoint (`DOCPROC_TEI_EMBEDDINGS_URL`).
        default_top_k: default maximum number of results (`RAG_DEFAULT_TOP_K`).
        default_layer: layer that an agent's tool searches (`RAG_DEFAULT_LAYER`); `*` for all.
        query_timeout: time limit of the search of an archive, in seconds (`RAG_QUERY_TIMEOUT_SECONDS`).
        embed_timeout: time limit of embedding a query, in seconds (`RAG_EMBED_TIMEOUT_SECONDS`).
        api_key: key for ragstore services, if they require one (`RAGSTORE_API_KEY`).
        embeddings_api_key: key for the embeddings endpoint (`DOCPROC_TEI_EMBEDDINGS_API_KEY`).
        chroma_token: token for plain Chroma servers, sent as `X-Chroma-Token` (`DOCPROC_CHROMADB_TOKEN`).
        chroma_tenant: tenant in plain Chroma servers (`DOCPROC_CHROMADB_TENANT`).
        chroma_database: database in plain Chroma servers (`DOCPROC_CHROMADB_DATABASE`).
    """

    embeddings_url: str = DEFAULT_EMBEDDINGS_URL
    default_top_k: int = 5
    default_layer: str = "chunk"
    query_timeout: float = 5.0
    embed_timeout: float = 10.0
    api_key: str | None = None
    embeddings_api_key: str | None = None
    chroma_token: str | None = None
    chroma_tenant: str = "default_tenant"
    chroma_database: str = "default_database"

    @classmethod
    def from_env(cls, environ: Mapping[str, str] | None = None, *, lenient: bool = False) -> RagSettings:
        """Read the settings from the environment.

        Args:
            environ: the environment; the process's when None. An empty variable counts as not set.
            lenient: replace a value that is not valid by the default, with a warning in the log.

        Returns:
            The settings.

        Raises:
            InvalidConfiguration: values of variables are not valid; the text names each of the variables.
        """
        environ = os.environ if environ is None else environ
        variables = {name: value.strip() for name, value in environ.items() if value.strip()}
        wrong: dict[str, str] = {}
        settings = cls(
            embeddings_url=_read(variables, "DOCPROC_TEI_EMBEDDINGS_URL", _url, DEFAULT_EMBEDDINGS_URL, wrong),
            default_top_k=_read(variables, "RAG_DEFAULT_TOP_K", _count, 5, wrong),
            default_layer=variables.get("RAG_DEFAULT_LAYER", "chunk"),
            query_timeout=_read(variables, "RAG_QUERY_TIMEOUT_SECONDS", _seconds, 5.0, wrong),
            embed_timeout=_read(variables, "RAG_EMBED_TIMEOUT_SECONDS", _seconds, 10.0, wrong),
            api_key=_read(variables, "RAGSTORE_API_KEY", _key, None, wrong),
            embeddings_api_key=_read(variables, "DOCPROC_TEI_EMBEDDINGS_API_KEY", _key, None, wrong),
            chroma_token=_read(variables, "DOCPROC_CHROMADB_TOKEN", _key, None, wrong),
            chroma_tenant=variables.get("DOCPROC_CHROMADB_TENANT", "default_tenant"),
            chroma_database=variables.get("DOCPROC_CHROMADB_DATABASE", "default_database"),
        )
        _read(variables, "DOCPROC_CHROMADB_URL", _url, DEFAULT_CHROMADB_URL, wrong)
        if wrong and not lenient:
            raise InvalidConfiguration("; ".join(f"{name} {reason}" for name, reason in wrong.items()))
        for name, reason in wrong.items():
            logger.warning("%s %s; the default is used", name, reason)
        return settings


def extract_rag_config(
    config: Mapping[str, object], *, assistant: Mapping[str, object] | None = None
) -> RagConfig | None:
    """Extract the archives of an invocation.

    Args:
        config: a LangGraph configuration; the thread's where there are two.
        assistant: the assistant's configuration, when the runtime has not merged the two.

    Returns:
        The archives; None when there is no `rag_config`. The thread's replaces the assistant's entirely. A thread with
        a `configurable` but no `rag_config` in it has no archives: the platform omits the key when a user disables all
        of them. A runtime that merges the two configurations before hides this; `{"archives": []}` works with both.

    Raises:
        InvalidConfiguration: the `rag_config` is not valid; the text names the path.
    """
    for source in (config, assistant):
        configurable = (source or {}).get("configurable")
        if isinstance(configurable, Mapping):
            return _rag_config(configurable.get("rag_config"))
    return None


def clamp_top_k(top_k: int) -> int:
    """Clamp a number of results that an agent's tool returns to 1..20."""
    return min(max(top_k, 1), MAX_TOP_K)


def _rag_config(raw: object) -> RagConfig | None:
    if not raw:
        return None
    if isinstance(raw, RagConfig):
        return raw
    if isinstance(raw, Mapping) and isinstance(raw.get("archives"), list | tuple):
        # A null or blank member means "not set", so that its default applies.
        raw = {**raw, "archives": [_drop_blanks(archive) for archive in raw["archives"]]}
    try:
        return msgspec.convert(raw, RagConfig)
    except msgspec.ValidationError as error:
        raise InvalidConfiguration(f"rag_config: {error}") from None


def _drop_blanks(archive: object) -> object:
    if not isinstance(archive, Mapping):
        return archive
    return {key: value for key, value in archive.items() if value is not None and value != ""}


def _read(variables: Mapping[str, str], name: str, parse: Callable[[str], T], default: T, wrong: dict[str, str]) -> T:
    """The value of a variable; the default where it is not set, or wrong, with the reason."""
    if name not in variables:
        return default
    try:
        return parse(variables[name])
    except InvalidConfiguration as error:
        wrong[name] = str(error)
        return default


def _count(text: str) -> int:
    return int(_positive(text, int))


def _seconds(text: str) -> float:
    return _positive(text, float)


def _positive(text: str, parse: Callable[[str], float]) -> float:
    try:
        number = parse(text)
    except ValueError:
        raise InvalidConfiguration("must be a number") from None
    if not (math.isfinite(number) and number > 0):
        raise InvalidConfiguration("must be greater than 0, and finite")
    return number


def _url(text: str) -> str:
    try:
        parse_endpoint(text)
    except InvalidConfiguration:
        raise InvalidConfiguration("must be a URL that begins with http:// or https://") from None
    return text


def _key(text: str) -> str:
    parse_endpoint("http://localhost", text)
    return text
