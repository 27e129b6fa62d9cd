"""`POST /extract`, `GET /search` and `POST /summarize`."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Annotated, Any, Final

import msgspec
from litestar import Request, Response, get, post
from litestar.di import NamedDependency
from litestar.params import QueryParameter, SkipValidation
from msgspec import UNSET

from ragstore.kit.auth.roles import READS
from ragstore.kit.context import current_request, renew_deadline
from ragstore.kit.decoding import JSON, decoded
from ragstore.kit.disconnect import CallerWatch
from ragstore.kit.errors import Forbidden, InvalidRequest, ServiceError
from ragstore.kit.middleware.bodies import LARGE_BODY
from ragstore.kit.numbers import whole_number
from ragstore.kit.openapi import ERRORS, without_marks
from ragstore_gateway.api.openapi import OPERATION
from ragstore_gateway.api.piecewise import piecewise
from ragstore_gateway.chat.headers import CREDENTIALS, request_headers
from ragstore_gateway.embeddings.routes import EMBEDDING_ERRORS
from ragstore_gateway.embeddings.schemas import NOT_BLANK
from ragstore_gateway.errors import (
    CollectionReadOnly,
    DatabaseUnavailable,
    ModelNotFound,
    NotConfigured,
    OtherEmbeddingModel,
    QueueFull,
    StoreUnavailable,
    TokenRateExceeded,
    UpstreamFailed,
    UpstreamTimeout,
    UpstreamUnreachable,
)
from ragstore_gateway.extraction.extracted import Extracted
from ragstore_gateway.extraction.formats import MEDIA_TYPES
from ragstore_gateway.extraction.metrics import FAILURES
from ragstore_gateway.extraction.text_builder import clean
from ragstore_gateway.fetching.errors import (
    AddressRefused,
    FetchTimeout,
    ModelBusy,
    PageUnavailable,
    ResponseInvalid,
    ResponseTooLarge,
    RobotsDisallowed,
    SearchBusy,
    SearchFailed,
    SearchNotConfigured,
    SearchTimeout,
    SummaryFailed,
    TooManyRedirects,
    Unreachable,
    UrlRefused,
)
from ragstore_gateway.keys import GATEWAY_KEYS, READER, key_name_of, key_of, visible_bases
from ragstore_gateway.settings import Settings
from ragstore_gateway.tenants.errors import TenantBytesExceeded, TenantDocumentsExceeded, TenantTokensExceeded
from ragstore_gateway.web.assembly import Web
from ragstore_gateway.web.pages import Page
from ragstore_gateway.web.schemas import (
    LANGUAGE,
    MAX_QUESTION,
    ExtractedPage,
    ExtractRequest,
    ExtractResponse,
    SearchResponse,
    SummarizeRequest,
    SummarizeResponse,
    SummarySource,
    UnreadSource,
    Urls,
)
from ragstore_gateway.web.stored_sources import StoredSource, StoredSources
from ragstore_gateway.web.summaries import SourceText, SummaryTask

WebDependency = SkipValidation[NamedDependency[Web]]
StoredSourcesDependency = SkipValidation[NamedDependency[StoredSources]]
SettingsDependency = SkipValidation[NamedDependency[Settings]]

MAX_RESULTS: Final = 50
TEXT_URL: Final = "text"
"""The URL of a source that is the text of the request."""

PLAIN: Final = MEDIA_TYPES["text"]

WRITER: Final = "writer"

FETCH_ERRORS: Final = (
    UrlRefused,
    AddressRefused,
    RobotsDisallowed,
    Unreachable,
    FetchTimeout,
    TooManyRedirects,
    ResponseTooLarge,
    ResponseInvalid,
    PageUnavailable,
)
SEARCH_ERRORS: Final = (SearchNotConfigured, SearchFailed, SearchTimeout, SearchBusy)
SUMMARY_ERRORS: Final = (
    *FETCH_ERRORS,
    *FAILURES.values(),
    NotConfigured,
    ModelNotFound,
    UpstreamUnreachable,
    UpstreamTimeout,
    UpstreamFailed,
    SummaryFailed,
    ModelBusy,
    TokenRateExceeded,
    TenantTokensExceeded,
    StoreUnavailable,
    OtherEmbeddingModel,
    CollectionReadOnly,
    DatabaseUnavailable,
    QueueFull,
    TenantDocumentsExceeded,
    TenantBytesExceeded,
)

_extract: Final = msgspec.json.Decoder(ExtractRequest | Urls)
_summarize: Final = msgspec.json.Decoder(SummarizeRequest)


def _body(*kinds: Any) -> dict[str, Any]:
    """The part of an operation that the handler's signature does not express: its body is read by hand."""
    schemas, components = msgspec.json.schema_components(kinds)
    inline = [components[schema["$ref"].rpartition("/")[2]] if "$ref" in schema else schema for schema in schemas]
    shown = [without_marks(schema) for schema in inline]
    schema = shown[0] if len(shown) == 1 else {"anyOf": shown}
    return {"requestBody": {"required": True, "content": {"application/json": {"schema": schema}}}}


def _either_urls_or_text() -> dict[str, Any]:
    operation = _body(SummarizeRequest)
    schema = operation["requestBody"]["content"]["application/json"]["schema"]
    schema["oneOf"] = [{"required": ["urls"]}, {"required": ["text"]}]
    del schema["required"]
    return operation


_SUMMARIZE: Final = _either_urls_or_text()


@post(
    "/extract",
    status_code=200,
    opt={**READER, **READS, OPERATION: _body(ExtractRequest, Urls)},
    operation_id="extractPages",
    summary="Extract the texts of pages",
    tags=["web"],
)
async def extract(request: Request[Any, Any, Any], web: WebDependency) -> Response[ExtractResponse]:
    """Fetch pages and extract their main texts. A page that cannot be read does not affect the others.

    The texts together have at most 16 MiB. Each page beyond has the code `response_too_large`.
    """
    body = decoded(_extract, await request.body(), JSON)
    if not isinstance(body, ExtractRequest):
        body = ExtractRequest(body)
    renew_deadline(web.pages_seconds)
    async with CallerWatch(request.receive):
        # Encoded one by one, each in a thread; the text itself is not kept.
        items = await web.pages.read_as(body.urls, _encoded, body.format)
    return piecewise(ExtractResponse, _in_array(items))


@get(
    "/search",
    opt={**READER, ERRORS: (*SEARCH_ERRORS, *EMBEDDING_ERRORS)},
    operation_id="searchWeb",
    summary="Search the web",
    tags=["web"],
)
async def search(
    request: Request[Any, Any, Any],
    web: WebDependency,
    q: Annotated[str, QueryParameter(pattern=NOT_BLANK, max_length=MAX_QUESTION, description="The query.")],
    k: Annotated[int, QueryParameter(ge=1, le=MAX_RESULTS, description="Maximum number of results.")] = 5,
    lang: Annotated[
        str, QueryParameter(pattern=LANGUAGE, description="Language of the results, such as `sv`; empty for any.")
    ] = "",
    rank: Annotated[
        bool,
        QueryParameter(
            description="Choose the results by maximal marginal relevance to the query, among three times as many."
        ),
    ] = False,
) -> Response[SearchResponse]:
    """Search the web with SearxNG. The results are not fetched."""
    renew_deadline(web.search_seconds)
    async with CallerWatch(request.receive):
        results = await web.search.search(q, k, lang, rank=rank)
    return Response(SearchResponse(q, lang, results))


@post(
    "/summarize",
    status_code=200,
    opt={
        **READER,
        **READS,  # with `store`, the ingestion of a source records the write
        **LARGE_BODY,
        ERRORS: (*SUMMARY_ERRORS, *EMBEDDING_ERRORS),
        OPERATION: _SUMMARIZE,
    },
    operation_id="summarize",
    summary="Summarize pages or a text",
    tags=["web"],
)
async def summarize(
    request: Request[Any, Any, Any],
    web: WebDependency,
    stored_sources: StoredSourcesDependency,
    settings: SettingsDependency,
) -> Response[SummarizeResponse]:
    """Summarize pages or a text with the upstream's model, which cites its sources as `[1]`.

    Pages that cannot be read are listed in `failed`. If none can be read, the response is the error of the first one.
    """
    body = decoded(_summarize, await request.body(), JSON)
    _check(body)
    max_words = whole_number(body.max_words, "$.max_words")
    base_id = ""
    if body.store:
        _require_writer(request)
        # First, so that a base that cannot be used costs no tokens.
        base_id = await stored_sources.base_id(body.collection, visible_bases(request.scope))
    web.summarizer.check()
    renew_deadline(web.summary_seconds)
    async with CallerWatch(request.receive):
        pages = [] if body.urls is UNSET else await web.pages.read(list(dict.fromkeys(body.urls)))
        sources = _sources(body, pages)
        stored: list[StoredSource] = []
        if base_id:
            stored = [await stored_sources.ingest(base_id, *_document(source)) for source in sources]
        summary = await web.summarizer.summarize(
            sources,
            SummaryTask(body.query.strip(), max_words, body.lang),
            _upstream_headers(request, web, settings),
            key_name_of(request.scope),
        )
        if stored:
            stored = await stored_sources.ended(base_id, stored)
    listed = [
        SummarySource(
            number,
            source.url,
            source.title,
            cited=number in summary.cited,
            truncated=number in summary.truncated,
            **_outcome(stored[number - 1] if stored else None),
        )
        for number, source in enumerate(sources, 1)
    ]
    failed = [UnreadSource(page.url, page.error.code, page.error.detail) for page in pages if page.error is not None]
    return Response(SummarizeResponse(summary.text, listed, summary.model, failed))


def _encoded(page: Page) -> bytes:
    return msgspec.json.encode(_extracted(page))


def _in_array(items: Sequence[bytes]) -> Iterator[bytes]:
    """The parts of an `ExtractResponse` with encoded items."""
    yield b'{"items":['
    for index, item in enumerate(items):
        if index:
            yield b","
        yield item
    yield b"]}"


def _extracted(page: Page) -> ExtractedPage:
    fetched, extracted, error = page.fetched, page.extracted, page.error
    final_url = UNSET if fetched is None else fetched.final_url
    status = UNSET if fetched is None else fetched.status
    if extracted is None or error is not None:
        own = error or ServiceError("Internal error")
        return ExtractedPage(page.url, False, final_url=final_url, status=status, code=own.code, error=own.detail)
    return ExtractedPage(
        page.url,
        True,
        extracted.text,
        page.html,
        extracted.title,
        extracted.language,
        extracted.published,
        final_url,
        status,
    )


def _check(body: SummarizeRequest) -> None:
    """Check what the type of one field cannot express."""
    if (body.urls is UNSET) == (body.text is UNSET):
        raise InvalidRequest.at("$", "Must have either urls or text")


def _require_writer(request: Request[Any, Any, Any]) -> None:
    """Check that the key may ingest.

    Raises:
        Forbidden: it may not.
    """
    key = key_of(request.scope)
    roles = GATEWAY_KEYS.roles
    if key is not None and key.scope is not None and roles.index(key.scope.role) < roles.index(WRITER):
        raise Forbidden(f"The key's role is '{key.scope.role}'; store needs '{WRITER}'")


def _sources(body: SummarizeRequest, pages: Sequence[Page]) -> list[SourceText]:
    """The sources that could be read.

    Raises:
        ServiceError: none could be; it is the error of the first one.
    """
    if isinstance(body.text, str):
        text = body.text.strip()
        return [SourceText(TEXT_URL, "", text, Extracted(clean(text), PLAIN))]
    sources = [
        SourceText(page.url, page.extracted.title, page.extracted.text, page.extracted)
        for page in pages
        if page.extracted is not None
    ]
    if not sources:
        raise next(page.error for page in pages if page.error is not None)
    return sources


def _document(source: SourceText) -> tuple[str, Extracted]:
    return "" if source.url == TEXT_URL else source.url, source.extracted


def _outcome(stored: StoredSource | None) -> dict[str, Any]:
    """The fields of a source that was ingested."""
    if stored is None:
        return {}
    return {"ingestion_id": stored.ingestion_id, "chunks": UNSET if stored.chunks is None else stored.chunks}


def _upstream_headers(request: Request[Any, Any, Any], web: Web, settings: Settings) -> Any:
    current = current_request()
    given = [(name, value) for name, value in request.scope["headers"] if name in CREDENTIALS]
    return request_headers(
        given,
        request_id="" if current is None else current.request_id,
        authorization=web.summarizer.authorization,
        forward_key=settings.forward_key,
    )


WEB_ROUTES: Final = (extract, search, summarize)
