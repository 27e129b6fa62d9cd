"""`BatchTracer`: connects the trace of each request with the call that is made for its whole batch.

A batch serves several requests, and runs in the context of none of them. The queue captures each request's trace
context when the request is submitted, and opens one span around the call to Chroma.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import AbstractContextManager, nullcontext
from typing import Literal, Protocol, TypeAlias

Kind: TypeAlias = Literal["write", "query"]
"""The kind of requests in a queue. Deletes are in the queue of writes."""


class BatchTracer(Protocol):
    """Traces batches."""

    def capture(self) -> object:
        """The trace context of the current request. Only the tracer knows its type."""

    def batch_span(
        self, kind: Kind, collection: str, requests: Sequence[object], count: int
    ) -> AbstractContextManager[object]:
        """Open a span around the call that is made for a batch.

        Args:
            kind: the kind of requests.
            collection: the collection's name.
            requests: the result of `capture` for each request of the batch, in their order; at least one.
            count: number of documents or query vectors in the call.

        Returns:
            A context manager for the call.
        """


class NullBatchTracer:
    """Makes no traces."""

    def capture(self) -> object:
        """None."""
        return None

    def batch_span(
        self, kind: Kind, collection: str, requests: Sequence[object], count: int
    ) -> AbstractContextManager[object]:
        """A context manager that does nothing."""
        return nullcontext()
