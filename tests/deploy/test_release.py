"""`scripts.release` builds the files of a release; `make release` runs it."""

from __future__ import annotations

import hashlib
import json
import re
import tarfile
import zipfile
from pathlib import Path
from typing import Any

import pytest

from ragstore import __version__
from ragstore_gateway import __version__ as gateway_version
from scripts import release
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
        f"ragstore-gateway-{gateway_version}.cdx.json",
        "CHANGES.md",
        "SHA256SUMS",
    }
    assert any(re.fullmatch(r"ragstore_gateway-[\d.]+-py3-none-any\.whl", name) for name in names)


def test_the_checksums_are_those_of_all_other_files(built: Path) -> None:
    lines = [line.partition("  ") for line in (built / "SHA256SUMS").read_text().splitlines()]
    assert {name: digest for digest, _, name in lines} == {
        file.name: hashlib.sha256(file.read_bytes()).hexdigest()
        for file in built.iterdir()
        if file.name != "SHA256SUMS"
    }


def test_the_wheel_has_the_page_and_its_licences_and_the_source_distribution_nothing_of_others(built: Path) -> None:
    with zipfile.ZipFile(built / f"ragstore-{__version__}-py3-none-any.whl") as wheel:
        names = set(wheel.namelist())
    assert {f"ragstore/kit/docs/static/{name}" for name in ("swagger-ui-bundle.js", "start.js", "LICENSE")} <= names
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


@pytest.mark.parametrize(("image", "lock"), release.IMAGES.items())
def test_a_bill_of_material_has_every_package_of_the_lock(built: Path, image: str, lock: str) -> None:
    version = gateway_version if lock == "gateway" else __version__
    bill: dict[str, Any] = json.loads((built / f"{image}-{version}.cdx.json").read_text())
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
    with pytest.raises(SystemExit, match=r"The version is not 9\.9\.9 everywhere: .*Dockerfile"):
        release.main(["9.9.9", "--output", str(tmp_path), "--dirty"])
    assert not list(tmp_path.iterdir())


def test_a_folder_that_is_not_empty_is_refused(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(SystemExit, match="is not empty"):
        release.main([__version__, "--output", str(tmp_path), "--dirty"])
