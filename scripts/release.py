"""Build everything of a release: `python -m scripts.release VERSION [--output FOLDER]`; `make release` runs it.

The sources and CHANGELOG.md must have the version already; this command verifies it. It publishes nothing.

    ragstore-*.whl, ragstore_client-*.whl, ragstore_gateway-*.whl, *.tar.gz    Python packages
    ragstore-client-*.tgz                                                      the Node package
    ragstore-VERSION-context.tar.gz                                            build context of the images
    *.cdx.json                                                                 bills of material
    CHANGES.md                                                                 the section of the changelog
    SHA256SUMS                                                                 checksums of all of these
"""

from __future__ import annotations

import argparse
import hashlib
import json
import os
import re
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Final

import yaml

from ragstore import __version__
from ragstore_client._version import __version__ as client_version
from ragstore_gateway import __version__ as gateway_version
from scripts.sbom import bill

ROOT: Final = Path(__file__).resolve().parents[1]
PYTHON_PACKAGES: Final = (".", "clients/python", "gateway")
CONTEXT: Final = (
    *("Dockerfile", "gateway/Dockerfile", ".dockerignore", "LICENSE", "README.md", "pyproject.toml"),
    *(
        "requirements",
        "service",
        "clients/python",
        "gateway",
        "docker-compose.yml",
        "docker-compose.platform.yml",
        "k8s",
    ),
)
"""The sources of the images, and the files that deploy them."""

IMAGES: Final = {"ragstore": "remote", "ragstore-embedded": "embedded", "ragstore-gateway": "gateway"}
"""The images, and the locks that they are installed from."""

SUMS: Final = "SHA256SUMS"


class NotReady(Exception):
    """The sources do not have the version."""


def check(version: str) -> None:
    """Verify that the sources have the version.

    Args:
        version: the version to release.

    Raises:
        NotReady: a file has another one.
    """
    node: str = json.loads((ROOT / "clients/node/package.json").read_text())["version"]
    image = re.search(r"^ARG VERSION=(\S+)$", (ROOT / "Dockerfile").read_text(), re.MULTILINE)
    compose: str = yaml.safe_load((ROOT / "docker-compose.yml").read_text())["services"]["ragstore"]["image"]
    found = {
        "service/ragstore/__init__.py": __version__,
        "clients/python/ragstore_client/_version.py": client_version,
        "clients/node/package.json": node,
        "Dockerfile": image[1] if image else "",
        "docker-compose.yml": compose.rpartition(":")[2],
    }
    wrong = [f"{file} has {other}" for file, other in found.items() if other != version]
    if wrong:
        raise NotReady(f"The version is not {version} everywhere: {', '.join(wrong)}")


def changes(version: str) -> str:
    """The section of the changelog about a version.

    Raises:
        NotReady: it has none.
    """
    text = (ROOT / "CHANGELOG.md").read_text()
    section = re.search(rf"^## \[{re.escape(version)}\].*?(?=^## \[|\Z)", text, re.MULTILINE | re.DOTALL)
    if section is None:
        raise NotReady(f"CHANGELOG.md has no section [{version}]")
    return section[0].rstrip() + "\n"


def build(version: str, output: Path) -> None:
    """Build all files of a release.

    Args:
        output: an empty folder for them.
    """
    seconds = int(_output("git", "log", "-1", "--format=%ct"))
    environ = {**os.environ, "SOURCE_DATE_EPOCH": str(seconds)}
    for package in PYTHON_PACKAGES:
        _run(sys.executable, "-m", "hatchling", "build", "--directory", str(output), folder=package, environ=environ)
    _run("npm", "pack", "--silent", "--pack-destination", str(output), folder="clients/node", environ=environ)
    archive = output / f"ragstore-{version}-context.tar.gz"
    _run("git", "archive", "--format=tar.gz", f"--prefix=ragstore-{version}/", f"--output={archive}", "HEAD", *CONTEXT)
    for image, lock in IMAGES.items():
        # The gateway has versions of its own.
        own = gateway_version if lock == "gateway" else version
        written = bill(image, own, ROOT / f"requirements/{lock}.txt", seconds)
        (output / f"{image}-{own}.cdx.json").write_text(json.dumps(written, indent=2) + "\n")
    node = _output("npm", "sbom", "--sbom-format=cyclonedx", "--omit=dev", "--package-lock-only", folder="clients/node")
    (output / f"ragstore-client-node-{version}.cdx.json").write_text(node)
    (output / "CHANGES.md").write_text(changes(version))
    files = sorted(file for file in output.iterdir() if file.name != SUMS)
    sums = [f"{hashlib.sha256(file.read_bytes()).hexdigest()}  {file.name}\n" for file in files]
    (output / SUMS).write_text("".join(sums))


def _run(*command: str, folder: str = ".", environ: dict[str, str] | None = None) -> None:
    subprocess.run(command, cwd=ROOT / folder, env=environ, check=True, stdout=subprocess.DEVNULL)


def _output(*command: str, folder: str = ".") -> str:
    return subprocess.run(command, cwd=ROOT / folder, check=True, stdout=subprocess.PIPE, text=True).stdout


def main(arguments: Sequence[str] | None = None) -> None:
    """Run the command.

    Args:
        arguments: the command line; the process's own by default.
    """
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("version")
    parser.add_argument("--output", type=Path, help="empty or new folder (default: build/release/VERSION)")
    parser.add_argument("--dirty", action="store_true", help="build also if files are not committed, to try it")
    options = parser.parse_args(arguments)
    output: Path = options.output or ROOT / "build/release" / options.version
    try:
        check(options.version)
        changes(options.version)
        if not options.dirty and _output("git", "status", "--porcelain", "--untracked-files=no"):
            raise NotReady("There are changes that are not committed")
        output.mkdir(parents=True, exist_ok=True)
        if any(output.iterdir()):
            raise NotReady(f"{output} is not empty")
    except NotReady as error:
        raise SystemExit(f"Error: {error}") from None
    build(options.version, output.resolve())
    print(f"{output}: {len(list(output.iterdir()))} files")


if __name__ == "__main__":
    main()
