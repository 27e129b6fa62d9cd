"""`POST /extract`."""

from __future__ import annotations

from typing import Any

import pytest

from tests.gateway.web.articles import COFFEE, TEA, article
from tests.gateway.web.conftest import WebGateway
from tests.support.fake_upstream import Exchange

pytestmark = pytest.mark.process


@pytest.mark.parametrize("bare", [True, False])
def test_pages_become_texts_in_the_order_of_the_request(web: WebGateway, bare: bool) -> None:
    urls = [web.site.page("coffee", COFFEE), web.site.page("tea", TEA)]
    coffee, tea = web.extract(urls if bare else {"urls": urls})
    assert [coffee["url"], tea["url"]] == urls
    assert tea["ok"] is True
    assert tea["text"].startswith("Brewing tea")
    assert "seventy degrees" in tea["text"]
    assert not [word for word in ("navigation", "Advertisement", "imprint") if word in tea["text"]]
    assert {name: tea[name] for name in ("title", "language", "published", "status", "final_url", "html")} == {
        "title": "Brewing tea",
        "language": "en",
        "published": "2026-03-14",
        "status": 200,
        "final_url": urls[1],
        "html": "",
    }


def test_markdown_has_headings_and_html_has_elements(web: WebGateway) -> None:
    url = web.site.page("tea", TEA)
    assert web.extract({"urls": [url], "format": "markdown"})[0]["text"].startswith("# Brewing tea")
    item = web.extract({"urls": [url], "format": "html"})[0]
    assert "<p>" in item["html"]
    assert "seventy degrees" in item["html"]
    assert "Shop navigation" not in item["html"]
    assert item["text"].startswith("Brewing tea")


def test_a_redirect_shows_in_the_final_url(web: WebGateway) -> None:
    target = web.site.page("tea", TEA)
    item = web.extract([web.site.redirect("moved", "/tea")])[0]
    assert (item["ok"], item["final_url"], item["status"]) == (True, target, 200)


def test_a_text_in_another_encoding_is_decoded(web: WebGateway) -> None:
    url = web.site.page("latin", "Smörgåsbord är gott.".encode("latin-1"), "Content-Type: text/plain; charset=latin-1")
    assert web.extract([url])[0]["text"] == "Smörgåsbord är gott."


def test_pages_that_cannot_be_read_do_not_harm_the_others(web: WebGateway) -> None:
    site = web.site

    async def silent(exchange: Exchange) -> None:
        await exchange.until_closed()

    expected = {
        site.page("tea", TEA): "",
        site.page("gone", "gone", status="404 Not Found"): "page_unavailable",
        site.page("private", TEA): "robots_disallowed",
        site.page("large", "x" * 300_000): "response_too_large",
        site.page("picture", b"\x89PNG\r\n\x1a\n", "Content-Type: image/png"): "unsupported_media_type",
        site.page("empty", "<html><body></body></html>"): "no_text",
        site.page("broken.pdf", b"%PDF-1.7 nonsense", "Content-Type: application/pdf"): "extraction_failed",
        site.behave("silent", silent): "fetch_timeout",
        site.redirect("inner", f"{web.inner.origin}/secret"): "url_refused",
        site.redirect("metadata", "http://169.254.169.254/latest/meta-data/"): "address_refused",
        "http://127.0.0.1/": "address_refused",
        "http://[::1]/": "address_refused",
        "file:///etc/passwd": "url_refused",
        "nonsense": "url_refused",
        "": "url_refused",
        f"{web.closed}/": "unreachable",
        site.page("coffee", COFFEE): "",
    }
    items = web.extract([*expected, site.origin + "/tea"])
    assert [item["url"] for item in items] == [*expected, site.origin + "/tea"]
    assert [item.get("code", "") for item in items] == [*expected.values(), ""]
    failed = [item for item in items if not item["ok"]]
    assert all(item["error"] and "text" not in item for item in failed)
    assert next(item for item in items if item["url"].endswith("/gone"))["status"] == 404
    assert web.inner.requests == []
    assert site.paths().count("/tea") == 1


def test_a_failure_is_not_kept(web: WebGateway) -> None:
    url = web.site.page("flaky", "", status="503 Service Unavailable")
    assert web.extract([url])[0]["ok"] is False
    web.site.page("flaky", TEA)
    assert web.extract([url])[0]["ok"] is True


@pytest.mark.parametrize(
    "body",
    [
        [],
        {"urls": []},
        {},
        {"urls": "http://a.test"},
        {"urls": [1]},
        [None],
        ["http://a.test"] * 51,
        {"urls": ["http://a.test"], "format": "pdf"},
        "http://a.test",
        None,
    ],
)
def test_another_body_is_400(web: WebGateway, body: Any) -> None:
    response = web.call("POST", "/extract", json=body)
    assert (response.status_code, response.json()["code"]) == (400, "invalid_request")


def test_a_caller_without_a_key_is_401(web: WebGateway) -> None:
    assert web.call("POST", "/extract", "", json=["http://a.test"]).status_code == 401


def test_neither_log_nor_error_has_a_part_of_a_url_or_a_page(web: WebGateway) -> None:
    page = web.site.page("canary-path", article("canary-title", "canary-text " * 50))
    web.extract([page, "http://canary-user:canary-password@canary-host.invalid/", f"{web.closed}/canary"])
    assert "canary" not in web.log.read_text()
