"""`GET /search`, over a server that responds as SearxNG does: its JSON is a recording, changed to need few results."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

import httpx
import pytest

from tests.gateway.web.conftest import WebGateway
from tests.support.fake_upstream import Behaviour, Exchange, hang, responding
from tests.support.servers import Served

pytestmark = pytest.mark.process

RECORDING = (Path(__file__).parent / "recordings/searxng.json").read_bytes()
EMPTY = json.dumps({"query": "tea", "results": []}).encode()
TYPE = "Content-Type: application/json"


def _engine(*pages: bytes) -> Behaviour:
    async def respond(exchange: Exchange) -> None:
        number = int(parse_qs(urlsplit(exchange.request.target).query)["pageno"][0])
        await exchange.respond(pages[number - 1] if number <= len(pages) else EMPTY)

    return respond


def _search(web: WebGateway, behaviour: Behaviour, **parameters: Any) -> Any:
    web.engine.default = behaviour
    return web.call("GET", "/search", params={"q": "tea", **parameters})


def test_results_have_web_addresses_each_once(web: WebGateway) -> None:
    response = _search(web, _engine(RECORDING))
    assert response.status_code == 200
    assert response.json() == {
        "query": "tea",
        "lang": "",
        "results": [
            {
                "title": "Brewing tea",
                "url": "https://tea.example/brewing",
                "snippet": "How long black tea is brewed, and how hot the water is.",
                "score": 3.0,
            },
            {
                "title": "The history of tea",
                "url": "https://tea.example/history",
                "snippet": "Tea came to Europe on ships in the seventeenth century.",
                "score": 1.0,
            },
            {"title": "Night trains", "url": "https://news.example/rail", "snippet": "", "score": 0.5},
        ],
    }


def test_a_result_of_another_form_does_not_affect_the_others(web: WebGateway) -> None:
    good = {"url": "https://tea.example/", "title": "Tea", "content": None}
    odd = [{"url": None}, {"url": 5}, "text", None, {"url": "https://tea.example/2", "title": ["Tea"]}, {}]
    response = _search(web, _engine(json.dumps({"results": [*odd, good]}).encode()))
    assert response.status_code == 200
    assert response.json()["results"] == [{"title": "Tea", "url": "https://tea.example/", "snippet": "", "score": 0.0}]


def test_the_query_goes_to_the_search_engine_with_its_language(web: WebGateway) -> None:
    assert _search(web, _engine(RECORDING), q="tea & cake?", lang="sv", k=1).json()["lang"] == "sv"
    request = urlsplit(web.engine.requests[0].target)
    assert request.path == "/searx/search"
    assert parse_qs(request.query) == {
        "q": ["tea & cake?"],
        "format": ["json"],
        "pageno": ["1"],
        "language": ["sv"],
    }


def test_pages_are_read_until_there_are_enough_results(web: WebGateway) -> None:
    def page(start: int) -> bytes:
        results = [{"url": f"https://a.example/{n}", "title": str(n), "content": ""} for n in range(start, start + 4)]
        return json.dumps({"results": results}).encode()

    found = _search(web, _engine(page(0), page(4), page(8), page(12)), k=6).json()["results"]
    assert [result["title"] for result in found] == ["0", "1", "2", "3", "4", "5"]
    assert len(web.engine.requests) == 2


def test_ranked_results_are_ordered_by_relevance_and_diversity(web: WebGateway) -> None:
    contents = {
        "trains": "Night trains run between Vienna and Paris.",
        "kettle": "The warranty of the kettle lasts three years.",
        "kettle-again": "The warranty of the kettle lasts three years!",
        "descaling": "Descale the kettle with vinegar every month.",
    }
    results = [
        {"url": f"https://a.example/{name}", "title": "", "content": text, "score": 9.0}
        for name, text in contents.items()
    ]
    behaviour = _engine(json.dumps({"results": results}).encode())
    found = _search(web, behaviour, q="How long is the warranty of the kettle?", k=2, rank="true").json()["results"]
    assert found[0]["url"].rpartition("/")[2] in ("kettle", "kettle-again")
    # The copy of the best result adds nothing.
    assert not [result for result in found[1:] if "warranty" in result["snippet"]]
    assert 0 < found[0]["score"] <= 1


@pytest.mark.parametrize(
    ("behaviour", "status", "code", "detail"),
    [
        (responding(b"", "403 Forbidden"), 502, "search_failed", "search.formats"),
        (responding(b"", "429 Too Many Requests"), 503, "search_busy", "limit"),
        (responding(b"", "500 Internal Server Error"), 502, "search_failed", "500"),
        (responding(b"<html>", "200 OK"), 502, "search_failed", "SearxNG"),
        (responding(b'{"results": 1}', "200 OK"), 502, "search_failed", "SearxNG"),
        (responding(b"", "302 Found", "Location: http://a.test/"), 502, "search_failed", "reached"),
        (hang, 504, "search_timeout", "time"),
    ],
)
def test_a_failure_of_the_search_engine_is_a_status(
    web: WebGateway, behaviour: Behaviour, status: int, code: str, detail: str
) -> None:
    response = _search(web, behaviour)
    assert (response.status_code, response.json()["code"]) == (status, code)
    assert detail in response.json()["detail"]


@pytest.mark.parametrize(
    "parameters", [{"q": ""}, {"q": " "}, {"k": 0}, {"k": 51}, {"k": "x"}, {"lang": "sv; x"}, {"rank": 2}]
)
def test_a_parameter_of_another_form_is_400(web: WebGateway, parameters: dict[str, Any]) -> None:
    assert _search(web, _engine(RECORDING), **parameters).status_code == 400
    assert web.engine.requests == []


def test_without_a_search_engine_the_response_says_what_to_set(gateway: Served) -> None:
    response = httpx.get(f"{gateway.url}/search", params={"q": "tea"})
    assert (response.status_code, response.json()["code"]) == (501, "search_not_configured")
    assert "RAGSTORE_GATEWAY_SEARXNG_URL" in response.json()["detail"]
