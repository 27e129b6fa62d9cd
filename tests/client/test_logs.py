"""The log spy, which is active in every test of the client, records every line."""

from __future__ import annotations

import logging

from ragstore_client import Client
from tests.client.corpus import CANARY_TEXT, HANDBOOK
from tests.client.spies import LogSpy


def test_the_spy_records_every_line_of_every_logger(log_spy: LogSpy) -> None:
    for logger in ("ragstore_client", "httpx", "httpcore.http11", "somebody.else"):
        logging.getLogger(logger).debug("a line of %s", logger)
        assert f"a line of {logger}" in log_spy.lines


def test_calls_are_logged_by_method_path_status_and_time(
    log_spy: LogSpy, store: Client, client_collection: str
) -> None:
    store.upsert_documents(client_collection, HANDBOOK)
    assert CANARY_TEXT in store.get_document(client_collection, "doc-1:chunk:0").text
    (line,) = [line for line in log_spy.lines if line.startswith("PUT ")]
    assert line.startswith(f"PUT /collections/{client_collection}/documents: 200 in ")
