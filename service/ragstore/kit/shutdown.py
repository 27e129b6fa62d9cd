"""The shutdown of a service, in two steps: it drains, and then it stops."""

from __future__ import annotations

import threading


class Shutdown(threading.Event):
    """Set when the service stops: from then on it rejects requests.

    Attributes:
        draining: set before, when the signal arrives: the service still serves, but reports that it is not ready.
    """

    def __init__(self) -> None:
        super().__init__()
        self.draining = threading.Event()


def is_draining(stopping: threading.Event) -> bool:
    """Whether load balancers should send requests elsewhere."""
    return stopping.is_set() or (isinstance(stopping, Shutdown) and stopping.draining.is_set())
