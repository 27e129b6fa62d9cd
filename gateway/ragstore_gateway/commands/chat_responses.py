"""The gateway's responses about models and chats, as far as the command `ask` reads them."""

from __future__ import annotations

from typing import Annotated

from msgspec import Meta, Struct


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
