"""Runs schemathesis against a service: all checks, all phases, valid and invalid data.

`make fuzz FUZZ="--seconds 300 --target remote"` runs this; test_fuzz_*.py do the same, briefly.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path

from tests.fuzz.hooks import SAMPLED
from tests.support.fake_sites import fake_site
from tests.support.fake_upstream import responding
from tests.support.gateways import start_gateway, start_model
from tests.support.servers import Served, running, start_chroma, start_service

ROOT = Path(__file__).resolve().parents[2]

SEARCH_RESULTS = ROOT / "tests/gateway/web/recordings/searxng.json"

MAX_SECONDS = 300
"""Time in which a run ends in any case, beyond the time that it is given. A machine under load needs it."""

TARGETS = ("embedded", "remote", "gateway")
"""The store over embedded Chroma, the store over a Chroma server, and the gateway."""


@dataclass(frozen=True)
class Bounds:
    """When a run ends.

    Attributes:
        examples: cases for each operation in the phases that draw them, at most.
        seconds: time for the run, which repeats these phases until it is over; None to end with the cases, so that each
            machine tries the same.
        seed: seed of the cases; None for a random one.
        sampled: whether the coverage phase, whose cases are not drawn, tries a sample of them.
    """

    examples: int
    seconds: int | None = None
    seed: int | None = None
    sampled: bool = False


def fuzz(service: Served, bounds: Bounds) -> subprocess.CompletedProcess[str]:
    """Run schemathesis once.

    Args:
        service: the service to talk to.
        bounds: when the run ends.

    Returns:
        The finished run; its exit code is 0 when nothing was found.
    """
    command = [
        str(Path(sys.executable).parent / "schemathesis"),
        *("--config-file", str(ROOT / "schemathesis.toml")),
        *("run", f"{service.url}/openapi.json", "--url", service.url),
        *("--checks", "all", "--mode", "all", "--phases", "examples,coverage,fuzzing,stateful"),
        *(() if bounds.seed is None else ("--seed", str(bounds.seed))),
        *(() if bounds.seconds is None else ("--max-time", str(bounds.seconds))),
        *("--max-examples", str(bounds.examples)),
        *("--continue-on-failure", "--no-color", "--output-truncate", "false"),
    ]
    environ = {**os.environ, SAMPLED: "1"} if bounds.sampled else None
    limit = (bounds.seconds or 0) + MAX_SECONDS
    return subprocess.run(command, cwd=ROOT, env=environ, capture_output=True, text=True, timeout=limit, check=False)


def campaign(target: str, bounds: Bounds) -> subprocess.CompletedProcess[str]:
    """Start a service, and fuzz it.

    Args:
        target: one of `TARGETS`.
        bounds: when the run ends.

    Returns:
        The finished run.
    """
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder)
        if target == "embedded":
            with running(start_service(path)) as service:
                return fuzz(service, bounds)
        if target == "gateway":
            with running(start_model(path)) as model, fake_site() as engine:
                engine.default = responding(SEARCH_RESULTS.read_bytes())
                environ = {
                    "RAGSTORE_GATEWAY_UPSTREAM_URL": f"{model.url}/v1",
                    # The host of the httpCalls in hooks.py.
                    "RAGSTORE_GATEWAY_HTTP_CALL_HOSTS": "search.example",
                    "SEARXNG_URL": engine.origin,
                }
                with running(start_gateway(path, environ)) as service:
                    return fuzz(service, bounds)
        with (
            running(start_chroma(path)) as chroma,
            running(start_service(path, {"RAGSTORE_CHROMA_URL": chroma.url})) as service,
        ):
            return fuzz(service, bounds)


def main() -> None:
    """Fuzz the selected targets. Exit with 1 if a failure was found."""
    parser = argparse.ArgumentParser(description=main.__doc__)
    parser.add_argument("--seconds", type=int, default=120, help="time for each target (default: 120)")
    parser.add_argument("--examples", type=int, default=100, help="cases for each operation, at most (default: 100)")
    parser.add_argument("--target", choices=(*TARGETS, "all"), default="all")
    options = parser.parse_args()
    failed = False
    for target in TARGETS if options.target == "all" else (options.target,):
        print(f"== {target}", flush=True)  # noqa: T201  # a command prints
        run = campaign(target, Bounds(options.examples, options.seconds))
        print(run.stdout, run.stderr, sep="\n", flush=True)  # noqa: T201
        failed |= run.returncode != 0
    sys.exit(failed)


if __name__ == "__main__":
    main()
