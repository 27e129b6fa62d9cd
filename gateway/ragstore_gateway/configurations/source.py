"""`Source`: where a knowledge base gets documents from by itself: a website, or files that are uploaded."""

from __future__ import annotations

from typing import Annotated, Final, Literal, TypeAlias

from msgspec import Meta, Struct

from ragstore.kit.misfits import described

SOURCE_NAME: Final = described(
    r"^[A-Za-z0-9][A-Za-z0-9_.-]*$(?!\n)",
    "Must begin with a letter or a digit, and consist of letters, digits, _, . and -",
)
PATH_PREFIX: Final = described(
    r"^(/[^\s?#\\\x00-\x1f\x7f]*)?$(?!\n)", "Must begin with / and have no query, spaces or control characters"
)
GLOB: Final = described(
    r"^[^\s\[\]{}\\#\x00-\x1f\x7f]+$(?!\n)", "Must be a glob of *, ** and ?, without spaces and without []{}\\#"
)
"""Other programs have globs with further wildcards. No path has these characters, except encoded. Python's `$` matches
before a newline at the end, too; so the pattern excludes that."""

MAX_SOURCES: Final = 50
MAX_PATTERNS: Final = 100
MAX_SITEMAPS: Final = 50
MAX_URL: Final = 4096

SourceType: TypeAlias = Literal["web", "upload"]
SourceName: TypeAlias = Annotated[
    str,
    Meta(
        min_length=1,
        max_length=64,
        pattern=SOURCE_NAME,
        description="Name, unique within the base; a part of the paths of its routes.",
    ),
]
Url: TypeAlias = Annotated[str, Meta(min_length=1, max_length=MAX_URL)]


class _Part(Struct, frozen=True, forbid_unknown_fields=True, rename="camel", kw_only=True):
    pass


class WebSource(_Part, frozen=True, kw_only=True):
    """The pages of a website that a source reads. Names and defaults are EDDI's."""

    start_url: Annotated[str, Meta(min_length=1, max_length=MAX_URL, description="The page that a crawl begins with.")]
    same_site_only: Annotated[bool, Meta(description="Whether links to other hosts are ignored.")] = True
    include_subdomains: Annotated[
        bool, Meta(description="Whether subdomains of the start page's host belong to the site.")
    ] = False
    path_prefix: Annotated[
        str,
        Meta(max_length=1024, pattern=PATH_PREFIX, description="Paths of pages begin with this; empty means any path."),
    ] = ""
    max_depth: Annotated[int, Meta(ge=0, le=20, description="Maximum number of links from the start page.")] = 3
    max_pages: Annotated[int, Meta(ge=1, le=50_000, description="Maximum number of pages of a run.")] = 200
    exclude_patterns: Annotated[
        list[Annotated[str, Meta(min_length=1, max_length=256, pattern=GLOB)]],
        Meta(
            max_length=MAX_PATTERNS,
            description="Globs of paths that are ignored: `*` matches within a segment, `**` across segments.",
        ),
    ] = []
    request_delay_ms: Annotated[int, Meta(ge=0, le=60_000, description="Milliseconds between requests to a host.")] = (
        500
    )
    respect_robots: Annotated[bool, Meta(description="Whether robots.txt is honoured.")] = True
    timeout_seconds: Annotated[int, Meta(ge=1, le=300, description="Time limit of a page, in seconds.")] = 15
    sitemaps: Annotated[
        list[Url],
        Meta(max_length=MAX_SITEMAPS, description="Sitemaps, besides those that robots.txt names."),
    ] = []


class UploadSource(_Part, frozen=True, kw_only=True):
    """The maximum of what the files of a source may be. Names and defaults are EDDI's."""

    max_files: Annotated[int, Meta(ge=1, le=10_000, description="Maximum number of files.")] = 500
    max_file_bytes: Annotated[int, Meta(ge=1, le=1_073_741_824, description="Maximum size of a file, in bytes.")] = (
        26_214_400
    )
    max_total_bytes: Annotated[
        int, Meta(ge=1, le=1_099_511_627_776, description="Maximum size of all files, in bytes.")
    ] = 524_288_000


class SourceSettings(_Part, frozen=True, kw_only=True):
    """Limits of the runs of a source. Names and defaults are EDDI's."""

    max_content_length: Annotated[
        int, Meta(ge=1, le=10_000_000, description="Maximum number of characters of a document; the rest is cut off.")
    ] = 100_000
    max_bytes_per_page: Annotated[
        int, Meta(ge=1, le=104_857_600, description="Maximum size of a page, in bytes; a larger one fails.")
    ] = 5_242_880
    max_segments_per_run: Annotated[
        int, Meta(ge=1, le=10_000_000, description="Maximum number of chunks that a run embeds.")
    ] = 20_000
    tombstone_after_missed_runs: Annotated[
        int, Meta(ge=1, le=100, description="Complete runs in a row without a page after which it is removed.")
    ] = 2
    time_budget_minutes: Annotated[int, Meta(ge=1, le=1440, description="Time limit of a run, in minutes.")] = 10


class Source(_Part, frozen=True, kw_only=True):
    """A website or a set of files that a knowledge base follows."""

    name: SourceName
    type: Annotated[SourceType, Meta(description="`web` for the pages of a website, `upload` for uploaded files.")] = (
        "web"
    )
    cron: Annotated[
        str,
        Meta(
            max_length=128,
            description="Times of scheduled runs in UTC: minute, hour, day, month, weekday; empty means none.",
        ),
    ] = ""
    enabled: Annotated[bool, Meta(description="Whether it can be run.")] = True
    web: Annotated[WebSource | None, Meta(description="The website; for `web`.")] = None
    upload: Annotated[UploadSource | None, Meta(description="Limits of the files; for `upload`.")] = None
    settings: Annotated[SourceSettings, Meta(description="Limits of its runs.")] = SourceSettings()
