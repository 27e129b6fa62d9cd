"""The bodies of the routes for sources."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated, Literal

from msgspec import UNSET, Meta, Struct, UnsetType, convert

from ragstore_gateway.claims.runs import RunState
from ragstore_gateway.sources.runs import RunTrigger
from ragstore_gateway.sources.tables import SourceRunRow


class AcceptedRun(Struct, frozen=True, rename="camel"):
    """A run that has begun."""

    run_id: Annotated[str, Meta(description="Id of the run.")]
    source: Annotated[str, Meta(description="Name of the source.")]
    status: Literal["running"] = "running"


class SourceRun(Struct, frozen=True, rename="camel"):
    """A run of a source."""

    run_id: Annotated[str, Meta(description="Id of the run.")]
    source: Annotated[str, Meta(description="Name of the source.")]
    status: Annotated[
        RunState,
        Meta(
            description="`completed`: the whole source was read. `incomplete`: a limit cut the run short. `failed`: "
            "nothing could be read or stored. `interrupted`: the process that executed it ended. Only a "
            "completed run counts pages as missing."
        ),
    ]
    reason: Annotated[
        str, Meta(description="Why it is not completed, such as `max_pages`; empty otherwise.", examples=["max_pages"])
    ]
    trigger: Annotated[RunTrigger, Meta(description="Why it ran.")]
    version: Annotated[int, Meta(ge=1, description="The version of the knowledge base that it used.")]
    added: Annotated[int, Meta(ge=0, description="Pages or files that are new.")]
    changed: Annotated[int, Meta(ge=0, description="Those whose content has changed.")]
    unchanged: Annotated[int, Meta(ge=0, description="Those whose content has not changed. Nothing was embedded.")]
    missing: Annotated[int, Meta(ge=0, description="Those that were not found, and whose documents stay for now.")]
    removed: Annotated[int, Meta(ge=0, description="Those whose documents were removed: they were missing too often.")]
    failed: Annotated[int, Meta(ge=0, description="Those that could not be read or ingested.")]
    skipped: Annotated[
        int,
        Meta(
            ge=0,
            description="Those that are no documents of the source, such as redirects, and those whose document's name "
            "belongs to another document.",
        ),
    ]
    chunks: Annotated[int, Meta(ge=0, description="Number of chunks that were embedded.")]
    started_on: datetime
    finished_on: Annotated[datetime | UnsetType, Meta(description="When it ended.")] = UNSET


class SourceRunList(Struct, frozen=True):
    """A page of the runs of a source, newest first."""

    runs: list[SourceRun]
    total: Annotated[int, Meta(ge=0, description="Number of runs that are kept.")]


PreviewOutcome = Literal["added", "changed", "unchanged", "missing", "gone", "failed", "skipped"]


class PreviewedPage(Struct, frozen=True):
    """A page, and what a run would do with it."""

    url: Annotated[str, Meta(description="URL of the page, or name of the file.")]
    outcome: Annotated[
        PreviewOutcome,
        Meta(
            description="`added` and `changed` would be ingested. `missing` was found earlier, and not this time. "
            "`gone`: the server has removed it."
        ),
    ]
    reason: Annotated[str, Meta(description="Why, in one word such as `noindex`; may be empty.")]
    title: Annotated[str, Meta(description="Title, if known.")]
    depth: Annotated[int, Meta(ge=0, description="Number of links from the start page.")]


class Preview(Struct, frozen=True):
    """The pages of a source, and the effect of a run on each. Nothing was embedded or stored."""

    pages: list[PreviewedPage]
    complete: Annotated[bool, Meta(description="Whether the whole source was read.")]
    reason: Annotated[str, Meta(description="Why it was not, such as `preview_limit`; empty otherwise.")]
    missing: Annotated[
        int,
        Meta(
            ge=0,
            description="Number of known pages that a complete preview did not find. The first 1,000 are in `pages`.",
        ),
    ]


def run_of(row: SourceRunRow) -> SourceRun:
    """A run of a list."""
    return SourceRun(
        row.id,
        row.source,
        convert(row.state, RunState),
        row.reason,
        convert(row.trigger, RunTrigger),
        row.base_version,
        row.added,
        row.changed,
        row.unchanged,
        row.missing,
        row.removed,
        row.failed,
        row.skipped,
        row.chunks,
        row.started_on,
        row.finished_on or UNSET,
    )
