"""The synchronous builder of contexts.

It is not generated from the asynchronous one, as the synchronous client is: its searches would be threads, which no
time limit ends. A store that hangs would leave threads behind, or make the caller wait for them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Literal

from ragstore_client.context._builder import AsyncContextBuilder, Built
from ragstore_client.context._cache import ContextCache
from ragstore_client.context._citations import Names
from ragstore_client.context._context import ChatContext
from ragstore_client.context._formats import Style
from ragstore_client.context._rerank import Reranker, RerankFunction
from ragstore_client.context._scopes import Scope
from ragstore_client.context._settings import ContextSettings
from ragstore_client.context._sources import PassageSource
from ragstore_client.context._tokens import TokenCounter, estimate_tokens
from ragstore_client.rag._connections import LoopThread

if TYPE_CHECKING:
    from ragstore_client.rag._retriever import Retriever


class ContextBuilder:
    """Builds contexts for synchronous callers. Threads may share it; nothing has to be closed but its source.

    It runs an `AsyncContextBuilder` in the event loop of a thread: the time limit then also ends a call that hangs in a
    socket, which a thread cannot be made to leave. Its source is the same as the asynchronous one's.

    Args:
        source: as for `AsyncContextBuilder`.
        settings: as for `AsyncContextBuilder`.
        scopes: as for `AsyncContextBuilder`.
        style: as for `AsyncContextBuilder`.
        count_tokens: as for `AsyncContextBuilder`.
        reranker: as for `AsyncContextBuilder`.
        names: as for `AsyncContextBuilder`.
        cache: as for `AsyncContextBuilder`.
        loop_thread: runs the event loop; a new thread when None. An asynchronous client that is the source, or part of
            it, belongs to this thread from then on.

    Raises:
        InvalidConfiguration: the arguments do not fit each other.
    """

    def __init__(
        self,
        source: PassageSource | Retriever,
        *,
        settings: ContextSettings | None = None,
        scopes: Sequence[Scope] | None = None,
        style: Style | Literal["sections", "numbered", "headings", "archives"] = "sections",
        count_tokens: TokenCounter = estimate_tokens,
        reranker: Reranker | RerankFunction | None = None,
        names: Names | None = None,
        cache: ContextCache[Built] | None = None,
        loop_thread: LoopThread | None = None,
    ) -> None:
        self._builder = AsyncContextBuilder(
            source,
            settings=settings,
            scopes=scopes,
            style=style,
            count_tokens=count_tokens,
            reranker=reranker,
            names=names,
            cache=cache,
        )
        self.settings = self._builder.settings
        self._loop_thread = loop_thread or LoopThread()

    def build(
        self,
        question: str,
        *,
        session_id: str | None = None,
        topic: str | None = None,
        scopes: Sequence[Scope] | None = None,
        settings: ContextSettings | None = None,
        headers: Mapping[str, str] | None = None,
    ) -> ChatContext:
        """Build the context of a question. See `AsyncContextBuilder.build`."""
        return self._loop_thread.run(
            self._builder.build(
                question, session_id=session_id, topic=topic, scopes=scopes, settings=settings, headers=headers
            )
        )

    def invalidate(self, *, session_id: str | None = None) -> None:
        """Remove cached retrievals. See `AsyncContextBuilder.invalidate`."""

        async def run() -> None:
            self._builder.invalidate(session_id=session_id)

        self._loop_thread.run(run())
