"""`QuestionSet`: questions to a knowledge base, each with the passages that a search is expected to find."""

from __future__ import annotations

from typing import Annotated, Final, TypeAlias

from msgspec import Meta, Struct

from ragstore_gateway.configurations.knowledge_base import Name
from ragstore_gateway.embeddings.schemas import NOT_BLANK

MAX_QUESTIONS: Final = 500
MAX_EXPECTED: Final = 20
MAX_EARLIER: Final = 20
MAX_QUESTION_CHARACTERS: Final = 4096

QuestionText: TypeAlias = Annotated[str, Meta(min_length=1, max_length=MAX_QUESTION_CHARACTERS, pattern=NOT_BLANK)]


class ExpectedPassage(Struct, frozen=True, forbid_unknown_fields=True, rename="camel", kw_only=True):
    """A span of a document with the information that a question is about. Without a span, it is the whole document.

    A span is independent of chunks: it stays valid if the base is split in another way.
    """

    document_name: Annotated[str, Meta(min_length=1, max_length=512, description="Name of the document.")]
    start: (
        Annotated[int, Meta(ge=0, description="Index of its first character in the document's text, in code points.")]
        | None
    ) = None
    end: Annotated[int, Meta(ge=1, description="Index after its last character.")] | None = None


class SetQuestion(Struct, frozen=True, forbid_unknown_fields=True, rename="camel", kw_only=True):
    """A question of a set."""

    text: Annotated[QuestionText, Meta(description="The question.")]
    earlier: Annotated[
        list[QuestionText],
        Meta(
            max_length=MAX_EARLIER,
            description="Earlier messages of the user, the oldest one first, if it is a follow-up.",
        ),
    ] = []
    passages: Annotated[
        list[ExpectedPassage],
        Meta(max_length=MAX_EXPECTED, description="The expected passages; runs leave out a question without any."),
    ] = []


class QuestionSet(Struct, frozen=True, forbid_unknown_fields=True, rename="camel", kw_only=True):
    """A version of a set of questions to one knowledge base. Runs measure how well searches find its passages."""

    name: Name
    description: Annotated[str, Meta(max_length=1024, description="Its subject, for people.")] = ""
    base: Annotated[
        str, Meta(min_length=1, max_length=36, description="Id of the knowledge base. A later version has the same.")
    ]
    questions: Annotated[list[SetQuestion], Meta(max_length=MAX_QUESTIONS, description="The questions.")] = []
