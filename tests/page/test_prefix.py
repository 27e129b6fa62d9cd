"""The page behind a proxy that serves the store below another path."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import httpx
import pytest

from tests.page.conftest import OpenTab
from tests.page.data import LARGE
from tests.support.process_fixtures import starts_process
from tests.support.servers import Served

PREFIX = "/internal/store"


@pytest.fixture
@starts_process
def proxied(store: Served) -> Iterator[str]:
    """The address of a proxy, which removes a prefix."""

    class Proxy(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def _pass_on(self) -> None:
            body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
            names = ("Accept", "Content-Type")
            headers = {name: self.headers[name] for name in names if name in self.headers}
            path = self.path.removeprefix(PREFIX) if self.path.startswith(PREFIX) else "/nowhere"
            found = httpx.request(self.command, store.url + path, content=body, headers=headers)
            self.send_response(found.status_code)
            for name, value in found.headers.items():
                if name not in ("content-length", "content-encoding", "transfer-encoding", "date", "connection"):
                    self.send_header(name, value)
            self.send_header("Content-Length", str(len(found.content)))
            self.end_headers()
            self.wfile.write(found.content)

        do_GET = do_POST = _pass_on  # noqa: N815  # names of the standard library

        def log_message(self, *_: object) -> None:
            """Log nothing."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Proxy)
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    yield f"http://127.0.0.1:{server.server_port}"
    server.shutdown()
    server.server_close()
    thread.join()


def test_the_page_works_below_a_prefix(open_tab: OpenTab, proxied: str) -> None:
    tab = open_tab(proxied + PREFIX)
    tab.page.get_by_role("gridcell", name=LARGE).click()
    tab.see("handbook:00003")

    assert [each for each in tab.requests if f"{PREFIX}/collections/{LARGE}" in each]


def test_a_browser_is_redirected_below_the_prefix(open_tab: OpenTab, proxied: str) -> None:
    tab = open_tab(proxied + PREFIX)
    tab.page.goto(f"{proxied}{PREFIX}/")
    tab.page.get_by_role("gridcell", name=LARGE).wait_for()

    assert tab.address().startswith(f"{proxied}{PREFIX}/ui/")
