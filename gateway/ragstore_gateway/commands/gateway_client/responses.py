"""The gateway's responses, as far as the commands read them."""

from __future__ import annotations

from typing import Annotated, Any

from msgspec import Meta, Struct

from ragstore_gateway.extraction.kept_text import KeptText


class Problem(Struct, frozen=True):
    """A problem document."""

    detail: str = ""
    code: str = ""


class Descriptor(Struct, frozen=True, rename="camel"):
    """A knowledge base in a list."""

    resource: str
    name: str
    description: str

    @property
    def id(self) -> str:
        """Its id."""
        return self.resource.rpartition("/")[2].partition("?")[0]

    @property
    def version(self) -> int:
        """Its current version."""
        return int(self.resource.rpartition("version=")[2])


class Base(Struct, frozen=True):
    """A version of a knowledge base.

    Attributes:
        configuration: its configuration, as the gateway returns it.
    """

    id: str
    version: int
    configuration: dict[str, Any]


class Accepted(Struct, frozen=True, rename="camel"):
    """An accepted document."""

    ingestion_id: str


class Outcome(Struct, frozen=True, rename="camel"):
    """The outcome of a document of a batch.

    Attributes:
        ingestion_id: its ingestion; empty if it was rejected.
        code: the code of the error.
        detail: why it was rejected.
    """

    ingestion_id: str = ""
    code: str = ""
    detail: str = ""


class Outcomes(Struct, frozen=True):
    """The outcomes of a batch, in the order of its documents."""

    documents: list[Outcome]


class State(Struct, frozen=True, rename="camel"):
    """The state of an ingestion."""

    ingestion_id: str
    status: str
    chunks: int
    progress: float
    unchanged: bool

    @property
    def has_ended(self) -> bool:
        """Whether it has completed or failed."""
        return self.status not in {"pending", "processing"}


class Progress(Struct, frozen=True, rename="camel"):
    """The progress of a knowledge base.

    Attributes:
        waiting_for: number of documents that wait, by what they wait for.
    """

    waiting_for: dict[str, int]
    ingestions: list[State]


class DocumentState(Struct, frozen=True):
    """A document of a knowledge base."""

    name: str
    status: str
    chunks: int


class Documents(Struct, frozen=True):
    """A page of the documents of a knowledge base."""

    documents: list[DocumentState]


class Text(KeptText, frozen=True, kw_only=True):
    """The text of a document.

    Attributes:
        metadata: what its chunks have beside the gateway's keys.
    """

    name: str
    metadata: dict[str, str | bool | int | float] = {}


class Passage(Struct, frozen=True):
    """A passage that was found.

    Attributes:
        score: its relevance, from 0 to 1.
    """

    id: str
    text: str
    score: float
    metadata: dict[str, str | int | float | bool]

    @property
    def source(self) -> str:
        """Its document, with the page and the heading if they are known."""
        known = (("document_name", "{}"), ("page_number", "page {}"), ("section_heading", "{}"))
        return ", ".join(text.format(self.metadata[key]) for key, text in known if key in self.metadata)


class Passages(Struct, frozen=True):
    """The passages for a question, the best one first."""

    results: list[Passage]


class WebPage(Struct, frozen=True):
    """A page that the gateway has read.

    Attributes:
        ok: whether it has a text.
        error: why not.
    """

    ok: bool
    text: str = ""
    error: str = ""


class WebPages(Struct, frozen=True):
    """The pages of a request."""

    items: Annotated[list[WebPage], Meta(min_length=1)]


class Upstream(Struct, frozen=True):
    """The state of the upstream."""

    configured: bool


class Health(Struct, frozen=True):
    """The state of a gateway."""

    upstream: Upstream


class Model(Struct, frozen=True):
    """A model in a list."""

    id: str


class Models(Struct, frozen=True):
    """The models of a gateway."""

    data: list[Model]


class UrlCitation(Struct, frozen=True):
    """A cited source.

    Attributes:
        url: its URL, or its name if it has none.
        start_index: where the citation begins in the message, in characters.
        end_index: where it ends.
    """

    url: str
    title: str
    start_index: int
    end_index: int


class Annotation(Struct, frozen=True):
    """An annotation of a message."""

    url_citation: UrlCitation | None = None


class Message(Struct, frozen=True):
    """The reply of a model."""

    content: str | None = None
    annotations: list[Annotation] | None = None

    @property
    def citations(self) -> list[tuple[str, str]]:
        """The markers of the citations in the text, such as `[1]`, and the titles of their sources."""
        text = self.content or ""
        found = [each.url_citation for each in self.annotations or [] if each.url_citation is not None]
        return list(dict.fromkeys((text[each.start_index : each.end_index], each.title) for each in found))


class Choice(Struct, frozen=True):
    """A choice of a completion."""

    message: Message


class Completion(Struct, frozen=True):
    """A completion of a chat."""

    choices: Annotated[list[Choice], Meta(min_length=1)]
