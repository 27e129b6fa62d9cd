"""`DbosJobs`: jobs over DBOS Transact, in SQLite or PostgreSQL.

DBOS 3.4 never recovers the jobs of another process by itself. Each process has a lease; whichever process finds an
expired one puts the jobs of its owner back in the queue.

Of a job, DBOS stores the id, the lane, and the small outcomes of its steps. Its threads are separate from the gateway's
event loop: jobs have threads of their own, and run the work of their steps in the loop.
"""

from __future__ import annotations

import asyncio
import concurrent.futures
import threading
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager, contextmanager
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import sqlalchemy as sa
import structlog
from sqlalchemy import URL, Engine

from ragstore_gateway.errors import DatabaseUnavailable
from ragstore_gateway.ingestion.dbos_engine import (
    QUEUE,
    configure_logging,
    owners_of_jobs,
    resume_jobs,
    sqlite_engine,
    states_of_jobs,
)
from ragstore_gateway.ingestion.jobs import JobBody, T
from ragstore_gateway.ingestion.leases import Leases

if TYPE_CHECKING:
    from dbos import DBOSConfig

FILE: Final = "jobs.db"
"""Name of SQLite's file in the folder of the gateway's state."""

SCHEMA: Final = "ragstore_jobs"
"""The schema of DBOS in PostgreSQL."""

WORKFLOW: Final = "job"
VERSION: Final = "1"
"""Version of the sequence of steps. Jobs of another version wait for a process that has it."""

NAME: Final = "ragstore-gateway"
POLLING_SECONDS: Final = 0.2
"""How often the queue is read: 3 % of a core with DBOS 3.4 when there are no jobs."""

UNFINISHED: Final = ("ENQUEUED", "DELAYED", "PENDING")
"""The engine's states of jobs that have not ended."""

SPARE_THREADS: Final = 16
"""Threads besides those of running jobs: a job that another process has taken over waits in its thread."""

_log = structlog.get_logger(__name__)


class JobInterrupted(BaseException):
    """This process stops, or has lost the job. The engine records nothing, so that the job is resumed."""


class DbosJobs:
    """Runs jobs over DBOS. There is one in a process: DBOS has global state. See `Jobs`.

    Args:
        url: the gateway's database. With SQLite, jobs have a file of their own beside it.
        leases: the leases of processes.
        body: the work of a job.
        concurrency: maximum number of jobs that run in this process.
    """

    def __init__(self, url: URL, leases: Leases, body: JobBody, concurrency: int) -> None:
        self._url = url
        self._leases = leases
        self._body = body
        self._concurrency = concurrency
        self._calls = ThreadPoolExecutor(4, thread_name_prefix="jobs-")
        self._launching = asyncio.Lock()
        self._is_launched = False
        self._stopping = threading.Event()
        self._futures: dict[str, concurrent.futures.Future[Any]] = {}
        self._cancelled: set[str] = set()
        self._interrupted: set[str] = set()
        self._executed: Counter[str] = Counter()
        self._executed_lock = threading.Lock()
        self._idle: set[str] = set()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._renewal: asyncio.Task[None] | None = None
        self._workflow: Any = None
        self._engine: Engine | None = None

    @property
    def is_launched(self) -> bool:
        """Whether the engine runs. It is launched by the first job that this process knows of."""
        return self._is_launched

    @asynccontextmanager
    async def running(self) -> AsyncIterator[None]:
        """Hand the jobs of this process over to the others, or to its next start, at the end."""
        self._loop = asyncio.get_running_loop()
        try:
            yield
        finally:
            self._stopping.set()
            if self._renewal is not None:
                self._renewal.cancel()
            if self._is_launched:
                await self._hand_over()
            self._calls.shutdown(wait=False, cancel_futures=True)

    async def load(self) -> None:
        """Load DBOS, which takes half a second, so that the first job does not wait for it."""
        await self._call(import_module, "dbos")

    async def launch(self) -> None:
        """Launch the engine, if it does not run."""
        async with self._launching:
            if self._is_launched or self._stopping.is_set():
                return
            await self._leases.renew()
            await self._call(self._launch)
            self._is_launched = True
            self._renewal = asyncio.create_task(self._keep_lease())
            _log.info("job engine launched", executor=self._leases.owner, concurrency=self._concurrency)

    async def start(self, job_id: str, lane: str) -> None:
        """Put a job in the queue; see `Jobs`."""
        await self.launch()
        await self._call(self._enqueue, job_id, lane)

    async def lost(self, job_ids: Sequence[str]) -> set[str]:
        """The jobs that have ended, or that do not exist; see `Jobs`."""
        from dbos import DBOS

        if not job_ids:
            return set()
        await self.launch()
        states = await self._call(states_of_jobs, DBOS, list(job_ids))
        return {job_id for job_id in job_ids if states.get(job_id) not in UNFINISHED}

    def cancel(self, job_id: str) -> None:
        """Cancel the current step of a job; see `Jobs`."""
        future = self._futures.get(job_id)
        if future is not None:
            self._cancelled.add(job_id)
            future.cancel()

    async def resume(self, executor_id: str) -> int:
        """Put the jobs of a process that has ended back in the queue; see `Jobs`."""
        from dbos import DBOS

        await self.launch()
        return int(await self._call(resume_jobs, DBOS, executor_id))

    async def forget(self, job_ids: Sequence[str]) -> None:
        """Remove the data of jobs that have ended; see `Jobs`."""
        from dbos import DBOS

        if job_ids:
            await self.launch()
            await self._call(DBOS.delete_workflows, list(job_ids))

    async def _call(self, function: Callable[..., Any], *arguments: Any) -> Any:
        """Call DBOS in a thread: its functions for coroutines replace the loop's pool of threads by DBOS's own."""
        try:
            return await asyncio.get_running_loop().run_in_executor(self._calls, function, *arguments)
        except sa.exc.DBAPIError as error:
            raise DatabaseUnavailable("The database of jobs cannot be used at the moment").because(
                " ".join(str(error.orig).split())[:300]
            ) from error

    def _launch(self) -> None:
        from dbos import DBOS

        configure_logging()
        DBOS(config=self._config())

        def job(job_id: str) -> None:
            with self._executing(job_id):
                self._body(job_id, _DbosSteps(self, job_id))

        self._workflow = DBOS.workflow(name=WORKFLOW)(job)
        DBOS.listen_queues([QUEUE])
        DBOS.launch()
        DBOS.register_queue(
            QUEUE,
            worker_concurrency=self._concurrency,
            # A lane with many jobs leaves room for the others.
            partition_worker_concurrency=max(1, self._concurrency * 3 // 4),
            polling_interval_sec=POLLING_SECONDS,
            on_conflict="always_update",
        )

    def _config(self) -> DBOSConfig:
        config: DBOSConfig = {
            "name": NAME,
            "executor_id": self._leases.owner,
            "application_version": VERSION,
            "enable_otlp": False,
            "log_level": "WARNING",
            "max_executor_threads": self._concurrency + SPARE_THREADS,
            **self._database(),
        }
        return config

    def _database(self) -> DBOSConfig:
        """DBOS's database: its own schema in the gateway's PostgreSQL, or a file beside that of the gateway."""
        if self._url.get_backend_name() == "postgresql":
            address = self._url.set(drivername="postgresql").render_as_string(hide_password=False)
            return {
                "system_database_url": address,
                "dbos_system_schema": SCHEMA,
                "sys_db_pool_size": 10,
                "db_engine_kwargs": {"hide_parameters": True},
            }
        path = Path(str(self._url.database)).with_name(FILE)
        self._engine = self._engine or sqlite_engine(path)
        return {"system_database_url": f"sqlite:///{path}", "system_database_engine": self._engine}

    def _enqueue(self, job_id: str, lane: str) -> None:
        from dbos import DBOS, SetEnqueueOptions, SetWorkflowID

        with SetWorkflowID(job_id), SetEnqueueOptions(queue_partition_key=lane):
            DBOS.enqueue_workflow(QUEUE, self._workflow, job_id)

    def step(self, job_id: str, work: Callable[[], Awaitable[T | None]]) -> T | None:
        """Run the work of a step in the event loop, and wait for it.

        Args:
            job_id: the job.

        Returns:
            Its outcome; None if it was cancelled.

        Raises:
            JobInterrupted: this process stops, or another one may have taken over the job.
        """
        self._check(job_id)
        assert self._loop is not None  # noqa: S101  # jobs run while the application does

        async def run() -> T | None:
            return await work()

        future = asyncio.run_coroutine_threadsafe(run(), self._loop)
        self._futures[job_id] = future
        try:
            return future.result()
        except concurrent.futures.CancelledError:
            if job_id in self._cancelled:
                return None
            self._interrupted.add(job_id)
            raise JobInterrupted from None
        finally:
            # A job that another process took over, and left, may run in a second thread already.
            if self._futures.get(job_id) is future:
                del self._futures[job_id]
            self._cancelled.discard(job_id)

    def _check(self, job_id: str) -> None:
        if self._stopping.is_set() or not self._leases.is_valid:
            self._interrupted.add(job_id)
            raise JobInterrupted

    @contextmanager
    def _executing(self, job_id: str) -> Iterator[None]:
        with self._executed_lock:
            self._executed[job_id] += 1
        try:
            yield
        finally:
            with self._executed_lock:
                self._executed[job_id] -= 1
                if not self._executed[job_id]:
                    del self._executed[job_id]

    async def _keep_lease(self) -> None:
        """Renew the lease, and continue the jobs that no process executes any more."""
        while True:
            try:
                await self._leases.renew()
                await self._continue()
            except DatabaseUnavailable as error:
                _log.warning("lease not renewed", error=error.cause)
            except Exception as error:  # noqa: BLE001  # without this loop, no job would run
                _log.error("jobs not continued", error=type(error).__name__)
            if not self._leases.is_valid:
                self._interrupt()
            await asyncio.sleep(self._leases.seconds / 3)

    async def _continue(self) -> None:
        from dbos import DBOS

        owners = await self._call(owners_of_jobs, DBOS)
        await self._continue_own({job_id for job_id, owner in owners.items() if owner == self._leases.owner})
        await self._take_over(set(owners.values()))

    async def _continue_own(self, own: set[str]) -> None:
        """Continue the jobs of this process that none of its threads executes.

        It has interrupted them itself while it could not renew its lease, or the engine has lost them between their
        claim and their start. One that is about to start is not executed either, but not for long.
        """
        from dbos import DBOS

        with self._executed_lock:
            idle = own.difference(self._executed)
        lost = idle & (self._idle | self._interrupted)
        self._idle = idle
        self._interrupted &= own
        if lost:
            await self._call(resume_jobs, DBOS, self._leases.owner, lost)
            _log.warning("jobs without a thread are continued", jobs=len(lost))
            self._idle = idle - lost
            self._interrupted -= lost

    async def _take_over(self, owners: set[str]) -> None:
        for owner in await self._leases.expired():
            if owner != self._leases.owner and await self._leases.take(owner):
                resumed = await self.resume(owner)
                await self._leases.remove(owner)
                _log.warning("jobs of a process that ended are resumed", executor=owner, jobs=resumed)
        for owner in await self._leases.unknown(owners):
            await self.resume(owner)

    def _interrupt(self) -> None:
        for future in list(self._futures.values()):
            future.cancel()

    async def _hand_over(self) -> None:
        """Stop the engine, and put the jobs of this process back in the queue."""
        self._interrupt()
        try:
            await self._call(self._stop)
            await self._leases.remove(self._leases.owner)
        except DatabaseUnavailable as error:
            _log.warning("jobs not handed over: they are resumed when the lease ends", error=error.cause)

    def _stop(self) -> None:
        from dbos import DBOS, DBOSClient

        # After this, no thread of this process takes a job from the queue.
        DBOS.destroy(destroy_registry=True)
        database = self._database()
        client = DBOSClient(
            system_database_url=database["system_database_url"],
            system_database_engine=database.get("system_database_engine"),
            dbos_system_schema=database.get("dbos_system_schema", SCHEMA),
        )
        try:
            resumed = resume_jobs(client, self._leases.owner)
        finally:
            client.destroy()
            if self._engine is not None:
                self._engine.dispose()
        if resumed:
            _log.info("jobs handed over", jobs=resumed)


class _DbosSteps:
    """The steps of one job."""

    def __init__(self, jobs: DbosJobs, job_id: str) -> None:
        self._jobs = jobs
        self._job_id = job_id

    def run(self, name: str, work: Callable[[], Awaitable[T | None]]) -> T | None:
        """Run a step; see `Steps`."""
        from dbos import DBOS

        def run() -> T | None:
            return self._jobs.step(self._job_id, work)

        return DBOS.run_step({"name": name}, run)

    def prepare(self, work: Callable[[], Awaitable[T | None]]) -> None:
        """Run work that is not recorded; see `Steps`."""
        self._jobs.step(self._job_id, work)
