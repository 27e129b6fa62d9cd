"""A provider of embeddings whose responses wait until a test releases them."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer


class HeldProvider:
    """A server with the API of Text Embeddings Inference, whose responses wait until they are released.

    Attributes:
        url: its address.
        released: whether responses are sent.
        held_text: a part of the texts whose responses wait; all wait if it is empty.
    """

    def __init__(self, url: str) -> None:
        self.url = url
        self.released = threading.Event()
        self.held_text = ""

    def base(self) -> dict[str, object]:
        """The fields of a base that uses it."""
        return {"embeddingProvider": "tei", "embeddingParameters": {"baseUrl": self.url}}


@contextmanager
def held_provider() -> Iterator[HeldProvider]:
    """Start a provider, and release it at the end."""

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:  # a name of the standard library
            body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
            if any(provider.held_text in text for text in body["inputs"]):
                provider.released.wait()
            content = json.dumps([[1.0, 0.5] for _ in body["inputs"]]).encode()
            # The caller may have cancelled its request.
            with suppress(ConnectionError):
                self.send_response(200)
                self.send_header("Content-Type", "application/json")
                self.send_header("Content-Length", str(len(content)))
                self.end_headers()
                self.wfile.write(content)

        def log_message(self, *_: object) -> None:
            """Log nothing."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    provider = HeldProvider(f"http://127.0.0.1:{server.server_port}")
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    yield provider
    provider.released.set()
    server.shutdown()
    server.server_close()
    thread.join()
