"""`scripts.package_metadata` writes the version and the addresses into every file that has them."""

from __future__ import annotations

import re
import tomllib

import pytest

from scripts import package_metadata, release
from scripts.package_metadata import (
    ROOT,
    VERSIONS,
    Addresses,
    bounds,
    files,
    version,
    with_absolute_links,
    with_bounds,
    with_urls,
    with_version,
)

ADDRESSES = Addresses("https://pages.example/docs", "https://forge.example/files")


@pytest.mark.parametrize("path", files())
def test_every_file_has_the_version_and_the_addresses(path: str) -> None:
    assert files()[path] == (ROOT / path).read_text()


@pytest.mark.parametrize(("path", "before"), VERSIONS.items())
def test_the_pattern_of_a_file_finds_its_version(path: str, before: str) -> None:
    assert with_version((ROOT / path).read_text(), before, "9.8.7").count("9.8.7") >= 1


def test_a_release_is_refused_while_a_file_has_another_version(monkeypatch: pytest.MonkeyPatch) -> None:
    found = {**files(), "Dockerfile": with_version((ROOT / "Dockerfile").read_text(), VERSIONS["Dockerfile"], "9.9.9")}
    monkeypatch.setattr(package_metadata, "files", lambda: found)
    with pytest.raises(release.NotReady, match=r"^Another version or address: Dockerfile\. Run `make generate`"):
        release.check(version())


def test_a_release_is_refused_without_a_date_in_the_changelog() -> None:
    with pytest.raises(release.NotReady, match=r"\[7\.0\.0\] of CHANGELOG.md has no date"):
        release.changes_of("## [7.0.0] - unreleased\n\n- A change.\n", "7.0.0")
    assert release.changes_of("## [7.0.0] - 2030-01-02\n\n- A change.\n", "7.0.0").endswith("- A change.\n")


def test_a_package_requires_the_same_minor_version_of_the_others() -> None:
    assert bounds("0.2.5") == ">=0.2,<0.3"
    assert with_bounds('["ragstore[embedded,tracing]>=0.1", "numpy>=2"]', "1.9.0") == (
        '["ragstore[embedded,tracing]>=1.9,<1.10", "numpy>=2"]'
    )


def test_the_addresses_of_a_package_replace_the_former_ones() -> None:
    text = '[project]\nname = "a"\n\n[project.urls]\nOld = "b"\n\n[project.scripts]\nc = "d:e"\n'
    changed = tomllib.loads(with_urls(text, ADDRESSES, "gateway"))["project"]
    assert changed["urls"] == {
        "Documentation": "https://pages.example/docs",
        "Changelog": "https://pages.example/CHANGELOG.html",
        "Source": "https://forge.example/files/gateway",
    }
    assert changed["scripts"] == {"c": "d:e"}


def test_links_to_pages_lead_to_the_published_pages_and_others_to_the_source() -> None:
    text = (
        "[a](../docs/gateway.md#start), [b](../README.md), [c](../LICENSE), [d](#here), [e](https://other.example/x.md)"
    )
    assert re.findall(r"\((.*?)\)", with_absolute_links(text, "gateway/README.md", ADDRESSES)) == [
        "https://pages.example/docs/gateway.html#start",
        "https://pages.example/README.html",
        "https://forge.example/files/LICENSE",
        "#here",
        "https://other.example/x.md",
    ]


def test_pictures_are_loaded_from_the_published_pages() -> None:
    text = (ROOT / "README.md").read_text()
    assert re.findall(r'src(?:set)?="(.*?)"', with_absolute_links(text, "README.md", ADDRESSES)) == [
        "https://pages.example/_images/ask-dark.png",
        "https://pages.example/_images/ask-light.png",
    ]
