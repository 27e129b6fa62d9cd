"""What the Dockerfile says."""

from __future__ import annotations

import json
import re

import pytest

from ragstore import __version__
from ragstore.settings import Settings, variable
from tests.deploy.dockerfile import ROOT, arguments, assignments, instructions, stages

IMAGE = stages()[-1]


def test_every_stage_starts_from_the_one_base_image() -> None:
    assert {stage.base for stage in stages()} == {"${PYTHON_IMAGE}"}


def test_the_base_image_is_pinned_to_an_exact_version() -> None:
    assert re.fullmatch(r"python:3\.\d+\.\d+-slim-\w+", arguments()["PYTHON_IMAGE"])


def test_the_image_runs_as_a_numbered_user_who_is_not_root() -> None:
    assert re.fullmatch(r"[1-9]\d{4,}:[1-9]\d{4,}", IMAGE.value("USER"))


def test_what_is_copied_from_the_build_is_the_environment_alone() -> None:
    assert IMAGE.values("COPY") == ["--from=build /opt/ragstore /opt/ragstore"]


def test_the_image_loses_what_installs_packages() -> None:
    assert any("pip uninstall" in command and "setuptools wheel pip" in command for command in IMAGE.values("RUN"))


@pytest.mark.parametrize("name", ["CMD", "HEALTHCHECK"])
def test_commands_are_in_exec_form(name: str) -> None:
    command = json.loads(IMAGE.value(name).rpartition("CMD ")[2])
    assert command[0] in ("ragstore", "python")


def test_the_image_is_stopped_by_sigterm() -> None:
    assert IMAGE.value("STOPSIGNAL") == "SIGTERM"


def test_the_labels_tell_what_it_is() -> None:
    labels = dict(assignments(IMAGE.value("LABEL")))
    wanted = {"title", "description", "licenses", "version", "revision", "created", "base.name"}
    assert {f"org.opencontainers.image.{name}" for name in wanted} <= labels.keys()


def test_the_default_version_is_the_code_s() -> None:
    assert f"VERSION={__version__}" in IMAGE.values("ARG")


def test_every_ragstore_variable_of_the_image_is_a_setting() -> None:
    environ = dict(assignments(IMAGE.value("ENV")))
    known = {variable(name) for name in Settings.__struct_fields__}
    assert {name for name in environ if name.startswith("RAGSTORE_")} <= known


def test_all_packages_are_installed_by_hash() -> None:
    installs = [step.value for step in instructions() if step.name == "RUN" and "pip" in step.value]
    fetching = [command for command in installs if " install " in command and "--no-index" not in command]
    assert len(fetching) == 2
    assert all("--require-hashes" in command for command in fetching)


def test_the_context_is_what_the_build_copies_and_nothing_else() -> None:
    lines = (ROOT / ".dockerignore").read_text().splitlines()
    let_in = {line[1:] for line in lines if line.startswith("!")}
    copied = {source.split("/")[0] for value in stages()[0].values("COPY") for source in value.split()[:-1]}
    assert "*" in lines
    assert let_in == copied


@pytest.mark.parametrize("name", ["chromadb", "onnxruntime", "grpcio", "kubernetes", "tokenizers", "hatchling"])
def test_the_remote_lock_is_without_what_embedded_chroma_needs(name: str) -> None:
    assert not re.search(rf"^{name}==", (ROOT / "requirements/remote.txt").read_text(), flags=re.M)


def test_both_locks_agree() -> None:
    pins = [
        set(re.findall(r"^[\w.-]+==[^ \n]+", (ROOT / f"requirements/{store}.txt").read_text(), flags=re.M))
        for store in ("remote", "embedded")
    ]
    assert pins[0] < pins[1]
