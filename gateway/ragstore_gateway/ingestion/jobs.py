"""`Jobs`: durable work in steps, distributed over the replicas."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from typing import Protocol, TypeAlias, TypeVar

T = TypeVar("T", bound=str | int | bool | None)
"""The outcome of a step. The job engine stores it, so it is small and never content."""


class Steps(Protocol):
    """Runs the steps of one job. A step that has ended is not run again when the job is resumed.

    The steps of a job, and their names, depend on nothing but the outcomes of earlier steps.
    """

    def run(self, name: str, work: Callable[[], Awaitable[T | None]]) -> T | None:
        """Run a step, from the job's thread.

        Args:
            work: its work, which runs in the event loop of the gateway. It may run more than once if the process is
                killed, so it must be idempotent.

        Returns:
            The outcome of the work, or of the run that ended; None if it was cancelled.
        """

    def prepare(self, work: Callable[[], Awaitable[T | None]]) -> None:
        """Run work each time that the job begins or is resumed.

        Args:
            work: the work, as of a step.
        """


JobBody: TypeAlias = Callable[[str, Steps], None]
"""The work of a job: called with its id, in a thread of its own, once and again after each interruption."""


class Jobs(Protocol):
    """Runs jobs. A job that was started ends, whatever is killed meanwhile: another process resumes it."""

    async def start(self, job_id: str, lane: str) -> None:
        """Put a job in the queue. A job that exists already is left as it is.

        Args:
            lane: jobs of one lane do not delay those of another one.
        """

    async def lost(self, job_ids: Sequence[str]) -> set[str]:
        """The jobs that have ended, or that do not exist.

        Args:
            job_ids: the jobs to look at.
        """

    def cancel(self, job_id: str) -> None:
        """Cancel the current step of a job if it runs in this process. The job continues with its next step."""

    async def resume(self, executor_id: str) -> int:
        """Put the jobs of a process that has ended back in the queue, to continue after their last finished steps.

        Args:
            executor_id: the process.

        Returns:
            The number of jobs.
        """

    async def forget(self, job_ids: Sequence[str]) -> None:
        """Remove the data of jobs that have ended."""
