"""Build everything of a release: `python -m scripts.release VERSION [--output FOLDER]`; `make release` runs it.

The sources and CHANGELOG.md must have the version already; this command verifies it. It publishes nothing. The packages
are built from a copy of the tree, in which the links of their READMEs are absolute.

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
import shutil
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final

from scripts import package_metadata
from scripts.package_metadata import NODE_PACKAGE, PYTHON_PACKAGES, Addresses, with_absolute_links
from scripts.sbom import bill

ROOT: Final = Path(__file__).resolve().parents[1]
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
        # The compose file mounts them.
        "examples/compose",
        "examples/extractive_model.py",
    ),
)
"""The sources of the images, and the files that deploy them."""

IMAGES: Final = {
    "ragstore": "remote",
    "ragstore-embedded": "embedded",
    "ragstore-gateway": "gateway",
    "ragstore-gateway-remote": "gateway-remote",
}
"""The images, and the locks that they are installed from."""

PACKAGED: Final = (
    *(".gitignore", "LICENSE", "README.md", "pyproject.toml", "openapi", "service", "clients/python", "gateway"),
    *("clients/node", "scripts/node_lock.mjs"),
)
"""The sources of the packages."""

PLACEHOLDER: Final = "https://ragstore.example/"

CHANGELOG: Final = ROOT / "CHANGELOG.md"
SUMS: Final = "SHA256SUMS"


class NotReady(Exception):
    """The sources do not have the version."""


def check(version: str) -> None:
    """Verify that the sources have the version.

    Args:
        version: the version to release.

    Raises:
        NotReady: they have another one, or a file differs from the others.
    """
    if version != package_metadata.version():
        raise NotReady(f"The version of service/ragstore/__init__.py is {package_metadata.version()}, not {version}")
    outdated = [path for path, text in package_metadata.files().items() if text != (ROOT / path).read_text()]
    if outdated:
        raise NotReady(f"Another version or address: {', '.join(outdated)}. Run `make generate`")


def changes_of(text: str, version: str, *, is_dated: bool = True) -> str:
    """The section of a changelog about a version.

    Args:
        text: the changelog.
        is_dated: whether its heading must have a date.

    Raises:
        NotReady: it has none, or no date.
    """
    section = re.search(rf"^## \[{re.escape(version)}\].*?(?=^## \[|\Z)", text, re.MULTILINE | re.DOTALL)
    if section is None:
        raise NotReady(f"CHANGELOG.md has no section [{version}]")
    if is_dated and not re.match(r"## \[\S+\] - \d{4}-\d\d-\d\d\n", section[0]):
        raise NotReady(f"The section [{version}] of CHANGELOG.md has no date")
    return section[0].rstrip() + "\n"


def build(version: str, output: Path) -> None:
    """Build all files of a release.

    Args:
        output: an empty folder for them.
    """
    seconds = int(_output("git", "log", "-1", "--format=%ct"))
    environ = {**os.environ, "SOURCE_DATE_EPOCH": str(seconds)}
    with TemporaryDirectory() as folder:
        copy = Path(folder).resolve()
        copy_packages(copy)
        for package in PYTHON_PACKAGES:
            hatchling = (sys.executable, "-m", "hatchling", "build", "--directory", str(output))
            _run(*hatchling, folder=copy / package, environ=environ)
        node = copy / NODE_PACKAGE
        (node / "node_modules").symlink_to(ROOT / NODE_PACKAGE / "node_modules")
        _run("npm", "pack", "--silent", "--pack-destination", str(output), folder=node, environ=environ)
    archive = output / f"ragstore-{version}-context.tar.gz"
    command = ("git", "archive", "--format=tar.gz", f"--prefix=ragstore-{version}/", f"--output={archive}", "HEAD")
    _run(*command, *CONTEXT, folder=ROOT)
    for image, lock in IMAGES.items():
        written = bill(image, version, ROOT / f"requirements/{lock}.txt", seconds)
        (output / f"{image}-{version}.cdx.json").write_text(json.dumps(written, indent=2) + "\n")
    sbom = _output("npm", "sbom", "--sbom-format=cyclonedx", "--omit=dev", "--package-lock-only", folder=NODE_PACKAGE)
    (output / f"ragstore-client-node-{version}.cdx.json").write_text(sbom)
    (output / "CHANGES.md").write_text(changes_of(CHANGELOG.read_text(), version, is_dated=False))
    files = sorted(file for file in output.iterdir() if file.name != SUMS)
    sums = [f"{hashlib.sha256(file.read_bytes()).hexdigest()}  {file.name}\n" for file in files]
    (output / SUMS).write_text("".join(sums))


def copy_packages(folder: Path) -> None:
    """Copy the sources of the packages. The links of their READMEs are absolute in the copy.

    Args:
        folder: an empty folder.
    """
    listed = _output("git", "ls-files", "-z", "--cached", "--others", "--exclude-standard", "--", *PACKAGED)
    for name in filter(None, listed.split("\0")):
        if (ROOT / name).exists():
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(ROOT / name, folder / name)
    addresses = Addresses.read()
    for package in (*PYTHON_PACKAGES, NODE_PACKAGE):
        page = str(Path(package, "README.md"))
        (folder / page).write_text(with_absolute_links((ROOT / page).read_text(), page, addresses))


def _run(*command: str, folder: Path, environ: dict[str, str] | None = None) -> None:
    subprocess.run(command, cwd=folder, env=environ, check=True, stdout=subprocess.DEVNULL)


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
        changes_of(CHANGELOG.read_text(), options.version, is_dated=not options.dirty)
        if not options.dirty and _output("git", "status", "--porcelain", "--untracked-files=no"):
            raise NotReady("There are changes that are not committed")
        output.mkdir(parents=True, exist_ok=True)
        if any(output.iterdir()):
            raise NotReady(f"{output} is not empty")
    except NotReady as error:
        raise SystemExit(f"Error: {error}") from None
    if PLACEHOLDER in Addresses.read().documentation + Addresses.read().source:
        print("The addresses of [tool.ragstore] in pyproject.toml are placeholders: so are the links of the packages")
    build(options.version, output.resolve())
    print(f"{output}: {len(list(output.iterdir()))} files")


if __name__ == "__main__":
    main()
