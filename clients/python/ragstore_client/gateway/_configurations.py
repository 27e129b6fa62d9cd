"""Configurations of the gateway, as structs: knowledge bases, their sources, assistants, their tasks.

A field that is not given is `msgspec.UNSET` and is not sent: a new configuration then has the gateway's default, and a
change leaves the field as it is. Configurations that the gateway returns have all fields.
"""

from __future__ import annotations

from typing import Any, Generic, Literal, TypeAlias, TypeVar

import msgspec
from msgspec import UNSET, UnsetType

T = TypeVar("T")

ChunkStrategy: TypeAlias = Literal["layers", "markdown", "paragraph", "recursive", "sentence", "window"]
Retrieval: TypeAlias = Literal["hybrid", "keyword", "vector"]
Parameters: TypeAlias = dict[str, Any]
"""Parameters of a provider or an engine, whose names depend on it."""


class _Fields(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    pass


class WebSource(_Fields, frozen=True, kw_only=True):
    """The pages of a website that a source reads."""

    start_url: str
    same_site_only: bool | UnsetType = UNSET
    include_subdomains: bool | UnsetType = UNSET
    path_prefix: str | UnsetType = UNSET
    max_depth: int | UnsetType = UNSET
    max_pages: int | UnsetType = UNSET
    exclude_patterns: list[str] | UnsetType = UNSET
    request_delay_ms: int | UnsetType = UNSET
    respect_robots: bool | UnsetType = UNSET
    timeout_seconds: int | UnsetType = UNSET
    sitemaps: list[str] | UnsetType = UNSET


class UploadSource(_Fields, frozen=True, kw_only=True):
    """Limits of the files of a source."""

    max_files: int | UnsetType = UNSET
    max_file_bytes: int | UnsetType = UNSET
    max_total_bytes: int | UnsetType = UNSET


class SourceSettings(_Fields, frozen=True, kw_only=True):
    """Limits of the runs of a source."""

    max_content_length: int | UnsetType = UNSET
    max_bytes_per_page: int | UnsetType = UNSET
    max_segments_per_run: int | UnsetType = UNSET
    tombstone_after_missed_runs: int | UnsetType = UNSET
    time_budget_minutes: int | UnsetType = UNSET


class Source(_Fields, frozen=True, kw_only=True):
    """A website or a set of files that a knowledge base follows.

    Attributes:
        name: unique within the base.
        type: `web` for the pages of a website, `upload` for uploaded files.
        cron: times of scheduled runs in UTC: minute, hour, day, month, weekday; empty means none.
        enabled: whether it can be run.
        web: the website; for `web`.
        upload: limits of the files; for `upload`.
        settings: limits of its runs.
    """

    name: str
    type: Literal["upload", "web"] | UnsetType = UNSET
    cron: str | UnsetType = UNSET
    enabled: bool | UnsetType = UNSET
    web: WebSource | UnsetType | None = UNSET
    upload: UploadSource | UnsetType | None = UNSET
    settings: SourceSettings | UnsetType = UNSET


class KnowledgeBase(_Fields, frozen=True, kw_only=True):
    """A knowledge base: documents that are split, embedded and searched as this configuration says.

    Attributes:
        name: unique among the bases that are not deleted. A new base needs it.
        description: its subject, for people.
        embedding_provider: the provider of embeddings, such as `local` or `openai`.
        embedding_parameters: parameters of the provider. Secrets are references, such as `${env:NAME}`.
        store_type: the engine, such as `ragstore`, `qdrant` or `pgvector`.
        store_parameters: parameters of the engine.
        engine: an engine that the settings of the gateway name, in place of both; empty for none.
        chunk_strategy: where a text may be split.
        chunk_size: maximum size of a chunk, in units.
        chunk_overlap: maximum size of the part of a chunk that the next one repeats, in units.
        chunk_unit: unit of size and overlap.
        embed_headings: whether title and headings precede a chunk where it is embedded and indexed.
        max_results: maximum number of passages of a search.
        min_score: minimum relevance of a passage, 0 to 1; 0.5 is unrelated.
        retrieval: how passages are found: by vectors, by the words of the question, or by both.
        keyword_weight: weight of the words beside the vectors, 0 to 1.
        where: a filter by metadata that every search has.
        sources: the websites and sets of files that it follows.
    """

    name: str | UnsetType = UNSET
    description: str | UnsetType = UNSET
    embedding_provider: str | UnsetType = UNSET
    embedding_parameters: Parameters | UnsetType = UNSET
    store_type: str | UnsetType = UNSET
    store_parameters: Parameters | UnsetType = UNSET
    engine: str | UnsetType = UNSET
    chunk_strategy: ChunkStrategy | UnsetType = UNSET
    chunk_size: int | UnsetType = UNSET
    chunk_overlap: int | UnsetType = UNSET
    chunk_unit: Literal["characters", "tokens"] | UnsetType = UNSET
    embed_headings: bool | UnsetType | None = UNSET
    max_results: int | UnsetType = UNSET
    min_score: float | UnsetType = UNSET
    retrieval: Retrieval | UnsetType = UNSET
    keyword_weight: float | UnsetType = UNSET
    where: Parameters | UnsetType = UNSET
    sources: list[Source] | UnsetType = UNSET


class WorkflowBase(_Fields, frozen=True, kw_only=True):
    """A knowledge base of a workflow, by name.

    Attributes:
        version: a version of the base; 0 means the current one.
    """

    name: str
    version: int | UnsetType = UNSET


class KnowledgeBaseReference(_Fields, frozen=True, kw_only=True):
    """A base that a task searches, with parameters that replace the base's own."""

    name: str
    max_results: int | UnsetType | None = UNSET
    min_score: float | UnsetType | None = UNSET


class RagDefaults(_Fields, frozen=True, kw_only=True):
    """Parameters for the bases that `enable_workflow_rag` finds."""

    max_results: int | UnsetType | None = UNSET
    min_score: float | UnsetType | None = UNSET


class Rerank(_Fields, frozen=True, kw_only=True):
    """A server, or a model in the gateway's process, that orders the passages of all bases."""

    provider: Literal["cohere", "local", "tei"]
    base_url: str | UnsetType = UNSET
    model: str | UnsetType = UNSET
    api_key: str | UnsetType = UNSET


class TaskParameters(_Fields, frozen=True, kw_only=True):
    """Parameters of a task."""

    system_message: str | UnsetType = UNSET


class HttpCall(_Fields, frozen=True, kw_only=True):
    """A request whose response is added to the prompt. `{userInput}` in a template is the question."""

    url: str
    method: Literal["GET", "PATCH", "POST", "PUT"] | UnsetType = UNSET
    headers: dict[str, str] | UnsetType = UNSET
    query: dict[str, str] | UnsetType = UNSET
    body: str | UnsetType = UNSET
    timeout_seconds: float | UnsetType = UNSET
    max_bytes: int | UnsetType = UNSET
    pointer: str | UnsetType = UNSET


class Task(_Fields, frozen=True, kw_only=True):
    """How an assistant retrieves.

    Attributes:
        id: letters, digits, `_` and `-`.
        actions: ignored by the gateway: each chat runs all tasks.
        type: ignored by the gateway.
        parameters: parameters of the task.
        knowledge_bases: the bases of the workflow to search.
        enable_workflow_rag: whether all bases of the workflow are searched if `knowledge_bases` is empty.
        rag_defaults: parameters for these bases.
        where: a filter by metadata.
        http_call_rag: name of the HTTP call whose response comes first.
        max_rag_context_chars: maximum number of characters of the context.
        max_rag_context_tokens: maximum number of tokens of the context.
        rerank: orders the passages of all bases.
        diversity: weight of diversity in maximal marginal relevance, 0 to 1; None for none.
    """

    id: str | UnsetType = UNSET
    actions: list[str] | UnsetType = UNSET
    type: str | UnsetType = UNSET
    parameters: TaskParameters | UnsetType = UNSET
    knowledge_bases: list[KnowledgeBaseReference] | UnsetType = UNSET
    enable_workflow_rag: bool | UnsetType = UNSET
    rag_defaults: RagDefaults | UnsetType | None = UNSET
    where: Parameters | UnsetType = UNSET
    http_call_rag: str | UnsetType = UNSET
    max_rag_context_chars: int | UnsetType = UNSET
    max_rag_context_tokens: int | UnsetType | None = UNSET
    rerank: Rerank | UnsetType | None = UNSET
    diversity: float | UnsetType | None = UNSET


class Assistant(_Fields, frozen=True, kw_only=True):
    """An assistant: the model `rag/NAME` of the gateway's chat API.

    Attributes:
        name: unique among the assistants that are not deleted. A new assistant needs it, and `tasks`.
        description: its subject, for people.
        model: the upstream's model; empty for the gateway's own setting.
        system_message: begins the system message.
        workflow: the bases that its tasks may search, by name.
        prompt_style: where passages are in the prompt: under headings in the system message (`context`), or as numbered
            sources in the last message of the user (`sources`).
        cite_instruction: the sentences that say how to cite; None for the gateway's own, empty for none.
        empty_context: whether the system message says so if nothing was found (`tell`).
        list_sources: whether replies end with a list of the sources that they cite; None for the gateway's setting.
        query: the texts that are searched for; empty for the gateway's own setting.
        http_calls: the HTTP calls of its tasks, by name.
        tasks: the tasks, in order.
    """

    name: str | UnsetType = UNSET
    description: str | UnsetType = UNSET
    model: str | UnsetType = UNSET
    system_message: str | UnsetType = UNSET
    workflow: list[str | WorkflowBase] | UnsetType = UNSET
    prompt_style: Literal["context", "sources"] | UnsetType = UNSET
    cite_instruction: str | UnsetType | None = UNSET
    empty_context: Literal["silent", "tell"] | UnsetType = UNSET
    list_sources: bool | UnsetType | None = UNSET
    query: Literal["", "conversation", "last", "rewrite"] | UnsetType = UNSET
    http_calls: dict[str, HttpCall] | UnsetType = UNSET
    tasks: list[Task] | UnsetType = UNSET


class Stored(msgspec.Struct, Generic[T], frozen=True):
    """A version of a configuration in the gateway.

    Attributes:
        configuration: the configuration, with all fields.
        fields: the configuration as JSON, with fields of a newer gateway that this client does not know.
    """

    id: str
    version: int
    configuration: T
    fields: dict[str, Any]


class Descriptor(msgspec.Struct, frozen=True, rename="camel"):
    """A configuration in a list.

    Attributes:
        resource: path of its current version.
        created_on: when its first version was written.
        last_modified_on: when its current version was written.
    """

    resource: str
    name: str
    description: str = ""
    created_on: str = ""
    last_modified_on: str = ""

    @property
    def id(self) -> str:
        """Its id."""
        return self.resource.rpartition("/")[2].partition("?")[0]

    @property
    def version(self) -> int:
        """Its current version.

        Raises:
            ValueError: the resource names none.
        """
        return int(self.resource.rpartition("version=")[2])


class ConfigurationVersion(msgspec.Struct, frozen=True, rename="camel"):
    """A version of a configuration in a list."""

    version: int
    created_on: str


class VersionList(msgspec.Struct, frozen=True):
    """A page of the versions of a configuration, newest first.

    Attributes:
        total: number of all versions.
    """

    versions: list[ConfigurationVersion]
    total: int
