# Generated from _async/sources.py by scripts/generate_sync_client.py: do not edit.
"""The calls of `GatewayClient` about sources of a knowledge base, and about the audit ledger."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Unpack

from ragstore_client._call import Call
from ragstore_client._options import CallOptions
from ragstore_client._sync.base import CallSender
from ragstore_client._sync.runtime import in_thread
from ragstore_client.gateway import _source_calls as calls
from ragstore_client.gateway import _sources as models
from ragstore_client.gateway._calls import BaseLike, id_of
from ragstore_client.gateway._contents import Content
from ragstore_client.gateway._sync.runs import RETRY_SECONDS, iter_pages, until_ended


class SourceCalls(CallSender):
    """Run sources, which the `sources` of a base configure, upload their files, and read the audit ledger."""

    def run_source(
        self,
        base: BaseLike,
        source: str,
        *,
        progress: Callable[[models.SourceRun], None] | None = None,
        **options: Unpack[CallOptions],
    ) -> models.SourceRun:
        """Run a source, and wait until the run has ended.

        Args:
            base: the knowledge base.
            source: name of the source.
            progress: is called with each state of the run.
            **options: see `CallOptions`.

        Returns:
            The run. `status` is `completed` if the whole source was read.

        Raises:
            Conflict: a run of the source is running, or the source is not enabled.
            NotFound: there is no such base or source.
        """
        started = self.start_run(base, source, **options)
        return self.wait_for_run(base, source, started.run_id, progress=progress, **options)

    def start_run(self, base: BaseLike, source: str, **options: Unpack[CallOptions]) -> models.AcceptedRun:
        """Start a run of a source.

        Args:
            base: the knowledge base.
            source: name of the source.
            **options: see `CallOptions`.

        Raises:
            Conflict: a run of the source is running, or the source is not enabled.
            NotFound: there is no such base or source.
        """
        return self._send(calls.run_source(id_of(base), source), options)

    def wait_for_run(
        self,
        base: BaseLike,
        source: str,
        run_id: str,
        *,
        progress: Callable[[models.SourceRun], None] | None = None,
        retry_seconds: float = RETRY_SECONDS,
        **options: Unpack[CallOptions],
    ) -> models.SourceRun:
        """Wait until a run has ended.

        Args:
            base: the knowledge base.
            source: name of the source.
            run_id: the run.
            progress: is called with each state of the run.
            retry_seconds: how long a request is retried while the gateway is away.
            **options: see `CallOptions`.

        Raises:
            NotFound: there is no such run.
        """
        call = calls.get_run(id_of(base), source, run_id)
        return until_ended(self._lasting(retry_seconds, options), call, progress)

    def get_run(self, base: BaseLike, source: str, run_id: str, **options: Unpack[CallOptions]) -> models.SourceRun:
        """Get a run.

        Args:
            base: the knowledge base.
            source: name of the source.
            run_id: the run.
            **options: see `CallOptions`.

        Raises:
            NotFound: there is none.
        """
        return self._send(calls.get_run(id_of(base), source, run_id), options)

    def iter_runs(
        self, base: BaseLike, source: str, *, page_size: int = 100, **options: Unpack[CallOptions]
    ) -> Iterator[models.SourceRun]:
        """Iterate over the runs of a source, newest first.

        Args:
            base: the knowledge base.
            source: name of the source.
            page_size: number of runs per request.
            **options: see `CallOptions`.

        Returns:
            An iterator over the runs that are kept.
        """

        def call(index: int) -> Call[models.SourceRunList]:
            return calls.list_runs(id_of(base), source, index=index, limit=page_size)

        return iter_pages(self, call, lambda page: page.runs, page_size, options)

    def cancel_run(self, base: BaseLike, source: str, run_id: str, **options: Unpack[CallOptions]) -> None:
        """Cancel a run. Pages and files that it has ingested stay.

        Args:
            base: the knowledge base.
            source: name of the source.
            run_id: the run.
            **options: see `CallOptions`.

        Raises:
            NotFound: there is none.
        """
        self._send(calls.cancel_run(id_of(base), source, run_id), options)

    def purge_source(self, base: BaseLike, source: str, **options: Unpack[CallOptions]) -> None:
        """Delete all documents of a source.

        Args:
            base: the knowledge base.
            source: name of the source.
            **options: see `CallOptions`.

        Raises:
            Conflict: a run of the source is running.
        """
        self._send(calls.purge_source(id_of(base), source), options)

    def upload_file(
        self, base: BaseLike, source: str, file: Content, **options: Unpack[CallOptions]
    ) -> models.SourceFile:
        """Store a file of a source of uploaded files. The next run ingests it.

        Args:
            base: the knowledge base.
            source: name of the source.
            file: a `FileDocument`, a `TextDocument`, or an object with the members of `Content`. It is read into
                memory, and its metadata are not sent.
            **options: see `CallOptions`.

        Returns:
            The stored file.

        Raises:
            BadRequest: the file was rejected; `detail` says why.
            OSError: the file cannot be read.
        """
        content = in_thread(_content_of, file)
        call = calls.upload_file(id_of(base), source, file.name, file.media_type, content)
        return (self._send(call, options)).stored[0]

    def iter_files(
        self, base: BaseLike, source: str, *, page_size: int = 200, **options: Unpack[CallOptions]
    ) -> Iterator[models.SourceFile]:
        """Iterate over the files of a source, by name.

        Args:
            base: the knowledge base.
            source: name of the source.
            page_size: number of files per request.
            **options: see `CallOptions`.

        Returns:
            An iterator over the files.
        """

        def call(index: int) -> Call[models.SourceFileList]:
            return calls.list_files(id_of(base), source, index=index, limit=page_size)

        return iter_pages(self, call, lambda page: page.files, page_size, options)

    def delete_file(self, base: BaseLike, source: str, name: str, **options: Unpack[CallOptions]) -> None:
        """Delete a file of a source.

        Args:
            base: the knowledge base.
            source: name of the source.
            name: name of the file.
            **options: see `CallOptions`.

        Raises:
            NotFound: there is none.
        """
        self._send(calls.delete_file(id_of(base), source, name), options)

    def iter_audit_entries(
        self,
        *,
        conversation: str = "",
        since: str = "",
        until: str = "",
        kind: str = "",
        key: str | None = None,
        assistant: str = "",
        page_size: int = 200,
        **options: Unpack[CallOptions],
    ) -> Iterator[models.AuditEntry]:
        """Iterate over the audit ledger, the oldest entry first.

        Args:
            conversation: id of a conversation; all when empty.
            since: an ISO 8601 time; entries from then on.
            until: an ISO 8601 time; entries before it.
            kind: `retrieval`, `deletion` or `feedback`; all when empty.
            key: name of the caller's key, empty for callers without one; None for all.
            assistant: name of the assistant; all when empty.
            page_size: number of entries per request.
            **options: see `CallOptions`.

        Yields:
            Each entry.
        """
        after: int | None = None
        while True:
            call = calls.list_audit_entries(
                conversation=conversation,
                since=since,
                until=until,
                kind=kind,
                key=key,
                assistant=assistant,
                after=after,
                limit=page_size,
            )
            page = self._send(call, options)
            yield from page.entries
            if page.next is None:
                return
            after = page.next

    def give_feedback(
        self,
        conversation: str,
        reply_request_id: str,
        *,
        helpful: bool,
        comment: str = "",
        **options: Unpack[CallOptions],
    ) -> models.StoredFeedback:
        """Store whether a reply was helpful, in place of an earlier feedback on it.

        Args:
            conversation: id of the conversation, which the chat has named.
            reply_request_id: the header `X-Request-ID` of the reply.
            helpful: whether the reply was helpful.
            comment: further text, which the gateway keeps if it keeps contexts.
            **options: see `CallOptions`.

        Raises:
            NotFound: the conversation has no step of this request and of this key.
        """
        return self._send(
            calls.give_feedback(conversation, reply_request_id, helpful=helpful, comment=comment), options
        )


def _content_of(file: Content) -> bytes:
    with file.open() as opened:
        return opened.read()
