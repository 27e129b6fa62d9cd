"""The calls of `AsyncGatewayClient` about runs of question sets."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from typing import TypeAlias, Unpack

from ragstore_client._async.base import CallSender
from ragstore_client._call import Call
from ragstore_client._options import CallOptions
from ragstore_client.gateway import _question_calls as calls
from ragstore_client.gateway import _questions as models
from ragstore_client.gateway._async.runs import RETRY_SECONDS, iter_pages, until_ended
from ragstore_client.gateway._calls import id_of
from ragstore_client.gateway._configurations import Descriptor, Stored

SetLike: TypeAlias = str | Stored[models.QuestionSet] | Descriptor


class QuestionRunCalls(CallSender):
    """Run question sets, which `client.question_sets` creates and changes."""

    async def run_question_set(
        self,
        question_set: SetLike,
        *,
        progress: Callable[[models.QuestionRun], None] | None = None,
        **options: Unpack[CallOptions],
    ) -> models.QuestionRun:
        """Run a question set, and wait until the run has ended.

        Args:
            question_set: its id, or what another call returned.
            progress: is called with each state of the run.
            **options: see `CallOptions`.

        Returns:
            The run with the outcomes. Only a `completed` one has figures.

        Raises:
            Conflict: a run of the set is running, or no question has an expected passage.
            NotFound: there is no such set.
        """
        started = await self.start_question_run(question_set, **options)
        return await self.wait_for_question_run(question_set, started.run_id, progress=progress, **options)

    async def start_question_run(
        self, question_set: SetLike, **options: Unpack[CallOptions]
    ) -> models.AcceptedQuestionRun:
        """Start a run of a question set.

        Args:
            question_set: its id, or what another call returned.
            **options: see `CallOptions`.

        Raises:
            Conflict: a run of the set is running, or no question has an expected passage.
            NotFound: there is no such set.
        """
        return await self._send(calls.run_question_set(id_of(question_set)), options)

    async def wait_for_question_run(
        self,
        question_set: SetLike,
        run_id: str,
        *,
        progress: Callable[[models.QuestionRun], None] | None = None,
        retry_seconds: float = RETRY_SECONDS,
        **options: Unpack[CallOptions],
    ) -> models.QuestionRun:
        """Wait until a run has ended.

        Args:
            question_set: its id, or what another call returned.
            run_id: the run.
            progress: is called with each state of the run.
            retry_seconds: how long a request is retried while the gateway is away.
            **options: see `CallOptions`.

        Raises:
            NotFound: there is no such run.
        """
        call = calls.get_question_run(id_of(question_set), run_id)
        return await until_ended(self._lasting(retry_seconds, options), call, progress)

    async def get_question_run(
        self, question_set: SetLike, run_id: str, **options: Unpack[CallOptions]
    ) -> models.QuestionRun:
        """Get a run, with the outcome of each question.

        Args:
            question_set: its id, or what another call returned.
            run_id: the run.
            **options: see `CallOptions`.

        Raises:
            NotFound: there is none.
        """
        return await self._send(calls.get_question_run(id_of(question_set), run_id), options)

    async def cancel_question_run(self, question_set: SetLike, run_id: str, **options: Unpack[CallOptions]) -> None:
        """Cancel a run, which then has no figures.

        Args:
            question_set: its id, or what another call returned.
            run_id: the run.
            **options: see `CallOptions`.

        Raises:
            Conflict: it has ended already, and was not cancelled.
            NotFound: there is none.
        """
        await self._send(calls.cancel_question_run(id_of(question_set), run_id), options)

    def iter_question_runs(
        self, question_set: SetLike, *, page_size: int = 100, **options: Unpack[CallOptions]
    ) -> AsyncIterator[models.QuestionRun]:
        """Iterate over the runs of a question set, newest first, without outcomes.

        Args:
            question_set: its id, or what another call returned.
            page_size: number of runs per request.
            **options: see `CallOptions`.

        Returns:
            An iterator over the runs that are kept.
        """

        def call(index: int) -> Call[models.QuestionRunList]:
            return calls.list_question_runs(id_of(question_set), index=index, limit=page_size)

        return iter_pages(self, call, lambda page: page.runs, page_size, options)
