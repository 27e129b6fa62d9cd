"""The API reference at `/docs`: every operation of both services, and calls from the page."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any, Final
from urllib.parse import urlsplit

import httpx
import pytest

from ragstore.kit.page.built_files import REFERENCE, built_files
from tests.page.conftest import OpenTab
from tests.page.tab import NARROW, Tab
from tests.page.test_hostile import STRINGS, harmless
from tests.support.keyed_services import KeyedService, eventually
from tests.support.servers import Served

ALL_BYTES: Final = 24_000
REQUESTS: Final = 7
METHODS: Final = ("get", "post", "put", "patch", "delete")
FORM: Final = "Try it"

ShowReference = Callable[..., Tab]


@pytest.fixture
def reference(open_tab: OpenTab) -> ShowReference:
    """Opens the API reference of a service."""

    def open_(url: str, path: str = "", **options: Any) -> Tab:
        tab = open_tab(url, path, page="docs", **options)
        tab.page.get_by_role("heading", level=1).first.wait_for()
        return tab

    return open_


def operations_of(url: str) -> list[dict[str, Any]]:
    """The operations of the OpenAPI document of a service."""
    paths = httpx.get(f"{url}/openapi.json").json()["paths"]
    return [
        {**operation, "path": path, "method": method}
        for path, item in paths.items()
        for method, operation in item.items()
        if method in METHODS
    ]


def shown_operation(tab: Tab, operation: dict[str, Any]) -> Any:
    """Show an operation, and return its part of the page."""
    tab.show(f"#/{operation['operationId']}")
    found = tab.page.get_by_role("article").filter(has_text=operation["operationId"])
    found.get_by_role("heading", name=operation["summary"], exact=True, level=1).wait_for()
    return found


WALK: Final = """async ids => {
  const frame = () => new Promise(requestAnimationFrame);
  const texts = selector => [...document.querySelectorAll(`article ${selector}`)].map(each => each.textContent);
  const isWide = () => document.documentElement.scrollWidth > document.documentElement.clientWidth + 1;
  const found = [];
  for (const id of ids) {
    location.hash = `#/${id}`;
    while (texts(".facts code")[0] !== id) await frame();
    const operation = {
      id,
      title: texts("h1")[0],
      path: texts(".call code")[0],
      parameters: texts("section[aria-label=Parameters] > ul > li .part-name"),
      bodies: texts("section[aria-label='Request body']").length,
      statuses: texts("section[aria-label=Responses] > details > summary strong"),
      opened: 0,
      isWide: isWide(),
    };
    // A schema may contain itself, so only some levels are opened.
    for (let level = 0; level < 3; level += 1) {
      for (const each of document.querySelectorAll("article details:not([open])")) {
        each.open = true;
        operation.opened += 1;
      }
      await frame();
      await frame();
    }
    operation.isWide ||= isWide();
    location.hash = `#/${id}/try`;
    while (!document.querySelector("article nav a:last-child[aria-current]")) await frame();
    operation.button = texts("button[type=submit]")[0];
    operation.isWide ||= isWide();
    found.push(operation);
  }
  return found;
}"""
"""Shows operations and their forms one after the other."""


def walked(tab: Tab, operations: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Show each operation, open its schemas and its form, and return what was shown."""
    found: list[dict[str, Any]] = tab.page.evaluate(WALK, [each["operationId"] for each in operations])
    return found


@pytest.mark.parametrize("service", ["store", "gateway"])
def test_every_operation_is_shown_with_its_parameters_schemas_and_form(
    reference: ShowReference, service: str, request: pytest.FixtureRequest
) -> None:
    url = request.getfixturevalue(service).url
    operations = operations_of(url)
    tab = reference(url)
    assert tab.page.get_by_role("navigation", name="Operations").get_by_role("link").count() == len(operations)
    found = walked(tab, operations)
    opened = [each.pop("opened") for each in found]
    assert found == [
        {
            "id": each["operationId"],
            "title": each["summary"],
            "path": each["path"],
            "parameters": [parameter["name"] for parameter in each.get("parameters", [])],
            "bodies": int("requestBody" in each),
            "statuses": list(each["responses"]),
            "button": f"Send {each['method'].upper()}",
            "isWide": False,
        }
        for each in operations
    ]
    assert sum(opened) > len(operations)


def test_a_field_shows_its_limits_values_and_default(reference: ShowReference, store: Served) -> None:
    tab = reference(store.url, "#/createCollection")
    body = tab.page.get_by_role("region", name="Request body")
    distance = body.locator(".part").filter(has=tab.page.locator(".part-name", has_text="distance")).first

    assert "cosine" in distance.inner_text()
    assert "default" in body.inner_text()
    assert "characters" in body.inner_text()


def form_of(tab: Tab, operation: str) -> Any:
    """The form of an operation."""
    tab.show(f"#/{operation}/try")
    article = tab.page.get_by_role("article").filter(has_text=operation)
    article.get_by_role("button", name="Send ").wait_for()
    return article


def sent(article: Any, status: int) -> str:
    """Send the form, and return the response as it is shown."""
    article.get_by_role("button", name="Send ").click()
    response = article.get_by_role("region", name="Response", exact=True)
    response.get_by_role("heading", name=str(status)).wait_for()
    article.locator("section[aria-busy=false]").wait_for()
    return str(response.text_content())


def test_the_page_calls_the_service(reference: ShowReference, store: Served) -> None:
    tab = reference(store.url)
    listing = form_of(tab, "listCollections")
    listing.get_by_label("limit").fill("2")
    assert '"handbook"' in sent(listing, 200)
    creating = form_of(tab, "createCollection")
    example = json.loads(creating.get_by_label("Body (application/json)").input_value())
    assert example["name"]
    body = {"name": "from-the-page", "metadata": {"number": 12345678901234567}}
    creating.get_by_label("Body (application/json)").fill(json.dumps(body))
    assert '"name": "from-the-page"' in sent(creating, 201)
    assert "x-request-id" in creating.get_by_role("region", name="Response", exact=True).inner_text()
    assert httpx.get(f"{store.url}/collections/from-the-page").json()["metadata"] == body["metadata"]
    reading = form_of(tab, "getCollection")
    reading.get_by_label("collection_name").fill("from-the-page")
    assert "12345678901234567" in sent(reading, 200)
    deleting = form_of(tab, "deleteCollection")
    deleting.get_by_label("collection_name").fill("from-the-page")
    sent(deleting, 200)
    assert httpx.get(f"{store.url}/collections/from-the-page").status_code == 404


def test_the_problem_of_a_wrong_body_is_shown(reference: ShowReference, store: Served) -> None:
    article = form_of(reference(store.url), "createCollection")
    article.get_by_label("Body (application/json)").fill('{"name": ""}')

    assert '"status": 400' in sent(article, 400)


def test_a_path_without_its_value_is_not_sent(reference: ShowReference, store: Served) -> None:
    tab = reference(store.url)
    article = form_of(tab, "getDocument")
    article.get_by_label("document_id").fill("")
    assert article.get_by_role("button", name="Send GET").is_disabled()
    assert "Missing: document_id" in article.inner_text()
    article.get_by_label("collection_name").fill("..")
    article.get_by_label("document_id").fill("x")
    article.get_by_role("button", name="Send GET").click()
    article.get_by_role("alert").wait_for()
    assert not [each for each in tab.requests if each.endswith("/x")]


def test_the_page_of_the_gateway_streams_and_uploads(reference: ShowReference, gateway: Served) -> None:
    tab = reference(gateway.url)
    (base,) = httpx.get(f"{gateway.url}/ragstore/rags/descriptors", params={"filter": "House handbook"}).json()
    id_ = base["resource"].rpartition("/")[2].partition("?")[0]
    article = form_of(tab, "uploadSourceFiles")
    article.get_by_label("id (required)", exact=True).fill(id_)
    article.get_by_label("source", exact=False).first.fill("nowhere")
    article.get_by_label("files").set_input_files([{"name": "a.txt", "mimeType": "text/plain", "buffer": b"Tea"}])
    assert "source" in sent(article, 404)
    embedding = form_of(tab, "createEmbeddings")
    embedding.get_by_label("Body (application/json)").fill('{"model": "builtin/minilm", "input": "tea"}')
    assert '"embedding"' in sent(embedding, 200)


def test_the_command_is_the_call(reference: ShowReference, store: Served) -> None:
    article = form_of(reference(store.url), "createCollection")
    article.get_by_label("Body (application/json)").fill('{"name": "it\'s"}')
    command = article.get_by_role("region", name="curl").locator("pre").inner_text()

    assert command.startswith(f"curl -s -X POST '{store.url}/collections'")
    assert """--data-binary '{"name": "it'\\''s"}'""" in command
    assert "Authorization" not in command


def test_without_a_key_the_reference_is_shown_and_with_one_it_calls(
    reference: ShowReference, keyed: KeyedService
) -> None:
    tab = reference(keyed.served.url, "#/listCollections/try")
    article = tab.page.get_by_role("article")
    tab.page.get_by_role("button", name="Sign in").wait_for()
    assert '"status": 401' in sent(article, 401)
    assert "$RAGSTORE_API_KEY" in article.inner_text()
    tab.page.get_by_role("button", name="Sign in").click()
    dialog = tab.page.get_by_role("dialog")
    dialog.get_by_label("Key").fill("rsk_wrong")
    dialog.get_by_role("button", name="Sign in").click()
    dialog.get_by_role("alert").get_by_text("The key is not valid").wait_for()
    dialog.get_by_label("Key").fill(keyed.keys["reader"])
    dialog.get_by_role("button", name="Sign in").click()
    tab.page.get_by_role("button", name="Sign out").wait_for()
    assert "#/listCollections/try" in tab.address()
    assert '"handbook"' in sent(article, 200)
    assert keyed.keys["reader"] not in tab.text()
    tab.page.get_by_role("button", name="Sign out").click()
    tab.page.get_by_role("button", name="Sign in").wait_for()
    assert '"handbook"' not in tab.text()
    assert '"status": 401' in sent(article, 401)


def test_the_key_of_the_page_is_the_key_of_the_reference(open_tab: OpenTab, keyed: KeyedService) -> None:
    tab = open_tab(keyed.served.url)
    tab.page.get_by_label("Key").fill(keyed.keys["reader"])
    tab.page.get_by_role("button", name="Sign in").click()
    tab.page.get_by_role("link", name="API reference").click()
    tab.page.get_by_role("button", name="Sign out").wait_for()

    assert urlsplit(tab.address()).path == "/docs"
    tab.page.get_by_role("link", name="The page").click()
    tab.page.get_by_role("gridcell", name="handbook").wait_for()


def test_search_and_keyboard_find_an_operation(reference: ShowReference, gateway: Served) -> None:
    tab = reference(gateway.url)
    tab.page.get_by_label("Find an operation").fill("ingest batch")
    links = tab.page.get_by_role("navigation", name="Operations").get_by_role("link")
    assert links.count() < 5
    tab.page.keyboard.press("Enter")
    heading = tab.page.get_by_role("article").get_by_role("heading", level=1)
    heading.wait_for()
    assert "ingestDocuments" in tab.address()
    tab.page.get_by_label("Find an operation").fill("nothing has these words")
    tab.page.keyboard.press("Enter")
    assert "ingestDocuments" in tab.address()
    tab.page.get_by_label("Find an operation").fill("")
    links.first.focus()
    tab.page.keyboard.press("Enter")
    eventually(lambda: tab.page.evaluate("document.activeElement.tagName") == "H1")


@pytest.mark.parametrize("path", ["#/createCollection", "#/collections/createCollection"])
def test_an_operation_has_an_address(reference: ShowReference, store: Served, path: str) -> None:
    tab = reference(store.url, path)
    tab.page.get_by_role("article").get_by_text("createCollection").wait_for()

    assert tab.page.title().startswith(tab.page.get_by_role("heading", level=1).inner_text())
    tab.show("#/no-such-operation")
    tab.see("There is no such operation")


@pytest.mark.parametrize(("service", "scheme"), [("store", "light"), ("gateway", "dark")])
def test_axe_finds_no_fault(
    reference: ShowReference, service: str, scheme: str, request: pytest.FixtureRequest
) -> None:
    url = request.getfixturevalue(service).url
    tab = reference(url, color_scheme=scheme)
    found = {"overview": tab.faults()}
    for operation in operations_of(url)[::12]:
        shown_operation(tab, operation)
        found[operation["operationId"]] = tab.faults()
        form_of(tab, operation["operationId"])
        found[f"{operation['operationId']} form"] = tab.faults()
    article = form_of(tab, "getHealth" if service == "store" else "listModels")
    article.get_by_role("button", name="Send ").click()
    article.get_by_role("region", name="Response", exact=True).wait_for()
    found["response"] = tab.faults()
    tab.page.get_by_label("Find an operation").fill("nothing has these words")
    found["nothing found"] = tab.faults()

    assert {screen: faults for screen, faults in found.items() if faults} == {}


def test_axe_finds_no_fault_in_the_sign_in(reference: ShowReference, keyed: KeyedService) -> None:
    tab = reference(keyed.served.url)
    tab.page.get_by_role("button", name="Sign in").click()
    tab.page.get_by_role("dialog").wait_for()

    assert tab.faults() == []


@pytest.mark.parametrize(("viewport", "size"), [(NARROW, "100%"), ({"width": 640, "height": 800}, "200%")])
def test_the_reference_does_not_scroll_sideways(
    reference: ShowReference, gateway: Served, viewport: dict[str, int], size: str
) -> None:
    tab = reference(gateway.url, viewport=viewport)
    tab.page.evaluate("size => { document.documentElement.style.fontSize = size; }", size)
    assert not tab.overflows()
    assert [each["id"] for each in walked(tab, operations_of(gateway.url)[::4]) if each["isWide"]] == []


def hostile_document() -> dict[str, Any]:
    """An OpenAPI document whose strings are hostile, and whose schemas contain themselves."""
    names = [text for text in STRINGS if text.strip()]
    properties = {name: {"type": name, "description": name, "pattern": name, "enum": [name]} for name in names}
    schema = {"type": "object", "properties": {**properties, "self": {"$ref": "#/components/schemas/Self"}}}
    operations = {
        f"/{number}{name}": {
            "get": {
                "operationId": name,
                "tags": [name],
                "summary": name,
                "description": name,
                "parameters": [
                    {"name": name, "in": "query", "required": True, "schema": {"type": name, "default": name}}
                ],
                "requestBody": {"content": {"application/json": {"schema": {"$ref": "#/components/schemas/Self"}}}},
                "responses": {name: {"description": name, "content": {name: {"schema": schema}}}, "200": {"$ref": "#"}},
            }
        }
        for number, name in enumerate(names)
    }
    loop = {"$ref": "#/components/schemas/Loop"}
    return {
        "info": {"title": names[0], "version": names[1], "description": "\n\n".join(names)},
        "paths": {
            **operations,
            "/loop": {"get": {"operationId": "loop", "responses": {"200": {"content": {"a": {"schema": loop}}}}}},
        },
        "components": {"schemas": {"Self": schema, "Loop": loop}},
    }


def test_hostile_texts_of_a_document_are_shown_as_text(open_tab: OpenTab, store: Served) -> None:
    document = hostile_document()
    tab = open_tab(store.url, page="openapi.json")
    tab.page.route("**/openapi.json", lambda route: route.fulfill(json=document))
    tab.page.goto(f"{store.url}/docs")
    tab.page.get_by_role("navigation", name="Operations").wait_for()
    links = tab.page.get_by_role("navigation", name="Operations").get_by_role("link")
    assert links.count() == len(document["paths"])
    assert not {"\u202e", "\u2028", "\u0000"} & set(tab.text())
    for number in range(links.count()):
        links.nth(number).click()
        article = tab.page.get_by_role("article")
        article.wait_for()
        tab.page.evaluate("() => { for (const each of document.querySelectorAll('details')) each.open = true; }")
        tab.page.evaluate("new Promise(requestAnimationFrame)")
        assert not {"\u202e", "\u2028", "\u0000"} & set(tab.text())
        article.get_by_role("link", name=FORM).click()
        article.get_by_role("button", name="Send GET").wait_for()
    assert harmless(tab)


def test_the_reference_is_light(reference: ShowReference, gateway: Served) -> None:
    assert sum(len(each.compressed) for each in built_files(REFERENCE).values()) <= ALL_BYTES
    tab = reference(gateway.url)
    assert len(tab.requests) <= REQUESTS
