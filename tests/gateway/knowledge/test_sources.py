"""The sources of a knowledge base: what is checked when a base is written, and what the fields mean."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import closing
from datetime import UTC, datetime

import httpx
import pytest

from ragstore_gateway.configurations.cron import next_time
from tests.gateway.conftest import Replicas
from tests.gateway.knowledge.conftest import create, versioned
from tests.gateway.knowledge.test_validation import rejected
from tests.support.ingestion import State
from tests.support.knowledge_base_faults import upload_source, web_source
from tests.support.servers import Served

SITE = "https://docs.example"


@pytest.fixture(scope="module")
def plain(gateway: Served) -> Iterator[httpx.Client]:
    """A client of the gateway over SQLite."""
    with httpx.Client(base_url=gateway.url, timeout=30) as client:
        yield client


def test_the_documented_configuration_of_eddis_sources_is_accepted_as_it_stands(http: httpx.Client, name: str) -> None:
    site = {
        "name": "public-docs",
        "type": "web",
        "cron": "0 2 * * *",
        "web": {
            "startUrl": "https://example.com/docs/",
            "pathPrefix": "/docs/",
            "maxDepth": 3,
            "maxPages": 200,
            "excludePatterns": ["*.pdf", "**/changelog/**"],
            "requestDelayMs": 500,
            "respectRobots": True,
        },
        "settings": {"tombstoneAfterMissedRuns": 2, "maxSegmentsPerRun": 20_000, "timeBudgetMinutes": 10},
    }
    files = {"name": "handbooks", "type": "upload", "upload": {"maxFiles": 500, "maxFileBytes": 26_214_400}}
    path = create(http, "rags", name, sources=[site, files])
    stored = http.get(path).json()["sources"]
    assert stored[0]["web"] == {
        **site["web"],  # type: ignore[dict-item]  # an object
        "sameSiteOnly": True,
        "includeSubdomains": False,
        "timeoutSeconds": 15,
        "sitemaps": [],
    }
    assert stored[0]["settings"] == {
        "maxContentLength": 100_000,
        "maxBytesPerPage": 5_242_880,
        "maxSegmentsPerRun": 20_000,
        "tombstoneAfterMissedRuns": 2,
        "timeBudgetMinutes": 10,
    }
    assert (stored[0]["cron"], stored[0]["enabled"], stored[0]["upload"]) == ("0 2 * * *", True, None)
    assert stored[1]["upload"]["maxTotalBytes"] == 524_288_000
    assert stored[1]["web"] is None


def test_a_number_of_a_source_may_have_a_zero_fraction(plain: httpx.Client, name: str) -> None:
    source = '{"name": "site", "web": {"startUrl": "https://docs.example/", "maxPages": 10.0, "maxDepth": 2e0}}'
    stored = plain.post("/ragstore/rags", content=f'{{"name": "{name}", "sources": [{source}]}}').json()
    assert (stored["sources"][0]["web"]["maxPages"], stored["sources"][0]["web"]["maxDepth"]) == (10, 2)


def test_names_of_sources_are_unique_within_a_base(plain: httpx.Client, name: str) -> None:
    assert rejected(plain, "rags", {"name": name, "sources": [upload_source(), upload_source()]}) == [
        "$.sources[1].name"
    ]
    create(plain, "rags", name, sources=[upload_source()])
    create(plain, "rags", f"{name}-2", sources=[upload_source()])


@pytest.mark.parametrize(
    "cron",
    [
        "* * * *",
        "0 0 2 * * *",
        "0 0 2 * * * *",
        "@daily",
        "60 * * * *",
        "* 24 * * *",
        "x * * * *",
        "R * * * *",
        "H * * * *",
        "0 0 30 2 *",
        "1-5/0 * * * *",
        " ",
        "0 0 * * mon#9",
        "* * * * *\\u0000",
    ],
)
def test_a_schedule_that_never_runs_or_is_no_crontab_is_rejected(plain: httpx.Client, name: str, cron: str) -> None:
    cron = cron.replace("\\u0000", "\0")
    assert rejected(plain, "rags", {"name": name, "sources": [upload_source(cron=cron)]}) == ["$.sources[0].cron"]


@pytest.mark.parametrize(
    ("cron", "next_"),
    [
        ("* * * * *", datetime(2026, 3, 29, 0, 31, tzinfo=UTC)),
        ("0 2 * * *", datetime(2026, 3, 29, 2, tzinfo=UTC)),
        ("*/20 * * * *", datetime(2026, 3, 29, 0, 40, tzinfo=UTC)),
        ("0 9 * * MON-FRI", datetime(2026, 3, 30, 9, tzinfo=UTC)),
        ("0 0 29 2 *", datetime(2028, 2, 29, tzinfo=UTC)),
        ("0  0\t1 jan *", datetime(2027, 1, 1, tzinfo=UTC)),
    ],
)
def test_the_next_time_of_a_schedule_is_in_utc(cron: str, next_: datetime) -> None:
    # In many zones, this night has an hour less.
    assert next_time(cron, datetime(2026, 3, 29, 0, 30, 30, tzinfo=UTC)) == next_


@pytest.mark.parametrize(
    "url",
    [
        "file:///etc/passwd",
        "docs.example/",
        "https://user@docs.example/",
        "https://docs.example:8443/",
        "http://127.0.0.1/",
        "http://[::1]/",
        "http://0x7f000001/",
        "http://169.254.169.254/latest/meta-data/",
        "https://docs.example/a b",
        "",
    ],
)
def test_a_url_that_is_never_fetched_is_rejected_when_the_base_is_written(
    plain: httpx.Client, name: str, url: str
) -> None:
    source = web_source(startUrl=url, sitemaps=[f"{SITE}/sitemap.xml"])
    assert rejected(plain, "rags", {"name": name, "sources": [source]}) == ["$.sources[0].web.startUrl"]
    source = web_source(sitemaps=[f"{SITE}/sitemap.xml", url])
    assert rejected(plain, "rags", {"name": name, "sources": [source]}) == ["$.sources[0].web.sitemaps[1]"]


@pytest.mark.parametrize("pattern", ["/a b", "/[0-9]", "/{a,b}", "/a\\d", "/a#b", "/\0", "/\n"])
def test_a_pattern_that_is_no_glob_of_a_path_is_rejected(plain: httpx.Client, name: str, pattern: str) -> None:
    source = web_source(excludePatterns=["/docs/**", pattern])
    assert rejected(plain, "rags", {"name": name, "sources": [source]}) == ["$.sources[0].web.excludePatterns[1]"]


def test_a_change_of_sources_alone_causes_no_ingestion(replicas: Replicas, name: str) -> None:
    with replicas.client() as http:
        path = create(http, "rags", name)
        response = http.post(f"{path}/ingest", params={"documentName": "a"}, content="The kettle is blue.")
        until_completed(http, response.headers["Location"])
        with closing(State(replicas.url)) as state:
            before = state.collections(path.rpartition("/")[2])
            body = {"name": name, "sources": [web_source(), upload_source()]}
            assert http.put(versioned(path, 1), json=body).status_code == 200
            # A collection that is to be built is stored in the transaction of the change.
            assert state.collections(path.rpartition("/")[2]) == before
            assert http.put(versioned(path, 2), json={**body, "chunkSize": 100}).status_code == 200
            assert len(state.collections(path.rpartition("/")[2])) == 2


def until_completed(http: httpx.Client, status: str) -> None:
    """Wait until an ingestion is complete."""
    deadline = time.monotonic() + 60
    while (found := http.get(status).json()["status"]) != "completed":
        assert time.monotonic() < deadline, found
        time.sleep(0.1)
