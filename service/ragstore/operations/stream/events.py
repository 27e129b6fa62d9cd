"""The contract's words for streams: the lines of the answer, as structs. See `ragstore.api.schemas` for all others."""

from __future__ import annotations

from typing import Annotated, Literal

from msgspec import UNSET, Meta, Struct, UnsetType

from ragstore.kit.problems import Problem


class StreamStored(Struct, frozen=True, omit_defaults=True):
    """A line of the answer to a stream: a batch was stored."""

    status: Literal["stored"]
    first_line: Annotated[int, Meta(description="The first line of the batch; lines count from 1.", ge=1)]
    last_line: Annotated[int, Meta(description="The last line of the batch. All lines up to it are stored.", ge=1)]
    count: Annotated[int, Meta(description="Documents in the batch.", ge=1)]
    id_prefix: Annotated[
        str | UnsetType,
        Meta(
            description="Documents of the batch that came without an id have this and the number of their line as id."
        ),
    ] = UNSET


class StreamDone(Struct, frozen=True):
    """The last line of the answer to a stream: all of it was stored."""

    status: Literal["done"]
    collection: Annotated[str, Meta(description="The collection.")]
    last_line: Annotated[int, Meta(description="The last line that held a document; 0 when none did.", ge=0)]
    count: Annotated[int, Meta(description="Documents written.", ge=0)]
    batches: Annotated[int, Meta(description="Batches they were written in.", ge=0)]


class StreamFailed(Struct, frozen=True):
    """The last line of the answer to a stream that something ended."""

    status: Literal["failed"]
    collection: Annotated[str, Meta(description="The collection.")]
    last_line: Annotated[int, Meta(description="The last line stored. All lines up to it are stored.", ge=1)]
    count: Annotated[int, Meta(description="Documents written.", ge=1)]
    batches: Annotated[int, Meta(description="Batches they were written in.", ge=1)]
    problem: Annotated[Problem, Meta(description="What ended the stream.")]
