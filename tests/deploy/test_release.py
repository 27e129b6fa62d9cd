"""`scripts.release` builds the files of a release; `make release` runs it."""

from __future__ import annotations

import hashlib
import json
import re
import tarfile
import zipfile
from email.message import Message
from email.parser import BytesParser
from pathlib import Path
from typing import Any

import pytest

from ragstore import __version__
from scripts import release
from scripts.package_metadata import Addresses, bounds
from tests.deploy.dockerfile import ROOT


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The files of the release of this version."""
    folder = tmp_path_factory.mktemp("release") / "files"
    release.main([__version__, "--output", str(folder), "--dirty"])
    return folder


def test_every_kind_of_file_is_there(built: Path) -> None:
    names = {file.name for file in built.iterdir()}
    version = __version__
    assert names >= {
        f"ragstore-{version}-py3-none-any.whl",
        f"ragstore-{version}.tar.gz",
        f"ragstore_client-{version}-py3-none-any.whl",
        f"ragstore_client-{version}.tar.gz",
        f"ragstore-client-{version}.tgz",
        f"ragstore-{version}-context.tar.gz",
        f"ragstore-{version}.cdx.json",
        f"ragstore-embedded-{version}.cdx.json",
        f"ragstore-client-node-{version}.cdx.json",
        f"ragstore-gateway-{version}.cdx.json",
        f"ragstore_gateway-{version}-py3-none-any.whl",
        f"ragstore_gateway-{version}.tar.gz",
        "CHANGES.md",
        "SHA256SUMS",
    }


def test_the_checksums_are_those_of_all_other_files(built: Path) -> None:
    lines = [line.partition("  ") for line in (built / "SHA256SUMS").read_text().splitlines()]
    assert {name: digest for digest, _, name in lines} == {
        file.name: hashlib.sha256(file.read_bytes()).hexdigest()
        for file in built.iterdir()
        if file.name != "SHA256SUMS"
    }


def test_the_wheel_has_the_pages_and_the_source_distribution_nothing_of_others(built: Path) -> None:
    with zipfile.ZipFile(built / f"ragstore-{__version__}-py3-none-any.whl") as wheel:
        names = set(wheel.namelist())
    assert {f"ragstore/kit/page/static/{name}" for name in ("index.html", "index.html.gz", "docs/index.html")} <= names
    assert "chroma_repair/command.py" in names
    with tarfile.open(built / f"ragstore-{__version__}.tar.gz") as sources:
        readmes = [name for name in sources.getnames() if name.endswith("README.md")]
    assert readmes == [f"ragstore-{__version__}/README.md"]


def test_the_build_context_has_what_the_dockerfiles_copy(built: Path) -> None:
    with tarfile.open(built / f"ragstore-{__version__}-context.tar.gz") as context:
        names = {name.partition("/")[2] for name in context.getnames()}
    for dockerfile in ("Dockerfile", "gateway/Dockerfile"):
        assert dockerfile in names
        for sources in re.findall(r"^COPY (?!--from)(.+) \S+$", (ROOT / dockerfile).read_text(), re.MULTILINE):
            for source in sources.split():
                pattern = re.escape(source).replace(r"\$\{STORE\}", "remote")
                assert any(re.fullmatch(f"{pattern}(/.*)?", name) for name in names), source


PACKAGES = ("ragstore", "ragstore_client", "ragstore_gateway")


def wheel_file(built: Path, package: str, suffix: str) -> bytes:
    """The only file of a wheel whose name has a suffix."""
    with zipfile.ZipFile(built / f"{package}-{__version__}-py3-none-any.whl") as wheel:
        (name,) = [name for name in wheel.namelist() if name.endswith(suffix)]
        return wheel.read(name)


def metadata(built: Path, package: str) -> Message:
    """The metadata of a wheel."""
    return BytesParser().parsebytes(wheel_file(built, package, ".dist-info/METADATA"))


@pytest.mark.parametrize("package", PACKAGES)
def test_a_wheel_names_authors_addresses_and_license_and_has_types(built: Path, package: str) -> None:
    fields, addresses = metadata(built, package), Addresses.read()
    assert fields["Author"] == "The authors of ragstore"
    assert fields["License-Expression"] == "Apache-2.0"
    assert fields["Keywords"]
    assert "Typing :: Typed" in fields.get_all("Classifier", [])
    urls = dict(each.split(", ", 1) for each in fields.get_all("Project-URL", []))
    assert urls.keys() == {"Documentation", "Changelog", "Source"}
    assert urls["Documentation"] == addresses.documentation
    assert urls["Source"].startswith(addresses.source)
    assert wheel_file(built, package, "/licenses/LICENSE") == (ROOT / "LICENSE").read_bytes()
    assert wheel_file(built, package, f"{package}/py.typed") == b""


@pytest.mark.parametrize("package", PACKAGES)
def test_a_wheel_requires_the_same_minor_version_of_the_others(built: Path, package: str) -> None:
    found = [each.partition(";")[0] for each in metadata(built, package).get_all("Requires-Dist", [])]
    own = [each for each in found if each.startswith("ragstore")]
    assert {re.sub(r"^[a-z-]+(\[.*\])?", "", each).strip() for each in own} <= {
        ",".join(sorted(bounds(__version__).split(",")))
    }
    assert bool(own) == (package != "ragstore_client")


def test_readmes_on_an_index_have_no_relative_links(built: Path) -> None:
    with tarfile.open(built / f"ragstore-client-{__version__}.tgz") as node:
        member = node.extractfile("package/README.md")
        assert member is not None
        readmes = [member.read().decode()]
    readmes += [str(metadata(built, package).get_payload()) for package in PACKAGES]
    for readme in readmes:
        links = re.findall(r"\]\(([^)\s]+)\)", readme) + re.findall(r'(?:href|src|srcset)="([^"]+)"', readme)
        assert links
        assert not [link for link in links if not link.startswith(("https://", "http://", "#"))]


def test_the_node_package_names_author_and_addresses(built: Path) -> None:
    with tarfile.open(built / f"ragstore-client-{__version__}.tgz") as node:
        member = node.extractfile("package/package.json")
        assert member is not None
        package = json.loads(member.read())
        assert "package/LICENSE" in node.getnames()
    assert (package["author"], package["license"]) == ("The authors of ragstore", "Apache-2.0")
    assert package["homepage"] == Addresses.read().documentation


@pytest.mark.parametrize(("image", "lock"), release.IMAGES.items())
def test_a_bill_of_material_has_every_package_of_the_lock(built: Path, image: str, lock: str) -> None:
    bill: dict[str, Any] = json.loads((built / f"{image}-{__version__}.cdx.json").read_text())
    assert (bill["bomFormat"], bill["specVersion"]) == ("CycloneDX", "1.6")
    assert re.fullmatch(r"urn:uuid:[0-9a-f-]{36}", bill["serialNumber"])
    pins = re.findall(r"^([a-z0-9._-]+)(?:\[.*\])?==([^\s;\\]+)", (ROOT / f"requirements/{lock}.txt").read_text(), re.M)
    assert {(each["name"], each["version"]) for each in bill["components"]} == {
        (re.sub(r"[-_.]+", "-", name), version) for name, version in pins
    }
    for each in bill["components"]:
        assert each["purl"] == f"pkg:pypi/{each['name']}@{each['version']}"
        assert each["externalReferences"]
    assert [bill["metadata"]["component"]["name"]] == [image]


def test_the_changes_are_the_section_of_the_version(built: Path) -> None:
    text = (built / "CHANGES.md").read_text()
    assert text.startswith(f"## [{__version__}]")
    assert text.count("\n## [") == 0


def test_another_version_than_that_of_the_sources_is_refused(tmp_path: Path) -> None:
    with pytest.raises(SystemExit, match=r"The version of .*__init__.py is .*, not 9\.9\.9"):
        release.main(["9.9.9", "--output", str(tmp_path), "--dirty"])
    assert not list(tmp_path.iterdir())


def test_a_folder_that_is_not_empty_is_refused(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(SystemExit, match="is not empty"):
        release.main([__version__, "--output", str(tmp_path), "--dirty"])
