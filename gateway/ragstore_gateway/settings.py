"""The gateway's settings: one frozen struct, read from `RAGSTORE_GATEWAY_*` environment variables."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Annotated, Any, Final, Literal
from urllib.parse import parse_qs, urlsplit

from msgspec import Meta

from ragstore import settings as store_settings
from ragstore.kit import settings as kit_settings
from ragstore.kit.settings import SECRET, SECRET_USERINFO, Count, Port, Seconds, ServerSettings, SettingsError

PREFIX: Final = "RAGSTORE_GATEWAY_"

URL_VARIABLE: Final = "RAGSTORE_GATEWAY_URL"
KEY_VARIABLE: Final = "RAGSTORE_GATEWAY_API_KEY"
CALLERS: Final = frozenset({URL_VARIABLE, KEY_VARIABLE})
"""Variables of the commands that call a running gateway. None is a setting of the gateway."""

POSTGRESQL: Final = ("postgresql", "postgres", "postgresql+psycopg")
"""Schemes of the address of a PostgreSQL database. The driver is psycopg for each of them."""

ALIASES: Final[Mapping[str, str]] = {
    "LITELLM_BASE": "upstream_url",
    "EMBEDDER_BASE": "embedding_url",
    "MODEL_NAME": "embedding_model",
    "ENABLE_RAG": "rag_enabled",
    # Both are the number of URLs in a prompt; the second one wins.
    "RAG_TOP_K_MAX": "rag_top_k",
    "QDRANT_TOP_K": "rag_top_k",
    "MMR_LAMBDA": "rag_diversity",
    "RAG_MAX_SOURCES": "rag_max_sources",
    "RAG_MAX_CHARS": "rag_max_characters",
    "RAG_TOKEN_BUDGET": "rag_token_budget",
    "RAG_SIMILARITY_THRESHOLD": "rag_similarity_threshold",
    "RAG_TIMEOUT_SECONDS": "rag_timeout_seconds",
    "RAG_DEBUG_MODE": "rag_debug",
    "SEARXNG_URL": "searxng_url",
    # Before 0.3, the collections that summaries were stored in.
    f"{PREFIX}SUMMARY_COLLECTIONS": "linked_collections",
}
"""Variables of other programs that are read, too, with the field that they set. The gateway's own variable wins."""

UNSERVED: Final[Mapping[str, str]] = {
    "QDRANT_URL": "create a knowledge base with the storeType qdrant",
    "AGENT_EMBEDDER_URL": f"set {PREFIX}EMBEDDING_URL",
    "AGENT_QDRANT_VECTOR_SIZE": "the dimension is the model's",
}
"""Variables of the same programs that have no effect here, with the remedy. The log names each one that is set."""

REWRITE_PROMPT: Final = (
    "Write the last message of the user as one question that can be understood without the conversation: replace "
    "pronouns and references by what they stand for. Reply with this question only, in the language of the user."
)

TASK_PATTERNS: Final = ("### Task:*",)
"""The requests of Open WebUI for titles, tags and follow-up questions."""


class Settings(ServerSettings, frozen=True, kw_only=True):
    """Everything that can be set. Each field is read from `RAGSTORE_GATEWAY_` and its name in capitals.

    Attributes:
        max_bytes_in_flight: maximum size of all bodies in flight together, and of the responses that are made or sent;
            a further one waits up to 5 s and is then 503. 0 means an eighth of the container's memory limit, or of the
            machine's memory without one, and less below 1.25 GiB.
        data_path: folder of the gateway's state, and of embedded Chroma when the store runs in the same process.
        database_url: PostgreSQL for the gateway's state, such as `postgresql://user:password@host/database`; empty
            means SQLite, in `data_path`.
        upstream_url: base URL of an OpenAI-compatible API, which ends in `/v1`; empty means that there is no chat.
        upstream_key: key for the upstream.
        upstream_timeout_seconds: longest wait for the first byte of an upstream response, and between two chunks.
        embedding_provider: provider of embeddings, see [embeddings](embeddings.md); empty means `local`, or `ragproxy`
            with `EMBEDDER_BASE`.
        embedding_model: its model; empty means the provider's default. `MODEL_NAME` is read, too.
        embedding_url: its base URL; empty means the provider's default. `EMBEDDER_BASE` is read, too.
        embedding_parameters: its further parameters, as a JSON object; secrets are references such as `${env:NAME}`.
        embedding_timeout_seconds: time limit of a request to a provider, retries included, and of the vectors of one
            request to the gateway, waits for the provider's slots included.
        embedding_concurrency: maximum number of requests in flight to one provider.
        embedding_cache_bytes: maximum size of the vectors kept; 0 keeps none.
        embedding_max_waiting: maximum number of requests of each key, or of all callers without keys, that compute
            vectors or wait for it; a further one is 429.
        max_embedding_texts: maximum number of texts in one request for embeddings.
        max_embedding_text_bytes: largest text of a request for embeddings, as UTF-8; a larger one is 400.
        extraction_timeout_seconds: time limit for the text of one document.
        extraction_memory_bytes: maximum memory of a process that extracts texts, see
            [extraction](extraction-and-splitting.md#limits-of-extraction).
        extraction_concurrency: maximum number of such processes, and of documents that are extracted concurrently; as
            many processes split texts.
        splitting_timeout_seconds: time limit for splitting the text of one document into chunks.
        splitting_memory_bytes: maximum memory of a process that splits texts, see
            [splitting](extraction-and-splitting.md#limits-of-splitting).
        max_document_bytes: largest document; a larger one is 413.
        max_document_text_characters: maximum number of characters of a document's text; a longer one is 413.
        max_files_bytes: maximum size of all files of `/v1/files` together; a file beyond it is 413.
        max_document_chunks: maximum number of chunks of a document; the ingestion of one with more fails.
        ingestion_workers: whether `ragstore-gateway worker` processes run the jobs of knowledge bases and the scheduled
            runs of sources; the gateway itself runs only the jobs of `in-memory` bases then. See
            [workers](ingestion.md#workers).
        ingestion_concurrency: maximum number of documents that one process ingests concurrently.
        ingestion_max_waiting: maximum number of ingestions that have not ended, of all replicas; more are 503.
        ingestion_max_waiting_bytes: maximum size of their documents together; more are 503. One document alone may be
            larger.
        ingestion_retry_seconds: how long an ingestion repeats a call while a provider or an engine is unavailable.
        ingestion_lease_seconds: time after which the other replicas continue the ingestions of one that has ended.
        ingestion_retention_days: how long the state of an ingestion is kept after its end.
        collection_prefix: begins the names of the collections of knowledge bases. The store must reserve it, see
            [collections of the gateway](security.md#collections-of-the-gateway).
        engines: the named engines of knowledge bases, as a JSON object; secrets are references such as `${env:NAME}`.
            See [named engines](engines.md#named-engines).
        engine_placement: the named engines that new knowledge bases are placed on if they choose none, separated by
            commas: each base on the engine with the fewest chunks. Empty means that they are in the gateway's store.
        check_store: whether knowledge bases are 503 over a store that has none of the collections of the documents in
            the state. `false` uses such a store, in which earlier documents are not found.
        models_path: folder of the models that a configuration may name as `onnx:FOLDER`; empty means that there are
            none.
        secrets_path: folder of the files that `${file:PATH}` refers to; empty means that there are none.
        secret_variables: patterns of the variables that `${env:NAME}` may refer to, separated by commas. Variables that
            begin with `RAGSTORE_`, `PATH` and `HOME` are never among them.
        allow_literal_secrets: whether configurations may contain secrets themselves.
        vault_url: address of the Vault server that `${vault:PATH#FIELD}` refers to; empty means that there is none.
        vault_token: token for it.
        vault_mount: path of its key-value engine, version 2.
        forward_key: whether the upstream receives the key that the caller sent, in place of `upstream_key`.
        model: the upstream's model for a `rag/` model that the upstream does not have.
        history: whether a `rag/` model receives the earlier messages of a conversation, or the question only.
        on_retrieval_failure: whether a chat continues without context when retrieval fails, or is 503.
        rag_query: the texts of a conversation that assistants search for: `conversation`, the messages of the user,
            `last`, the last one, or `rewrite`, what a model makes of them. An assistant may choose another.
        rag_rewrite_prompt: the system message with which `rewrite` requests a question of the upstream's model.
        rag_task_patterns: patterns such as `### Task:*` of requests of chat clients that are no questions, as a JSON
            list; they pass without passages.
        rag_enabled: whether `rag/` models retrieve anything.
        rag_collections: the knowledge bases that `rag/` models without an assistant search, separated by commas. Each
            one exists by default, over the collection of its name in the store.
        rag_where: filter by the metadata of passages for plain `rag/` models, as a JSON object; see
            [whose documents](assistants.md#whose-documents).
        session_from: where the session of a request is from: `header`, which is `X-Session-Id` or the body, or `key`,
            the name of the caller's key, so that no caller chooses it.
        rag_top_k: number of the nearest URLs whose best passages are in a prompt of a plain `rag/` model.
        rag_diversity: weight of diversity in the order of these passages, by maximal marginal relevance, 0 to 1. It
            drops none.
        rag_max_sources: maximum number of different sources in a prompt.
        rag_max_characters: maximum number of characters of a passage; a longer one is cut.
        rag_token_budget: maximum number of tokens of the passages of a prompt.
        rag_similarity_threshold: minimum cosine similarity of a passage of a plain `rag/` model; -1 for none.
        rag_timeout_seconds: time limit of retrieval, embedding included.
        rag_debug: whether responses of `rag/` models show which passages were used. It shows ids and metadata.
        rag_annotations: whether responses of `rag/` models contain OpenAI's annotations of cited sources.
        rag_annotation_order: the order of the annotations of a chat completion: `position`, or `number`, by the number
            of the passage, with an annotation for each uncited number below the largest cited one. Open WebUI needs
            `number`: it takes the position of an annotation for the number.
        rag_list_sources: whether replies of `rag/` models end with a list of the sources that they cite, for clients
            that ignore annotations. An assistant may choose otherwise.
        public_url: address of the gateway in links to passages; the address that the caller uses by default.
        chat_max_body_bytes: largest body of a request to the upstream; a larger one is 413.
        chat_tokens_per_minute: tokens a minute for each key, or for all callers without keys; 0 means no limit.
        chat_max_streams: maximum number of concurrent streams of each key, or of all callers without keys; 0 means no
            limit.
        tenants: the limits of tenants, as a JSON object; a tenant is a label of keys. See
            [tenants](tenants.md).
        http_call_hosts: the hosts that the `httpCalls` of assistants may call, as `host` or `host:port`, separated by
            commas. They may be in the inner network.
        allow_hosts: hosts of the inner network whose pages may be fetched, as `host` or `host:port`, separated by
            commas; see [the web](web.md).
        fetch_ports: ports that may be fetched from any host, separated by commas.
        fetch_timeout_seconds: time limit for one page, redirects and robots.txt included.
        fetch_max_bytes: largest page, as sent and decompressed.
        fetch_max_redirects: maximum number of redirects of a page.
        fetch_concurrency: maximum number of concurrent fetches.
        fetch_concurrency_per_host: maximum number of concurrent fetches from one host.
        fetch_robots: whether robots.txt is honoured.
        searxng_url: address of the SearxNG server that `GET /search` uses; empty means that there is none.
        summary_max_characters: maximum number of characters of all sources of a summary that the model reads.
        linked_collections: the collections of a remote store that knowledge bases may search, separated by commas;
            collections of `rag_collections` always may. With a store in this process, the caller's key decides.
        keep_contexts: whether the passages that an assistant added to a conversation are kept with its steps.
        retention_days: how long contexts of conversations are kept.
        response_retention_days: how long a conversation of `/v1/responses` is stored after its last response; 0 stores
            none.
        audit_required: whether a chat with an assistant waits until its entry is in the audit ledger, and is 503 if it
            cannot be written. Otherwise the entry is written in the background.
        mcp_write: whether agents may store texts by the tool `remember` of [MCP](mcp.md), if their key is a writer's.
        ui: whether [the page](page.md) is served at `/ui/`.
    """

    port: Port = 8090
    data_path: str = "./data"
    database_url: Annotated[str, SECRET_USERINFO] = ""
    upstream_url: Annotated[str, SECRET_USERINFO] = ""
    upstream_key: Annotated[str, SECRET] = ""
    upstream_timeout_seconds: Seconds = 600.0
    embedding_provider: str = ""
    embedding_model: str = ""
    embedding_url: str = ""
    embedding_parameters: Annotated[dict[str, str | int], SECRET] = {}
    embedding_timeout_seconds: Seconds = 20.0
    embedding_concurrency: Count = 4
    embedding_cache_bytes: Annotated[int, Meta(ge=0)] = 64 * 1024 * 1024
    embedding_max_waiting: Count = 256
    max_embedding_texts: Count = 2048
    max_embedding_text_bytes: Count = 128 * 1024
    extraction_timeout_seconds: Seconds = 60.0
    extraction_memory_bytes: Annotated[int, Meta(ge=128 * 1024 * 1024)] = 512 * 1024 * 1024
    extraction_concurrency: Count = 2
    splitting_timeout_seconds: Seconds = 120.0
    splitting_memory_bytes: Annotated[int, Meta(ge=256 * 1024 * 1024)] = 1024 * 1024 * 1024
    max_document_bytes: Count = 50 * 1024 * 1024
    max_document_text_characters: Count = 10_000_000
    max_document_chunks: Count = 50_000
    max_files_bytes: Count = 10 * 1024**3
    ingestion_workers: bool = False
    ingestion_concurrency: Count = 8
    ingestion_max_waiting: Count = 10_000
    ingestion_max_waiting_bytes: Count = 5 * 1024**3
    ingestion_retry_seconds: Annotated[float, Meta(ge=0)] = 600.0
    ingestion_lease_seconds: Annotated[float, Meta(ge=1, le=3600)] = 15.0
    ingestion_retention_days: Annotated[float, Meta(ge=0)] = 7.0
    collection_prefix: str = "kb_"
    engines: Annotated[dict[str, dict[str, Any]], SECRET] = {}
    engine_placement: str = ""
    check_store: bool = True
    models_path: str = ""
    secrets_path: str = ""
    secret_variables: str = "*_API_KEY,*_TOKEN"  # noqa: S105  # patterns of names
    allow_literal_secrets: bool = False
    vault_url: Annotated[str, SECRET_USERINFO] = ""
    vault_token: Annotated[str, SECRET] = ""
    vault_mount: str = "secret"

    @property
    def provider(self) -> str:
        """The provider of embeddings in force."""
        return self.embedding_provider or "local"

    forward_key: bool = False
    model: str = ""
    history: Literal["keep", "drop"] = "keep"
    on_retrieval_failure: Literal["continue", "fail"] = "continue"
    rag_query: Literal["conversation", "last", "rewrite"] = "conversation"
    rag_rewrite_prompt: str = REWRITE_PROMPT
    rag_task_patterns: tuple[str, ...] = TASK_PATTERNS
    rag_enabled: bool = True
    rag_collections: str = "memory"
    rag_where: dict[str, Any] = {}
    session_from: Literal["header", "key"] = "header"
    rag_top_k: Annotated[int, Meta(ge=1, le=333)] = 5
    rag_diversity: Annotated[float, Meta(ge=0, le=1)] = 0.7
    rag_max_sources: Count = 5
    rag_max_characters: Count = 1200
    rag_token_budget: Annotated[int, Meta(ge=0)] = 50_000
    rag_similarity_threshold: Annotated[float, Meta(ge=-1, le=1)] = -1.0
    rag_timeout_seconds: Annotated[float, Meta(gt=0, le=3600)] = 6.0
    rag_debug: bool = False
    rag_annotations: bool = True
    rag_annotation_order: Literal["position", "number"] = "position"
    rag_list_sources: bool = False
    public_url: str = ""
    chat_max_body_bytes: Count = 32 * 1024 * 1024
    chat_tokens_per_minute: Annotated[int, Meta(ge=0)] = 0
    chat_max_streams: Annotated[int, Meta(ge=0)] = 0
    tenants: dict[str, dict[str, int]] = {}
    http_call_hosts: str = ""
    allow_hosts: str = ""
    fetch_ports: str = "80,443"
    fetch_timeout_seconds: Seconds = 15.0
    fetch_max_bytes: Count = 5 * 1024 * 1024
    fetch_max_redirects: Annotated[int, Meta(ge=0, le=20)] = 5
    fetch_concurrency: Count = 16
    fetch_concurrency_per_host: Count = 2
    fetch_robots: bool = True
    searxng_url: str = ""
    summary_max_characters: Annotated[int, Meta(ge=1000)] = 40_000
    linked_collections: str = ""
    keep_contexts: bool = False
    retention_days: Annotated[float, Meta(gt=0, le=36_500)] = 30.0
    response_retention_days: Annotated[float, Meta(ge=0, le=36_500)] = 30.0
    audit_required: bool = False
    mcp_write: bool = False
    ui: bool = True

    @property
    def allowed_http_call_hosts(self) -> list[str]:
        """The hosts that the httpCalls of assistants may call."""
        return _entries(self.http_call_hosts)

    @property
    def allowed_linked_collections(self) -> list[str]:
        """The collections of a remote store that knowledge bases may search."""
        return [*self.collections, *_entries(self.linked_collections)]

    @property
    def placement_engines(self) -> list[str]:
        """The named engines that new bases are placed on."""
        return _entries(self.engine_placement)

    @property
    def collections(self) -> list[str]:
        """The knowledge bases that `rag/` models without an assistant search; each one exists by default."""
        return _entries(self.rag_collections)


def _entries(text: str) -> list[str]:
    """The entries of a list that is separated by commas."""
    return [entry.strip() for entry in text.split(",") if entry.strip()]


def variable(field: str) -> str:
    """The environment variable of a settings field."""
    return kit_settings.variable(PREFIX, field)


def load(environ: Mapping[str, str] | None = None) -> Settings:
    """Read the settings.

    Args:
        environ: the variables to read; the process's own when None.

    Returns:
        The settings. An empty variable counts as not set.

    Raises:
        SettingsError: a value is not valid for its setting, or a variable with the gateway's prefix is not a setting.
    """
    environ = os.environ if environ is None else environ
    unknown = kit_settings.unknown(Settings, PREFIX, CALLERS | ALIASES.keys(), environ)
    if unknown:
        raise SettingsError(f"{unknown[0]} is set, but is not a setting of the gateway")
    aliases = {
        variable(field): alias
        for alias, field in ALIASES.items()
        if environ.get(alias) and not environ.get(variable(field))
    }
    aliased = {name: environ[alias] for name, alias in aliases.items()}
    if variable("embedding_url") in aliased and not environ.get(variable("embedding_provider")):
        # Of the programs that share this variable, it names the embedder service.
        aliased[variable("embedding_provider")] = "ragproxy"
    try:
        settings = kit_settings.load(Settings, PREFIX, {**environ, **aliased})
    except SettingsError as error:
        name, is_, reason = str(error).partition(" is ")
        raise SettingsError(f"{aliases.get(name, name)}{is_}{reason}") from None
    _check(settings)
    return settings


def load_store(settings: Settings, environ: Mapping[str, str] | None = None) -> store_settings.Settings:
    """The settings of the store in this process: `RAGSTORE_*` variables, with the gateway's address, keys and folder.

    Args:
        settings: the gateway's settings.
        environ: the variables to read; the process's own when None.

    Raises:
        SettingsError: a `RAGSTORE_*` variable is not valid, or the store reserves other prefixes than the gateway's.
    """
    environ = os.environ if environ is None else environ
    shared = {
        store_settings.variable(field): str(getattr(settings, field)).lower()
        for field in (*ServerSettings.__struct_fields__, "data_path")
    }
    own = {name: value for name, value in environ.items() if not name.startswith(PREFIX) and name not in shared}
    loaded = store_settings.load({**own, **shared})
    if loaded.reserved and settings.collection_prefix not in loaded.reserved:
        raise SettingsError(
            f"{variable('collection_prefix')} is {settings.collection_prefix!r}, and "
            f"{store_settings.variable('reserved_prefixes')} does not have it"
        )
    return loaded


def unserved(environ: Mapping[str, str] | None = None) -> dict[str, str]:
    """The variables of other programs that are set and have no effect, with the remedy for each.

    Args:
        environ: the variables to read; the process's own when None.
    """
    environ = os.environ if environ is None else environ
    return {name: remedy for name, remedy in UNSERVED.items() if environ.get(name)}


def shown(settings: Settings) -> dict[str, str]:
    """The settings in force, secrets masked; see `ragstore.kit.settings.shown`."""
    return kit_settings.shown(settings, PREFIX)


def _check(settings: Settings) -> None:
    """Check what the type of one field cannot express."""
    if not store_settings.RESERVED_PREFIX.fullmatch(settings.collection_prefix):
        raise SettingsError(
            f"{variable('collection_prefix')} is wrong: it must be a prefix of 2 to 16 characters that ends with "
            "'_', '-' or '.'"
        )
    if settings.database_url and not _is_postgresql(settings.database_url):
        raise SettingsError(
            f"{variable('database_url')} is wrong: it must be an address such as postgresql://user@host/database, with "
            "the password behind the user and not in the query"
        )
    if settings.ingestion_workers and not settings.database_url:
        raise SettingsError(
            f"{variable('ingestion_workers')} is wrong: workers need PostgreSQL, and {variable('database_url')} is "
            "not set"
        )
    for name in settings.placement_engines:
        if name not in settings.engines:
            raise SettingsError(
                f"{variable('engine_placement')} is wrong: {variable('engines')} has no engine '{name}'"
            )
    for field in ("upstream_url", "searxng_url", "public_url"):
        url = str(getattr(settings, field))
        parts = urlsplit(url)
        if url and (parts.scheme not in ("http", "https") or not parts.hostname):
            raise SettingsError(f"{variable(field)} is wrong: it must be an http:// or https:// address")
    parts = urlsplit(settings.searxng_url)
    if parts.username is not None or parts.query or parts.fragment:
        raise SettingsError(f"{variable('searxng_url')} is wrong: it has no user, no password and no query")


def _is_postgresql(url: str) -> bool:
    try:
        parts = urlsplit(url)
        return parts.scheme in POSTGRESQL and (parts.port or 1) > 0 and "password" not in parse_qs(parts.query)
    except ValueError:  # the port is no number
        return False
