"""The watch over the logs, which every test of the client runs under, sees what it must."""

from __future__ import annotations

import logging

from ragstore_client import Client
from tests.client.conftest import Watch
from tests.client.corpus import CANARY_TEXT, HANDBOOK


def test_every_line_of_every_logger_is_seen(watch: Watch) -> None:
    for logger in ("ragstore_client", "httpx", "httpcore.http11", "somebody.else"):
        logging.getLogger(logger).debug("a line of %s", logger)
        assert f"a line of {logger}" in watch.lines


def test_calls_are_logged_by_method_path_status_and_time(watch: Watch, store: Client, collection: str) -> None:
    store.upsert_documents(collection, HANDBOOK)
    assert CANARY_TEXT in store.get_document(collection, "doc-1:chunk:0").text
    (line,) = [line for line in watch.lines if line.startswith("PUT ")]
    assert line.startswith(f"PUT /collections/{collection}/documents: 200 in ")
