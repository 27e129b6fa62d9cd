"""A gateway with a model server, whose replies a test determines, a base, and an assistant that searches it."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from tests.page.bases import Bases
from tests.page.tab import Tab
from tests.support.fake_upstream import DONE, Behaviour, Exchange, FakeUpstream, delta, fake_upstream, stream_of
from tests.support.gateways import start_gateway
from tests.support.servers import running

MODEL: Final = "m"
"""The model of the upstream that the assistants use."""

TEA: Final = "\n\n".join(
    f"\U0001f600 Section {number}: the tea of day {number} is brewed in the kitchen, and e\u0301 is served."
    for number in range(12)
)
OVEN: Final = "The oven is cleaned every month with vinegar."
QUESTION: Final = "Where is the tea of day 3 brewed?"


@dataclass(frozen=True)
class Chats:
    """The gateway.

    Attributes:
        base: id of the base that the assistant searches.
    """

    bases: Bases
    upstream: FakeUpstream
    base: str

    @property
    def url(self) -> str:
        """The address of the gateway."""
        return self.bases.url

    def assistant(self, name: str, base: str, **fields: object) -> None:
        """Create an assistant that searches a base."""
        task = {"id": "answer", "enableWorkflowRag": True}
        body = {"name": name, "model": MODEL, "workflow": [base], "tasks": [task], **fields}
        self.bases.call("POST", "/ragstore/assistants", json=body)

    def reply(self, behaviour: Behaviour) -> None:
        """Set the reply to each question."""
        self.upstream.on(MODEL, behaviour)

    @property
    def prompt(self) -> str:
        """The messages that the upstream received last."""
        return "\n".join(each["content"] for each in self.upstream.chats()[-1].json["messages"])


@contextmanager
def running_chats(folder: Path) -> Iterator[Chats]:
    """Start the gateway.

    Args:
        folder: where its data goes.
    """
    with fake_upstream() as upstream:
        environ = {
            "RAGSTORE_GATEWAY_UPSTREAM_URL": upstream.url,
            "RAGSTORE_GATEWAY_KEEP_CONTEXTS": "true",
            "RAGSTORE_GATEWAY_HTTP_CALL_HOSTS": f"127.0.0.1:{upstream.port}",
        }
        with running(start_gateway(folder, environ)) as served:
            bases = Bases(served.url)
            documents = {"shelf/tea \U0001f600?.txt": TEA, "oven.txt": OVEN}
            base = bases.filled("Kitchen", documents, chunkSize=100, chunkOverlap=0, chunkStrategy="recursive")
            chats = Chats(bases, upstream, base)
            chats.assistant("cook", "Kitchen")
            chats.reply(stream_of("It is brewed", " in the kitchen [1]."))
            yield chats


def ask(tab: Tab, question: str = QUESTION) -> None:
    """Ask a question, as soon as there is a model."""
    tab.page.locator("select:enabled").wait_for()
    tab.page.get_by_label("Question", exact=True).fill(question)
    tab.page.get_by_role("button", name="Ask", exact=True).click()


def opened(open_tab: Callable[..., Tab], chats: Chats, model: str = "rag/cook", **options: Any) -> Tab:
    """A tab at the area, with a model."""
    return open_tab(chats.url, f"#/ask?model={model}", **options)


class HeldReply:
    """A reply whose end waits until the test releases it."""

    def __init__(self, first: str, last: str) -> None:
        self.released = threading.Event()
        self.closed: threading.Event | None = None
        self._texts = first, last

    async def __call__(self, exchange: Exchange) -> None:
        """Send the first part, wait, and send the last one."""
        self.closed = exchange.request.closed
        first, last = self._texts
        await exchange.begin_stream()
        await exchange.chunk(delta(first, MODEL))
        await exchange.until(self.released)
        await exchange.chunk(delta(last, MODEL))
        await exchange.chunk(delta(None, MODEL, "stop"))
        await exchange.chunk(DONE)
        await exchange.end_stream()


def models(*names: str) -> bytes:
    """The list of models of an upstream."""
    return json.dumps({"object": "list", "data": [{"id": name, "object": "model"} for name in names]}).encode()
