"""The content of the Dockerfiles, and the locks that they install."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

import ragstore
import ragstore_gateway
from ragstore import settings as store_settings
from ragstore_gateway import settings as gateway_settings
from tests.deploy.dockerfile import DOCKERFILE, GATEWAY_DOCKERFILE, ROOT, arguments, assignments, instructions, stages

DOCKERFILES = (DOCKERFILE, GATEWAY_DOCKERFILE)

each_dockerfile = pytest.mark.parametrize("dockerfile", DOCKERFILES, ids=["store", "gateway"])


@each_dockerfile
def test_every_stage_starts_from_the_one_base_image(dockerfile: Path) -> None:
    assert {stage.base for stage in stages(dockerfile)} == {"${PYTHON_IMAGE}"}


def test_the_base_image_is_pinned_to_an_exact_version() -> None:
    assert re.fullmatch(r"python:3\.\d+\.\d+-slim-\w+", arguments()["PYTHON_IMAGE"])


def test_both_images_have_the_same_base_image() -> None:
    assert arguments(GATEWAY_DOCKERFILE)["PYTHON_IMAGE"] == arguments()["PYTHON_IMAGE"]


@each_dockerfile
def test_the_image_runs_as_a_numeric_user_other_than_root(dockerfile: Path) -> None:
    assert re.fullmatch(r"[1-9]\d{4,}:[1-9]\d{4,}", stages(dockerfile)[-1].value("USER"))


@each_dockerfile
def test_only_the_environment_is_copied_from_the_build(dockerfile: Path) -> None:
    assert stages(dockerfile)[-1].values("COPY") == ["--from=build /opt/ragstore /opt/ragstore"]


@each_dockerfile
def test_package_installers_are_removed_from_the_image(dockerfile: Path) -> None:
    assert any(
        "pip uninstall" in command and "setuptools wheel pip" in command
        for command in stages(dockerfile)[-1].values("RUN")
    )


@pytest.mark.parametrize("name", ["CMD", "HEALTHCHECK"])
@each_dockerfile
def test_commands_are_in_exec_form(dockerfile: Path, name: str) -> None:
    command = json.loads(stages(dockerfile)[-1].value(name).rpartition("CMD ")[2])
    assert command[0] in ("ragstore", "ragstore-gateway", "python")


@each_dockerfile
def test_the_image_is_stopped_by_sigterm(dockerfile: Path) -> None:
    assert stages(dockerfile)[-1].value("STOPSIGNAL") == "SIGTERM"


@each_dockerfile
def test_the_image_has_the_standard_labels(dockerfile: Path) -> None:
    labels = dict(assignments(stages(dockerfile)[-1].value("LABEL")))
    wanted = {"title", "description", "licenses", "version", "revision", "created", "base.name"}
    assert {f"org.opencontainers.image.{name}" for name in wanted} <= labels.keys()


@pytest.mark.parametrize(
    ("dockerfile", "version"),
    [(DOCKERFILE, ragstore.__version__), (GATEWAY_DOCKERFILE, ragstore_gateway.__version__)],
)
def test_the_default_version_is_that_of_the_code(dockerfile: Path, version: str) -> None:
    assert f"VERSION={version}" in stages(dockerfile)[-1].values("ARG")


@each_dockerfile
def test_every_ragstore_variable_of_the_image_is_a_setting(dockerfile: Path) -> None:
    environ = dict(assignments(stages(dockerfile)[-1].value("ENV")))
    known = {store_settings.variable(name) for name in store_settings.Settings.__struct_fields__}
    known |= {gateway_settings.variable(name) for name in gateway_settings.Settings.__struct_fields__}
    assert {name for name in environ if name.startswith("RAGSTORE_")} <= known


@each_dockerfile
def test_all_packages_are_installed_by_hash(dockerfile: Path) -> None:
    installs = [step.value for step in instructions(dockerfile) if step.name == "RUN" and "pip" in step.value]
    fetching = [command for command in installs if " install " in command and "--no-index" not in command]
    assert len(fetching) == 2
    assert all("--require-hashes" in command for command in fetching)


@pytest.mark.parametrize(
    ("dockerfile", "ignored"),
    [(DOCKERFILE, ".dockerignore"), (GATEWAY_DOCKERFILE, "gateway/Dockerfile.dockerignore")],
)
def test_the_build_context_contains_only_what_the_build_copies(dockerfile: Path, ignored: str) -> None:
    lines = (ROOT / ignored).read_text().splitlines()
    included = {line[1:] for line in lines if line.startswith("!")}
    copied = {source for value in stages(dockerfile)[0].values("COPY") for source in value.split()[:-1]}
    assert "*" in lines
    assert included == {source if source in included else source.split("/")[0] for source in copied}


@pytest.mark.parametrize("name", ["chromadb", "onnxruntime", "grpcio", "kubernetes", "tokenizers", "hatchling"])
@pytest.mark.parametrize("lock", ["remote", "gateway-remote"])
def test_the_remote_locks_have_no_dependency_of_embedded_chroma(lock: str, name: str) -> None:
    assert name not in packages(lock)


@pytest.mark.parametrize("lock", ["remote", "embedded"])
def test_both_images_of_the_store_have_the_extras_tracing_and_transfer(lock: str) -> None:
    wanted = {"opentelemetry-sdk", "opentelemetry-instrumentation-asgi", "httpx", "rich", "zstandard"}
    assert wanted <= packages(lock)


@pytest.mark.parametrize(("remote", "embedded"), [("remote", "embedded"), ("gateway-remote", "gateway")])
def test_a_remote_lock_is_part_of_the_embedded_one(remote: str, embedded: str) -> None:
    versions = {lock: {pin.partition(" ")[0] for pin in pins(lock)} for lock in (remote, embedded)}
    assert versions[remote] < versions[embedded]


@pytest.mark.parametrize("lock", sorted((ROOT / "requirements").glob("*.txt")), ids=lambda lock: lock.name)
def test_a_lock_names_no_package_index(lock: Path) -> None:
    assert "://" not in lock.read_text()
    assert "index-url" not in lock.read_text()


def pins(lock: str) -> set[str]:
    """The pins of a lock: package, version and marker, without hashes."""
    return set(re.findall(r"^[\w.-]+==[^\\\n]+", (ROOT / f"requirements/{lock}.txt").read_text(), flags=re.M))


def packages(lock: str) -> set[str]:
    """The packages that a lock pins."""
    return {pin.partition("==")[0] for pin in pins(lock)}
