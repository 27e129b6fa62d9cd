"""The gateway with a watchdog on its event loop: `python -m tests.hostile.watched_gateway`. See `watched_service`."""

from __future__ import annotations

from ragstore.kit.logging import configure
from ragstore.kit.server.runner import run
from ragstore_gateway import settings
from ragstore_gateway.app import METRICS, SERVICE, create_app
from tests.hostile.watched_service import Watchdog

if __name__ == "__main__":
    chosen = settings.load()
    configure(chosen.log_level, chosen.log_format, SERVICE.name)
    run(lambda stopping: Watchdog(create_app(chosen, stopping)), chosen, METRICS)
