"""Run copies of the tests of OGX and of openai-python against a running gateway.

    python -m scripts.peer_suites FOLDER [GATEWAY_URL]

`FOLDER` has a copy of each repository: `ogx` and `openai-python`. The gateway has no keys, and loses its vector stores
and files. Nothing of the suites is a part of this repository.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]

OPENAI_PYTHON = (
    "tests/api_resources/test_vector_stores.py",
    "tests/api_resources/test_files.py",
    "tests/api_resources/test_uploads.py",
    "tests/api_resources/vector_stores",
    "tests/api_resources/uploads",
)


def run_openai_python(copy: Path, url: str) -> bool:
    """Run openai-python's tests of vector stores, files and uploads; whether all that apply have passed."""
    options = ["-p", "scripts.peer_suites.openai_python", "-o", "asyncio_mode=auto"]
    return _pytest(copy, [*options, *OPENAI_PYTHON], {"TEST_API_BASE_URL": f"{url}/v1"})


def run_ogx(copy: Path, url: str) -> bool:
    """Run OGX's tests of vector stores; whether all that apply have passed."""
    with tempfile.TemporaryDirectory() as folder:
        # The tests import their conftest from the package above.
        package = Path(folder) / "suite"
        (package / "vector_io").mkdir(parents=True)
        for each in (package, package / "vector_io"):
            (each / "__init__.py").touch()
        (package / "conftest.py").write_text("from scripts.peer_suites.ogx import *\n")
        name = "vector_io/test_openai_vector_stores.py"
        shutil.copy(copy / "tests/integration" / name, package / name)
        return _pytest(Path(folder), [f"suite/{name}"], {"TEST_API_BASE_URL": f"{url}/v1"})


def _pytest(folder: Path, arguments: list[str], environ: dict[str, str]) -> bool:
    command = [sys.executable, "-m", "pytest", "-c", os.devnull, "--rootdir", str(folder), "-q", "-rs", "--tb=short"]
    environ = {**os.environ, "PYTHONPATH": str(ROOT), "PYTHONDONTWRITEBYTECODE": "1", **environ}
    return subprocess.run([*command, *arguments], cwd=folder, env=environ, check=False).returncode == 0


def main() -> int:
    """Run both suites; 1 if a test that applies has failed."""
    if len(sys.argv) not in (2, 3):
        print("make suites SUITES=FOLDER: the folder has copies of ogx and openai-python", file=sys.stderr)
        return 2
    folder = Path(sys.argv[1]).resolve()
    url = (sys.argv[2:] or ["http://127.0.0.1:8090"])[0].rstrip("/")
    runs = [run_openai_python(folder / "openai-python", url), run_ogx(folder / "ogx", url)]
    return 0 if all(runs) else 1


if __name__ == "__main__":
    sys.exit(main())
