"""Try other Pythons: `python -m scripts.smoke python3.12 python3.13 ...`.

For each: an environment with the locked packages and this tree's wheel, `ragstore serve` with embedded Chroma, a write,
a query, and a stop by SIGTERM. It needs a package index. `--environments FOLDER` names the folder of the environments.
"""

from __future__ import annotations

import argparse
import json
import os
import signal
import socket
import subprocess
import sys
import tempfile
import time
import urllib.error
import urllib.request
from pathlib import Path
from typing import Any, Final

ROOT: Final = Path(__file__).resolve().parents[1]
START_SECONDS: Final = 60


def prepare(python: str, folder: Path) -> Path:
    """Create an environment with the service, or use an earlier run's environment.

    Args:
        python: the interpreter.
        folder: folder of the environment.

    Returns:
        The environment's interpreter.
    """
    inside = folder / "bin/python"
    if not inside.exists():
        subprocess.run([python, "-m", "venv", str(folder)], check=True)
    pip = [str(inside), "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
    subprocess.run([*pip, "--require-hashes", "-r", str(ROOT / "requirements/embedded.txt")], check=True)
    with tempfile.TemporaryDirectory() as wheels:
        for package in (ROOT, ROOT / "clients/python"):
            command = [sys.executable, "-m", "hatchling", "build", "--target", "wheel", "--directory", wheels]
            subprocess.run(command, cwd=package, check=True, stdout=subprocess.DEVNULL)
        built = [str(wheel) for wheel in Path(wheels).glob("*.whl")]
        subprocess.run([*pip, "--force-reinstall", "--no-deps", *built], check=True)
    return inside


def send(url: str, method: str, path: str, body: object = None) -> Any:
    """Send a request and return the JSON of its response."""
    data = None if body is None else json.dumps(body).encode()
    request = urllib.request.Request(url + path, data, {"Content-Type": "application/json"}, method=method)
    with urllib.request.urlopen(request, timeout=30) as response:
        return json.loads(response.read())


def run(python: Path) -> str:
    """Start the service, write, query, and stop it.

    Args:
        python: an interpreter with the service.

    Returns:
        One line about the result.
    """
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    url = f"http://127.0.0.1:{port}"
    with tempfile.TemporaryDirectory() as folder:
        environ = {name: value for name, value in os.environ.items() if not name.startswith(("RAGSTORE_", "PYTHON"))}
        process = subprocess.Popen(
            [str(python), "-W", "error::SyntaxWarning", "-m", "ragstore", "serve"],
            cwd=folder,
            env={**environ, "RAGSTORE_PORT": str(port)},
        )
        try:
            deadline = time.monotonic() + START_SECONDS
            while True:
                try:
                    send(url, "GET", "/health/ready")
                    break
                except (urllib.error.URLError, ConnectionError):
                    if process.poll() is not None or time.monotonic() > deadline:
                        raise
                    time.sleep(0.2)
            send(url, "POST", "/collections", {"name": "smoke"})
            documents = [{"id": str(n), "text": f"Text {n}", "embedding": [1.0, n, 0.5]} for n in range(50)]
            send(url, "PUT", "/collections/smoke/documents", {"documents": documents})
            query = {"query_embedding": [1.0, 7.0, 0.5], "top_k": 1}
            (match,) = send(url, "POST", "/collections/smoke/query", query)["results"]
            version = send(url, "GET", "/health")["details"]["chroma_version"]
        finally:
            process.send_signal(signal.SIGTERM)
            code = process.wait(timeout=60)
    if match["id"] != "7" or code != 0:
        raise SystemExit(f"{python}: the nearest document is {match['id']}, the exit code {code}")
    return f"Chroma {version}, 50 documents, the nearest is right, exit code 0"


def main() -> None:
    """Try each interpreter of the command line; exit with an error at the first that fails."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("pythons", nargs="+", metavar="PYTHON")
    parser.add_argument("--environments", type=Path, default=ROOT / "build/smoke")
    options = parser.parse_args()
    for python in options.pythons:
        command = [python, "-c", "import platform; print(platform.python_version())"]
        version = subprocess.run(command, check=True, capture_output=True, text=True).stdout.strip()
        inside = prepare(python, options.environments / version)
        print(f"Python {version}: {run(inside)}", flush=True)


if __name__ == "__main__":
    main()
