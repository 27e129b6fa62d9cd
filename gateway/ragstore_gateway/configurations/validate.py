"""Checks of configurations that their types cannot express, made when a configuration is written."""

from __future__ import annotations

import asyncio
import re
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Mapping
from datetime import UTC, datetime
from typing import Any, Final, Protocol, TypeAlias, TypeVar

from ragstore.kit.auth.name_patterns import ALL_NAMES, NamePatterns
from ragstore.kit.errors import FieldError, InvalidRequest
from ragstore_gateway.chat.body import RAG_PREFIX
from ragstore_gateway.configurations.assistant import USER_INPUT, Assistant, HttpCall, Rerank, Task
from ragstore_gateway.configurations.configurations import Configurations
from ragstore_gateway.configurations.cron import next_time
from ragstore_gateway.configurations.knowledge_base import KnowledgeBase
from ragstore_gateway.configurations.name_characters import check_characters
from ragstore_gateway.configurations.question_set import ExpectedPassage, QuestionSet
from ragstore_gateway.configurations.question_sets import UNKNOWN_BASE
from ragstore_gateway.configurations.source import Source, WebSource
from ragstore_gateway.configurations.where_template import check_where
from ragstore_gateway.errors import ConfigurationNotFound
from ragstore_gateway.secrets.secret_references import REFERENCE, SecretReferences
from ragstore_gateway.splitting.chunk import OVERLAP_TOO_LARGE

T_contra = TypeVar("T_contra", contravariant=True)

CREDENTIAL: Final = re.compile(r"authorization|cookie|secret|password|token|api[-_]?key", re.IGNORECASE)
"""Names of headers and parameters whose values are secrets."""

ParametersCheck: TypeAlias = Callable[[str, Mapping[str, object]], Any]
"""Checks parameters of a provider or of a store, by name; it raises `InvalidRequest`."""


class Validator(Protocol[T_contra]):
    """Checks configurations of one kind."""

    async def validate(self, body: T_contra, visible: NamePatterns = ALL_NAMES) -> None:
        """Check a configuration.

        Args:
            body: the configuration.
            visible: the names of the knowledge bases that exist for the caller.

        Raises:
            InvalidRequest: it cannot work; the error names the path of each fault.
        """


class KnowledgeBaseValidator:
    """Checks knowledge bases.

    Args:
        provider: checks the parameters of a provider of embeddings.
        store: checks the parameters of an engine.
        engine: checks the name of an engine, and that the base has no parameters beside it.
        url: checks a URL that the gateway is to fetch, at a path; it raises `InvalidRequest`.
        link: checks the existing collection that a base names; see `LinkCheck.faults`.
    """

    def __init__(
        self,
        provider: ParametersCheck,
        store: ParametersCheck,
        engine: ParametersCheck,
        url: Callable[[str, str], None],
        link: Callable[[KnowledgeBase], Awaitable[list[FieldError]]],
    ) -> None:
        self._provider = provider
        self._store = store
        self._engine = engine
        self._url = url
        self._link = link

    async def validate(self, body: KnowledgeBase, visible: NamePatterns = ALL_NAMES) -> None:
        """Check a knowledge base; see `Validator`."""
        # In a thread, because the files of a local model are read.
        provider = await asyncio.to_thread(_faults, self._provider, body.embedding_provider, body.embedding_parameters)
        errors = [
            *_faults(check_characters, body.name, "$.name"),
            *provider,
            *_faults(*self._chosen(body), body.store_parameters),
            *_faults(check_where, body.where, "$.where"),
        ]
        if body.chunk_overlap >= body.chunk_size:
            errors.append(FieldError("$.chunkOverlap", OVERLAP_TOO_LARGE))
        names: set[str] = set()
        for index, source in enumerate(body.sources):
            path = f"$.sources[{index}]"
            if source.name in names:
                errors.append(FieldError(f"{path}.name", "Another source has this name"))
            names.add(source.name)
            errors += self._source(source, path)
        # Last, because it calls the store.
        _raise(errors or await self._link(body))

    def _chosen(self, body: KnowledgeBase) -> tuple[ParametersCheck, str]:
        """The check of the engine of a base, and the name that it checks."""
        return (self._engine, body.engine) if body.engine else (self._store, body.store_type)

    def _source(self, source: Source, path: str) -> Iterator[FieldError]:
        if source.cron:
            try:
                next_time(source.cron, datetime.now(UTC))
            except ValueError:
                yield FieldError(f"{path}.cron", "Must be five fields of crontab, with a time that comes")
        other, part = ("upload", source.upload) if source.type == "web" else ("web", source.web)
        if part is not None:
            yield FieldError(f"{path}.{other}", f"A source of type {source.type} has none")
        if source.type == "web" and source.web is None:
            yield FieldError(f"{path}.web", "Required for a source of type web")
        if source.type == "web" and source.web is not None:
            yield from self._web(source.web, f"{path}.web")

    def _web(self, web: WebSource, path: str) -> Iterator[FieldError]:
        yield from _faults(self._url, web.start_url, f"{path}.startUrl")
        for index, url in enumerate(web.sitemaps):
            yield from _faults(self._url, url, f"{path}.sitemaps[{index}]")


class AssistantValidator:
    """Checks assistants. A configuration that can retrieve nothing is rejected, not ignored.

    Args:
        bases: the knowledge bases that a workflow may name.
        secrets: checks references to secrets.
        http_call: checks an httpCall at a path; it raises `InvalidRequest`.
        rerank_model: checks the local model of a ranking at a path; it raises `InvalidRequest`.
    """

    def __init__(
        self,
        bases: Configurations[KnowledgeBase],
        secrets: SecretReferences,
        http_call: Callable[[HttpCall, str], None],
        rerank_model: Callable[[str, str], None],
    ) -> None:
        self._bases = bases
        self._secrets = secrets
        self._check_http_call = http_call
        self._check_rerank_model = rerank_model

    async def validate(self, body: Assistant, visible: NamePatterns = ALL_NAMES) -> None:
        """Check an assistant; see `Validator`."""
        errors = _faults(check_characters, body.name, "$.name")
        errors += [each async for each in self._workflow(body, visible)]
        if body.model.startswith(RAG_PREFIX):
            # The gateway would call itself, without end if two assistants name each other.
            errors.append(FieldError("$.model", "Must be a model of the upstream, not one with retrieval"))
        for name, call in body.http_calls.items():
            errors += self._http_call(call, f"$.httpCalls.{name}")
        names: set[str] = set()
        for index, task in enumerate(body.tasks):
            path = f"$.tasks[{index}]"
            if task.id in names:
                errors.append(FieldError(f"{path}.id", "Another task has this id"))
            names.add(task.id)
            errors += self._task(body, task, path)
        _raise(errors)

    async def _workflow(self, body: Assistant, visible: NamePatterns) -> AsyncIterator[FieldError]:
        names: set[str] = set()
        for index, (entry, base) in enumerate(zip(body.workflow, body.bases, strict=True)):
            path = f"$.workflow[{index}]"
            name_path = path if isinstance(entry, str) else f"{path}.name"
            if base.name in names:
                yield FieldError(name_path, "The workflow has this knowledge base twice")
            names.add(base.name)
            found = await self._bases.find_by_name(base.name)
            if found is None or not visible.matches(base.name):
                yield FieldError(name_path, "There is no knowledge base of this name")
            elif base.version > found.current_version:
                yield FieldError(f"{path}.version", f"The newest version is {found.current_version}")

    def _task(self, body: Assistant, task: Task, path: str) -> Iterator[FieldError]:
        workflow = {base.name for base in body.bases}
        names: set[str] = set()
        for index, reference in enumerate(task.knowledge_bases):
            below = f"{path}.knowledgeBases[{index}].name"
            if reference.name not in workflow:
                yield FieldError(below, "The workflow does not have this knowledge base")
            elif reference.name in names:
                yield FieldError(below, "The task has this knowledge base twice")
            names.add(reference.name)
        if task.enable_workflow_rag and not body.workflow:
            yield FieldError(f"{path}.enableWorkflowRag", "The workflow has no knowledge base")
        if task.http_call_rag and task.http_call_rag not in body.http_calls:
            yield FieldError(f"{path}.httpCallRag", "There is no httpCall of this name")
        if not (task.knowledge_bases or task.enable_workflow_rag or task.http_call_rag):
            yield FieldError(path, "Retrieves nothing: set knowledgeBases, enableWorkflowRag or httpCallRag")
        yield from _faults(check_where, task.where, f"{path}.where")
        if task.rerank is not None:
            yield from self._rerank(task.rerank, f"{path}.rerank")

    def _rerank(self, rerank: Rerank, path: str) -> Iterator[FieldError]:
        given = {"baseUrl": rerank.base_url, "apiKey": rerank.api_key}
        if rerank.provider == "local":
            yield from (FieldError(f"{path}.{name}", "Must be absent for local") for name in given if given[name])
            yield from _faults(self._check_rerank_model, rerank.model, f"{path}.model")
            return
        if not rerank.base_url:
            yield FieldError(f"{path}.baseUrl", f"Required for {rerank.provider}")
        if rerank.provider == "cohere" and not rerank.model:
            yield FieldError(f"{path}.model", "Required for cohere")
        if rerank.api_key:
            yield from _faults(self._secrets.check, rerank.api_key, f"{path}.apiKey")
            yield from self._unreadable(rerank.api_key, f"{path}.apiKey")

    def _unreadable(self, text: str, path: str) -> list[FieldError]:
        above, _, field = path.rpartition(".")
        return _faults(self._secrets.check_readable, {field: text}, above)

    def _http_call(self, call: HttpCall, path: str) -> Iterator[FieldError]:
        texts = {
            f"{path}.url": call.url,
            f"{path}.body": call.body,
            **{f"{path}.headers.{name}": value for name, value in call.headers.items()},
            **{f"{path}.query.{name}": value for name, value in call.query.items()},
        }
        for below, text in texts.items():
            yield from _faults(self._secrets.check_template, text, below)
            yield from self._unreadable(text, below)
        for kind, values in (("headers", call.headers), ("query", call.query)):
            for name, value in values.items():
                if CREDENTIAL.search(name) and not (REFERENCE.search(value) or value == USER_INPUT):
                    yield from _faults(self._secrets.check, value, f"{path}.{kind}.{name}")
        for name, value in call.headers.items():
            if not value.isprintable():
                yield FieldError(f"{path}.headers.{name}", "Must have no control characters")
        yield from _faults(self._check_http_call, call, path)
        if call.method == "GET" and call.body:
            yield FieldError(f"{path}.body", "A GET request has no body")


class QuestionSetValidator:
    """Checks question sets.

    Args:
        bases: the knowledge bases.
    """

    def __init__(self, bases: Configurations[KnowledgeBase]) -> None:
        self._bases = bases

    async def validate(self, body: QuestionSet, visible: NamePatterns = ALL_NAMES) -> None:
        """Check a question set; see `Validator`."""
        errors = _faults(check_characters, body.name, "$.name")
        name = await self._name(body.base)
        if name is None or not visible.matches(name):
            errors.append(FieldError("$.base", UNKNOWN_BASE))
        texts: set[tuple[str, ...]] = set()
        for index, question in enumerate(body.questions):
            path = f"$.questions[{index}]"
            text = (*question.earlier, question.text)
            if text in texts:
                errors.append(FieldError(f"{path}.text", "Another question has this text"))
            texts.add(text)
            for number, passage in enumerate(question.passages):
                errors += self._passage(passage, f"{path}.passages[{number}]")
        _raise(errors)

    async def _name(self, id: str) -> str | None:
        """The name of a base that is not deleted; None if there is none of this id."""
        try:
            return (await self._bases.read(id)).body.name
        except ConfigurationNotFound:
            return None

    def _passage(self, passage: ExpectedPassage, path: str) -> Iterator[FieldError]:
        if (passage.start is None) != (passage.end is None):
            yield FieldError(path, "Must have both start and end, or neither")
        elif passage.start is not None and passage.end is not None and passage.start >= passage.end:
            yield FieldError(f"{path}.end", "Must be greater than start")


def _faults(check: Callable[..., Any], *arguments: object) -> list[FieldError]:
    """The fields that a check blames."""
    try:
        check(*arguments)
    except InvalidRequest as error:
        return list(error.field_errors)
    return []


def _raise(errors: list[FieldError]) -> None:
    """Reject a configuration with faults.

    Raises:
        InvalidRequest: there are some.
    """
    if errors:
        raise InvalidRequest("; ".join(f"{each.message}: {each.path}" for each in errors), errors)
