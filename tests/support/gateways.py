"""Starts gateways, on free ports."""

from __future__ import annotations

import hashlib
import json
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Literal

from tests.support.pages import ROOT
from tests.support.servers import Served, free_port, start_command, start_process

FAST_MODEL = "builtin/wordllama"
"""The model of the gateways of tests. The default model of new bases takes 170 times as long."""

CHOOSING_A_MODEL = {
    "RAGSTORE_GATEWAY_EMBEDDING_MODEL",
    "RAGSTORE_GATEWAY_EMBEDDING_PROVIDER",
    "EMBEDDER_BASE",
    "MODEL_NAME",
}


def start_gateway(
    folder: Path,
    environ: Mapping[str, str] | None = None,
    *,
    port: int | None = None,
    ready: bool = True,
    prefix: Sequence[str] = (),
    command: Literal["serve", "worker"] = "serve",
) -> Served:
    """Start a gateway, or a worker.

    Args:
        folder: where its data and its log go.
        environ: `RAGSTORE_GATEWAY_*` and other variables; without `RAGSTORE_URL` the store runs in its process.
        port: the port to listen on; a free one when None.
        ready: whether to wait until it is ready, or only until it listens.
        prefix: a command that becomes the gateway, which it is followed by.
        command: the command of `ragstore-gateway`.

    Returns:
        The running gateway.
    """
    port = port or free_port()
    settings = {
        "RAGSTORE_GATEWAY_PORT": str(port),
        "RAGSTORE_GATEWAY_DATA_PATH": str(folder / "data"),
        **(environ or {}),
    }
    if CHOOSING_A_MODEL.isdisjoint(settings):
        settings["RAGSTORE_GATEWAY_EMBEDDING_MODEL"] = FAST_MODEL
    served = start_command(
        "ragstore_gateway", [command], f"http://127.0.0.1:{port}", folder / "gateway.log", settings, prefix
    )
    try:
        served.wait_until_ready("/health/ready" if ready else "/health/live")
    except RuntimeError:
        served.process.kill()
        raise
    return served


def start_model(folder: Path) -> Served:
    """Start the model server of the examples, which has OpenAI's API and no model.

    Args:
        folder: where its log goes.
    """
    port = free_port()
    served = start_process(
        [sys.executable, str(ROOT / "examples/extractive_model.py"), "--port", str(port)],
        f"http://127.0.0.1:{port}",
        folder / "model.log",
        {},
    )
    served.wait_until_ready("/v1/models")
    return served


def write_keys(file: Path, roles: Mapping[str, str]) -> dict[str, str]:
    """Write a file of keys, as `ragstore-gateway keys new` does.

    Args:
        roles: the role of each key, by its name.

    Returns:
        The plain keys by name.
    """
    return write_scoped_keys(file, {name: {"gateway": {"role": role}} for name, role in roles.items()})


def write_scoped_keys(file: Path, scopes: Mapping[str, object]) -> dict[str, str]:
    """Write a file of keys.

    Args:
        scopes: the scopes of each key, by its name: an object with a scope for each service.

    Returns:
        The plain keys by name.
    """
    plain = {name: f"rsk_{name}" for name in scopes}
    entries = (
        {"name": name, "sha256": hashlib.sha256(plain[name].encode()).hexdigest(), "scopes": scopes[name]}
        for name in plain
    )
    file.write_text("".join(json.dumps(entry) + "\n" for entry in entries))
    file.chmod(0o600)
    return plain
