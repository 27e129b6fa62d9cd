"""Lines of the response to a stream, as structs. See `ragstore.api.schemas` for all other bodies."""

from __future__ import annotations

from typing import Annotated, Literal

from msgspec import UNSET, Meta, Struct, UnsetType

from ragstore.kit.problems import Problem


class StreamStored(Struct, frozen=True, omit_defaults=True):
    """A line of the response to a stream: a batch was stored."""

    status: Literal["stored"]
    first_line: Annotated[int, Meta(description="The first line of the batch, counted from 1.", ge=1)]
    last_line: Annotated[int, Meta(description="The last line of the batch. All lines up to it are stored.", ge=1)]
    count: Annotated[int, Meta(description="Number of documents in the batch.", ge=1)]
    id_prefix: Annotated[
        str | UnsetType,
        Meta(description="The generated id of a document without an id is this prefix and the number of its line."),
    ] = UNSET


class StreamDone(Struct, frozen=True):
    """The last line of the response to a stream that was stored completely."""

    status: Literal["done"]
    collection: Annotated[str, Meta(description="The collection.")]
    last_line: Annotated[int, Meta(description="The last line with a document; 0 if there was none.", ge=0)]
    count: Annotated[int, Meta(description="Number of stored documents.", ge=0)]
    batches: Annotated[int, Meta(description="Number of stored batches.", ge=0)]


class StreamFailed(Struct, frozen=True):
    """The last line of the response to a stream that failed after its first batch was stored."""

    status: Literal["failed"]
    collection: Annotated[str, Meta(description="The collection.")]
    last_line: Annotated[int, Meta(description="The last stored line. All lines up to it are stored.", ge=1)]
    count: Annotated[int, Meta(description="Number of stored documents.", ge=1)]
    batches: Annotated[int, Meta(description="Number of stored batches.", ge=1)]
    problem: Annotated[Problem, Meta(description="The error that ended the stream.")]
