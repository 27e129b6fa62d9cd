"""The bodies of the web's routes."""

from __future__ import annotations

from typing import Annotated, Final, Literal

from msgspec import UNSET, Meta, Struct, UnsetType

from ragstore.kit.misfits import described
from ragstore.kit.schema_marks import whole
from ragstore_gateway.embeddings.schemas import NOT_BLANK

MAX_URLS: Final = 50
"""Maximum number of URLs of one request."""

MAX_QUESTION: Final = 2000
MAX_WORDS: Final = 2000
LANGUAGE: Final = described(
    r"^([A-Za-z]{2,3}(-[A-Za-z0-9]{2,8})*)?$(?!\n)", "Must be a language tag such as sv or pt-BR, or empty"
)
"""A language tag such as `sv` or `pt-BR`; empty for none."""

Urls = Annotated[list[str], Meta(min_length=1, max_length=MAX_URLS, description="The URLs of the pages.")]
PageFormat = Literal["text", "markdown", "html"]
Language = Annotated[str, Meta(pattern=LANGUAGE)]


class ExtractRequest(Struct, frozen=True, forbid_unknown_fields=True):
    """The body of `POST /extract`."""

    urls: Urls
    format: Annotated[
        PageFormat,
        Meta(description="`text` or `markdown`: the form of `text`. `html`: `html` has the main content as HTML, too."),
    ] = "text"


class ExtractedPage(Struct, frozen=True, omit_defaults=True):
    """The text of a page, or why there is none."""

    url: Annotated[str, Meta(description="The URL of the request.")]
    ok: Annotated[bool, Meta(description="Whether there is a text.")]
    text: Annotated[str | UnsetType, Meta(description="The main text, without navigation and the like.")] = UNSET
    html: Annotated[
        str | UnsetType, Meta(description="The main content as HTML, if the format is `html` and the page is HTML.")
    ] = UNSET
    title: Annotated[str | UnsetType, Meta(description="The title; empty if it is not known.")] = UNSET
    language: Annotated[str | UnsetType, Meta(description="The language that the page declares; may be empty.")] = UNSET
    published: Annotated[
        str | UnsetType, Meta(description="The date of publication, as in 2026-11-22; empty if it is not known.")
    ] = UNSET
    final_url: Annotated[str | UnsetType, Meta(description="The URL after all redirects.")] = UNSET
    status: Annotated[int | UnsetType, Meta(description="The site's status, if it responded.")] = UNSET
    code: Annotated[str | UnsetType, Meta(description="Why there is no text, as a stable word.")] = UNSET
    error: Annotated[str | UnsetType, Meta(description="The same as a sentence.")] = UNSET


class ExtractResponse(Struct, frozen=True):
    """The texts of pages."""

    items: Annotated[list[ExtractedPage], Meta(description="One for each URL, in the order of the request.")]


class SearchResult(Struct, frozen=True):
    """A result of a web search."""

    title: Annotated[str, Meta(description="The page's title.")]
    url: Annotated[str, Meta(description="Its URL, http or https.")]
    snippet: Annotated[str, Meta(description="A part of its text.")]
    score: Annotated[
        float, Meta(description="The search engine's score; with `rank`, the cosine similarity to the query.")
    ]


class SearchResponse(Struct, frozen=True):
    """The results of a web search."""

    query: Annotated[str, Meta(description="The query.")]
    lang: Annotated[str, Meta(description="The language of the request; empty for any.")]
    results: Annotated[list[SearchResult], Meta(description="The results, best first.")]


class SummarizeRequest(Struct, frozen=True, forbid_unknown_fields=True):
    """The body of `POST /summarize`: `urls` or `text`."""

    urls: Annotated[Urls | UnsetType, Meta(description="The pages to summarize.")] = UNSET
    text: Annotated[Annotated[str, Meta(pattern=NOT_BLANK)] | UnsetType, Meta(description="A text to summarize.")] = (
        UNSET
    )
    query: Annotated[str, Meta(max_length=MAX_QUESTION, description="The subject of the summary; empty for all.")] = ""
    max_words: Annotated[float, whole(1, MAX_WORDS, "Maximum number of words.")] = 200
    lang: Annotated[
        Language, Meta(description="The summary's language, such as `sv`; empty for that of the sources.")
    ] = ""
    store: Annotated[bool, Meta(description="Whether the texts are ingested, too. It needs the role `writer`.")] = False
    collection: Annotated[str, Meta(description="Name of the knowledge base that they are ingested in.")] = "memory"


class SummarySource(Struct, frozen=True, omit_defaults=True):
    """A source of a summary."""

    number: Annotated[int, Meta(description="Its number in citations such as `[1]`.")]
    url: Annotated[str, Meta(description="Its URL; `text` for the text of the request.")]
    title: Annotated[str, Meta(description="Its title; empty if it is not known.")]
    cited: Annotated[bool, Meta(description="Whether the summary cites it.")]
    truncated: Annotated[bool, Meta(description="Whether it was too long, so that the model read its beginning.")]
    ingestion_id: Annotated[str | UnsetType, Meta(description="With `store`, the id of its ingestion.")] = UNSET
    chunks: Annotated[
        int | UnsetType, Meta(description="With `store`, the number of its chunks, if its ingestion is complete.")
    ] = UNSET


class UnreadSource(Struct, frozen=True):
    """A page that could not be read."""

    url: Annotated[str, Meta(description="Its URL.")]
    code: Annotated[str, Meta(description="Why, as a stable word.")]
    error: Annotated[str, Meta(description="The same as a sentence.")]


class SummarizeResponse(Struct, frozen=True):
    """A summary."""

    summary: Annotated[str, Meta(description="The summary, with citations such as `[1]`.")]
    sources: Annotated[list[SummarySource], Meta(description="The sources that the model read.")]
    model: Annotated[str, Meta(description="The model that wrote it.")]
    failed: Annotated[list[UnreadSource], Meta(description="The pages that could not be read.")]
