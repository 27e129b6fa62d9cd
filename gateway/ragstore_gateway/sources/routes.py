"""The routes of sources: runs, previews, history, purge."""

from __future__ import annotations

from typing import Annotated, Any, Final

from litestar import Request, Response, delete, get, post
from litestar.datastructures import ResponseHeader
from litestar.di import NamedDependency
from litestar.handlers import HTTPRouteHandler
from litestar.params import PathParameter, QueryParameter, SkipValidation

from ragstore.kit.auth.roles import READS
from ragstore.kit.context import record_write, renew_deadline
from ragstore.kit.disconnect import CallerWatch
from ragstore.kit.openapi import ERRORS
from ragstore_gateway.errors import ConfigurationNotFound, DatabaseUnavailable
from ragstore_gateway.keys import READER, WRITER
from ragstore_gateway.sources.assembly import Sources
from ragstore_gateway.sources.errors import (
    SourceDisabled,
    SourceNotFound,
    SourceRunEnded,
    SourceRunning,
    SourceRunNotFound,
    TooManyPreviews,
)
from ragstore_gateway.sources.previews import PREVIEW_SECONDS
from ragstore_gateway.sources.runs import run_path
from ragstore_gateway.sources.schemas import AcceptedRun, Preview, SourceRun, SourceRunList, run_of

SourcesDependency = SkipValidation[NamedDependency[Sources]]

BaseId = Annotated[str, PathParameter(description="Id of the knowledge base.")]
SourceParameter = Annotated[str, PathParameter(description="Name of the source.")]
RunId = Annotated[str, PathParameter(description="Id of the run.")]
Index = Annotated[int, QueryParameter(description="Number of the page, from 0.", ge=0, le=1_000_000)]
Limit = Annotated[int, QueryParameter(description="Maximum number of runs on the page.", ge=1, le=1000)]

PATH: Final = "/ragstore/rags/{id:str}/sources/{source:str}"
MARGIN_SECONDS: Final = 5.0
"""Time of a preview beyond its visits."""

_TAGS: Final = ["sources"]
_ERRORS: Final = (ConfigurationNotFound, SourceNotFound, DatabaseUnavailable)


@post(
    f"{PATH}/run",
    status_code=202,
    opt={**WRITER, ERRORS: (*_ERRORS, SourceDisabled, SourceRunning)},
    operation_id="runSource",
    summary="Run a source",
    tags=_TAGS,
    response_headers=[ResponseHeader(name="Location", description="Path of the run.", documentation_only=True)],
)
async def run_source(id: BaseId, source: SourceParameter, sources: SourcesDependency) -> Response[AcceptedRun]:
    """Read a source, and ingest what has changed, in the background. A source has one run at a time."""
    run = await sources.run(id, source)
    record_write(run_path(id, source, run.id).removeprefix("/"))
    return Response(AcceptedRun(run.id, run.source), headers={"Location": run_path(id, source, run.id)})


@post(
    f"{PATH}/preview",
    status_code=200,
    opt={**WRITER, **READS, ERRORS: (*_ERRORS, TooManyPreviews)},
    operation_id="previewSource",
    summary="Preview a run of a source",
    tags=_TAGS,
)
async def preview_source(
    request: Request[Any, Any, Any], id: BaseId, source: SourceParameter, sources: SourcesDependency
) -> Preview:
    """Read a source, and list what a run would do. Nothing is embedded or stored."""
    renew_deadline(PREVIEW_SECONDS + MARGIN_SECONDS)
    async with CallerWatch(request.receive):
        return await sources.preview(id, source)


@get(
    f"{PATH}/runs",
    opt={**READER, ERRORS: _ERRORS},
    operation_id="listSourceRuns",
    summary="List the runs of a source",
    tags=_TAGS,
)
async def list_source_runs(
    id: BaseId, source: SourceParameter, sources: SourcesDependency, index: Index = 0, limit: Limit = 20
) -> SourceRunList:
    """A page of the runs of a source, newest first. The last 100 are kept."""
    await sources.check(id, source)
    rows, total = await sources.runs.page(id, source, index=index, limit=limit)
    return SourceRunList([run_of(row) for row in rows], total)


@get(
    f"{PATH}/runs/{{run_id:str}}",
    opt={**READER, ERRORS: (*_ERRORS, SourceRunNotFound)},
    operation_id="getSourceRun",
    summary="Read a run of a source",
    tags=_TAGS,
)
async def get_source_run(id: BaseId, source: SourceParameter, run_id: RunId, sources: SourcesDependency) -> SourceRun:
    """A run, with its counts so far."""
    await sources.check(id, source)
    return run_of(await sources.runs.read(id, source, run_id=run_id))


@delete(
    [f"{PATH}/runs/{{run_id:str}}"],
    status_code=204,
    opt={**WRITER, ERRORS: (*_ERRORS, SourceRunNotFound, SourceRunEnded)},
    operation_id="cancelSourceRun",
    summary="Cancel a run of a source",
    tags=_TAGS,
)
async def cancel_source_run(id: BaseId, source: SourceParameter, run_id: RunId, sources: SourcesDependency) -> None:
    """Cancel a run. The documents that it has stored stay, and nothing counts as missing."""
    await sources.check(id, source)
    await sources.cancel(id, source, run_id)


@delete(
    f"{PATH}/documents",
    status_code=204,
    opt={**WRITER, ERRORS: (*_ERRORS, SourceRunning)},
    operation_id="purgeSource",
    summary="Delete the documents of a source",
    tags=_TAGS,
)
async def purge_source(id: BaseId, source: SourceParameter, sources: SourcesDependency) -> None:
    """Delete the documents of a source with their vectors, and forget its pages: the next run begins with nothing.

    This is also how the documents of a source that the configuration does not have any more are deleted.
    """
    record_write(f"ragstore/rags/{id}/sources/{source}/documents", await sources.purge(id, source))


ROUTES: Final[list[HTTPRouteHandler]] = [
    run_source,
    preview_source,
    list_source_runs,
    get_source_run,
    cancel_source_run,
    purge_source,
]
"""The routes of sources."""
