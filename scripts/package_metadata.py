"""Write the version and the addresses of the project into every file that has them.

`python -m scripts.package_metadata [--check]`; `make generate` runs it first. The version is `__version__` in
service/ragstore/__init__.py. The addresses are `documentation` and `source` of `[tool.ragstore]` in pyproject.toml. The
script uses the standard library only.
"""

from __future__ import annotations

import argparse
import json
import re
import sys
import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

ROOT: Final = Path(__file__).resolve().parents[1]

PYTHON_PACKAGES: Final = (".", "clients/python", "gateway")
"""The folders of the Python packages."""

NODE_PACKAGE: Final = "clients/node"

_MODULE: Final = '__version__ = "'
_IMAGES: Final = r"image: ragstore(?:-gateway)?:"
VERSIONS: Final[Mapping[str, str]] = {
    "gateway/ragstore_gateway/__init__.py": _MODULE,
    "clients/python/ragstore_client/_version.py": _MODULE,
    "clients/node/package.json": r'^  "version": "',
    "clients/node/package-lock.json": r'"name": "@ragstore/client",\s+"version": "',
    "Dockerfile": r"ARG VERSION=|--tag ragstore:",
    "gateway/Dockerfile": r"ARG VERSION=|--tag ragstore-gateway:",
    "docker-compose.yml": _IMAGES,
    "docker-compose.platform.yml": _IMAGES,
    "k8s/components/gateway-backup/kustomization.yaml": "newTag: ",
    "k8s/components/gateway-workers/kustomization.yaml": "newTag: ",
    "k8s/gateway/kustomization.yaml": "newTag: ",
    "k8s/overlays/complete/kustomization.yaml": "newTag: ",
    "k8s/overlays/embedded/kustomization.yaml": "newTag: ",
    "k8s/overlays/remote/kustomization.yaml": "newTag: ",
    "docs/compatibility.md": r"make release VERSION=|build/release/",
    "docs/contract.md": '"version": "',
    "docs/reliability.md": r"\bragstore:",
    "Makefile": "make release VERSION=",
}
"""The files with the version, and a pattern of the text before it."""

_REQUIREMENT: Final = re.compile(r'("ragstore(?:-client|-gateway)?(?:\[[a-z,]+\])?)[<>=][^"]*"')
_URLS: Final = re.compile(r"^\[project\.urls\]\n(?:[^\n[]+\n)*", re.MULTILINE)


@dataclass(frozen=True)
class Addresses:
    """The addresses of the project, without a slash at the end.

    Attributes:
        documentation: the published folder `docs` of the pages that `make docs` builds.
        source: below it are the files of the repository.
    """

    documentation: str
    source: str

    @classmethod
    def read(cls) -> Addresses:
        """The addresses in pyproject.toml."""
        settings = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["ragstore"]
        return cls(str(settings["documentation"]).rstrip("/"), str(settings["source"]).rstrip("/"))

    def of(self, path: str) -> str:
        """The address of a file: where the site has a Markdown file or a picture, and otherwise the file itself.

        Args:
            path: its path in the repository.
        """
        site, page = self.documentation.rpartition("/")[0], path.removesuffix(".md")
        if path.endswith(".png"):
            # Sphinx copies the pictures of all pages into this folder.
            return f"{site}/_images/{Path(path).name}"
        if not path.endswith(".md"):
            return f"{self.source}/{path}"
        return (
            f"{self.documentation}{page.removeprefix('docs')}.html"
            if page.startswith("docs/")
            else f"{site}/{page}.html"
        )


def version() -> str:
    """The version of all packages."""
    (found,) = re.findall(rf'{_MODULE}([^"]+)"', (ROOT / "service/ragstore/__init__.py").read_text())
    return str(found)


def with_version(text: str, before: str, number: str) -> str:
    """A text with another version.

    Args:
        before: a pattern of the text before each version.
        number: the version to write.
    """
    return re.sub(rf"({before})\d+\.\d+\.\d+", lambda found: found[1] + number, text, flags=re.MULTILINE)


def bounds(number: str) -> str:
    """The requirement of one package of the project on another: the same minor version.

    `ragstore.kit` may change with any minor version, so that packages of two minor versions do not work together.
    """
    major, minor, _ = number.split(".")
    return f">={major}.{minor},<{major}.{int(minor) + 1}"


def with_bounds(text: str, number: str) -> str:
    """A pyproject.toml whose requirements on packages of the project have the bounds of a version."""
    return _REQUIREMENT.sub(lambda found: f'{found[1]}{bounds(number)}"', text)


def with_urls(text: str, addresses: Addresses, folder: str) -> str:
    """A pyproject.toml with the addresses of the project.

    Args:
        text: the pyproject.toml, with a table `[project.urls]`.
        folder: the folder of the package.
    """
    urls = {
        "Documentation": addresses.documentation,
        "Changelog": addresses.of("CHANGELOG.md"),
        "Source": addresses.source if folder == "." else addresses.of(folder),
    }
    return _URLS.sub("[project.urls]\n" + "".join(f'{name} = "{url}"\n' for name, url in urls.items()), text)


def with_node_urls(text: str, addresses: Addresses) -> str:
    """A package.json with the addresses of the project."""
    package = json.loads(text)
    package["homepage"] = addresses.documentation
    package["repository"] = {"type": "git", "url": addresses.source, "directory": NODE_PACKAGE}
    return json.dumps(package, indent=2, ensure_ascii=False) + "\n"


def files() -> dict[str, str]:
    """The content that each file should have, by its path in the repository."""
    number, addresses = version(), Addresses.read()
    found = {path: with_version((ROOT / path).read_text(), before, number) for path, before in VERSIONS.items()}
    for folder in PYTHON_PACKAGES:
        path = str(Path(folder, "pyproject.toml"))
        found[path] = with_urls(with_bounds((ROOT / path).read_text(), number), addresses, folder)
    example = "examples/sqlite_engine/pyproject.toml"
    found[example] = with_bounds((ROOT / example).read_text(), number)
    node = f"{NODE_PACKAGE}/package.json"
    found[node] = with_node_urls(found[node], addresses)
    return found


def with_absolute_links(text: str, page: str, addresses: Addresses) -> str:
    """A page whose links to files of the repository are absolute: on a package index, relative ones lead nowhere.

    Links are Markdown's, and the addresses of `<img>` and `<source>`.

    Args:
        text: the Markdown of the page.
        page: its path in the repository.
    """
    folder = (ROOT / page).parent

    def absolute(link: re.Match[str]) -> str:
        target = (folder / link["path"]).resolve()
        if not target.is_relative_to(ROOT) or not target.exists():
            return link[0]
        return f"{link['before']}{addresses.of(str(target.relative_to(ROOT)))}{link['after']}"

    text = re.sub(r"(?P<before>\]\()(?P<path>[^):#\s]+)(?P<after>(?:#[^)\s]*)?\))", absolute, text)
    return re.sub(r"(?P<before>\b(?:src|srcset)=\")(?P<path>[^\":\s]+)(?P<after>\")", absolute, text)


def main(arguments: Sequence[str] | None = None) -> None:
    """Write the files, or report each file that differs.

    Args:
        arguments: the command line; the process's own by default.
    """
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--check", action="store_true", help="change nothing; exit with 1 if a file differs")
    options = parser.parse_args(arguments)
    changed = {path: text for path, text in files().items() if text != (ROOT / path).read_text()}
    if options.check:
        if changed:
            sys.exit(f"Another version or address: {', '.join(sorted(changed))}. Run `make generate`")
        return
    for path, text in changed.items():
        (ROOT / path).write_text(text)


if __name__ == "__main__":
    main()
