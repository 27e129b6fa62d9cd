"""The files of the page at `/ui/`, and what `GET /` and `GET /access` respond."""

from __future__ import annotations

import gzip
import re
from collections.abc import Iterator
from urllib.parse import urljoin

import httpx
import pytest

from tests.support.problems import problem_of
from tests.support.process_fixtures import starts_process
from tests.support.servers import running, start_service

pytestmark = pytest.mark.process

BROWSER = {"Accept": "text/html,application/xhtml+xml,application/xml;q=0.9,*/*;q=0.8"}

POLICY = {
    "default-src": "'none'",
    "script-src": "'self'",
    "style-src": "'self'",
    "img-src": "'self'",
    "connect-src": "'self'",
    "base-uri": "'none'",
    "form-action": "'none'",
    "frame-ancestors": "'none'",
    "require-trusted-types-for": "'script'",
    "trusted-types": "'none'",
}


def loaded_files(http: httpx.Client) -> list[str]:
    """The addresses of the files that the index loads."""
    page = http.get("/ui/")
    links = re.findall(r"(?:src|href)=\"([^\"]+)\"", page.text)
    return [urljoin(str(page.url), link) for link in links if link != "../docs"]


def test_a_browser_is_redirected_from_the_root_to_the_page(http: httpx.Client) -> None:
    response = http.get("/", headers=BROWSER)

    assert response.status_code == 303
    # A relative address keeps the prefix of a proxy.
    assert response.headers["location"] == "ui/"
    assert response.headers["vary"] == "Accept"


@pytest.mark.parametrize("accept", ["*/*", "application/json", "application/msgpack, */*;q=0.1"])
def test_a_program_gets_the_description_of_the_service(http: httpx.Client, accept: str) -> None:
    response = http.get("/", headers={"Accept": accept})

    assert response.status_code == 200
    assert b"/ui/" in response.content


def test_the_path_without_a_slash_leads_to_the_page(http: httpx.Client) -> None:
    response = http.get("/ui")

    assert response.status_code == 308
    assert response.headers["location"] == "ui/"


def test_the_page_may_load_and_call_only_its_own_origin(http: httpx.Client) -> None:
    response = http.get("/ui/")

    policy = response.headers["content-security-policy"]
    assert dict(part.strip().split(" ", 1) for part in policy.split(";")) == POLICY
    assert response.headers["cross-origin-opener-policy"] == "same-origin"
    assert response.headers["referrer-policy"] == "no-referrer"
    assert response.headers["x-content-type-options"] == "nosniff"


def test_the_page_has_no_inline_script_and_no_inline_style(http: httpx.Client) -> None:
    text = http.get("/ui/").text

    assert not re.findall(r"<script(?![^>]*src=)[^>]*>|<style| style=| on[a-z]+=", text)


def test_every_file_of_the_page_comes_from_the_service_and_is_kept_by_browsers(http: httpx.Client) -> None:
    files = loaded_files(http)

    assert len(files) >= 3
    for file in files:
        response = http.get(file)
        assert response.status_code == 200
        assert response.headers["cache-control"] == "public, max-age=31536000, immutable"
        assert response.headers["content-security-policy"]


def test_the_index_is_revalidated_at_each_visit(http: httpx.Client) -> None:
    first = http.get("/ui/")
    again = http.get("/ui/", headers={"If-None-Match": first.headers["etag"]})

    assert first.headers["cache-control"] == "no-cache"
    assert again.status_code == 304
    assert not again.content


def test_a_file_is_compressed_for_callers_that_accept_it(http: httpx.Client) -> None:
    for file in loaded_files(http):
        plain = http.get(file, headers={"Accept-Encoding": "identity"})
        with http.stream("GET", file, headers={"Accept-Encoding": "gzip"}) as response:
            assert response.headers["content-encoding"] == "gzip"
            assert response.headers["vary"] == "Accept-Encoding"
            assert gzip.decompress(b"".join(response.iter_raw())) == plain.content
        assert "content-encoding" not in plain.headers


@pytest.mark.parametrize("accepted", ["gzip;q=0", "br", "gzip ; q=0.0"])
def test_a_file_is_not_compressed_for_callers_that_do_not_accept_it(http: httpx.Client, accepted: str) -> None:
    assert "content-encoding" not in http.get("/ui/", headers={"Accept-Encoding": accepted}).headers


@pytest.mark.parametrize("name", ["nowhere.js", "index.html", "..%2fbuilt_files.py", "index.html.gz"])
def test_a_file_that_the_page_does_not_have_is_404(http: httpx.Client, name: str) -> None:
    problem_of(http.get(f"/ui/{name}"), 404)


def test_access_without_keys_describes_the_service(http: httpx.Client) -> None:
    access = http.get("/access").json()

    assert access["service"] == "ragstore"
    assert access["keysRequired"] is False
    assert access["key"] is None
    assert access["store"] == "in-process"
    assert access["limits"]["maxBatchSize"] > 0


@pytest.fixture(scope="module")
@starts_process
def without_page(tmp_path_factory: pytest.TempPathFactory) -> Iterator[httpx.Client]:
    """A client of a service without the page."""
    folder = tmp_path_factory.mktemp("without-page")
    with running(start_service(folder, {"RAGSTORE_UI": "false"})) as served, httpx.Client(base_url=served.url) as http:
        yield http


def test_a_setting_removes_the_page(without_page: httpx.Client) -> None:
    problem_of(without_page.get("/ui/"), 404)
    response = without_page.get("/", headers=BROWSER)

    assert response.status_code == 200
    assert "page" not in response.json()["links"]


def test_without_the_page_there_is_the_api_reference(without_page: httpx.Client) -> None:
    index = without_page.get("/docs")
    assert index.headers["content-type"].startswith("text/html")
    (script,) = re.findall(r'src="(docs/[^"]+\.js)"', index.text)
    assert without_page.get(f"/{script}").headers["content-type"].startswith("text/javascript")
