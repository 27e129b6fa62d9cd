"""The memory of containers: computed from their settings for all of their processes, and written into the files."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import msgspec
import pytest
import yaml

from ragstore.settings import Settings as StoreSettings
from ragstore_gateway.extraction.extractor import Extractor
from ragstore_gateway.settings import Settings
from ragstore_gateway.splitting.splitter_pool import Splitter
from scripts.container_memory import MIB, STEP, containers, gateway_memory, rendered, store_memory
from tests.deploy.dockerfile import ROOT

SETTINGS = Settings(max_bytes_in_flight=128 * MIB)


def test_the_files_have_the_memory_that_their_settings_need() -> None:
    outdated = [file for file, text in rendered().items() if (ROOT / file).read_text() != text]
    assert outdated == [], "run: python -m scripts.container_memory"


def test_every_container_of_the_store_and_the_gateway_is_computed() -> None:
    found = {(str(each.file), each.memory.limit_bytes // MIB) for each in containers()}
    given = set()
    for file in ("docker-compose.yml", "docker-compose.platform.yml"):
        for name, service in yaml.safe_load((ROOT / file).read_text())["services"].items():
            if name in ("ragstore", "gateway"):
                given.add((file, int(service["deploy"]["resources"]["limits"]["memory"].removesuffix("m"))))
    gateways = ("k8s/gateway", "k8s/components/gateway-workers")
    for file in (f"{folder}/workload.yaml" for folder in ("k8s/base", "k8s/overlays/embedded", *gateways)):
        (manifest,) = yaml.safe_load_all((ROOT / file).read_text())
        resources: Any = manifest["spec"]["template"]["spec"]["containers"][0]["resources"]
        given.add((file, int(resources["limits"]["memory"].removesuffix("Mi"))))
    assert found == given


@pytest.mark.parametrize(
    "changed",
    [
        {"extraction_concurrency": 3},
        {"extraction_memory_bytes": 1024 * MIB},
        {"splitting_memory_bytes": 2048 * MIB},
        {"ingestion_concurrency": 9},
        {"max_document_bytes": 100 * MIB},
        {"max_document_text_characters": 20_000_000},
        {"max_bytes_in_flight": 256 * MIB},
        {"fetch_max_bytes": 10 * MIB},
        {"embedding_cache_bytes": 128 * MIB},
    ],
    ids=lambda changed: next(iter(changed)),
)
def test_a_larger_setting_needs_a_larger_limit(changed: dict[str, int]) -> None:
    assert gateway_memory(msgspec.structs.replace(SETTINGS, **changed)).limit_bytes > (
        gateway_memory(SETTINGS).limit_bytes
    )


def test_the_limit_includes_all_processes_with_the_limits_that_they_are_started_with() -> None:
    pools = [Extractor.from_settings(SETTINGS)._pool, Splitter.from_settings(SETTINGS)._pool]
    processes = sum(pool._memory_bytes * pool.slots._value for pool in pools)
    parts = {part.name: part.limit_bytes for part in gateway_memory(SETTINGS).parts}
    assert parts["processes that extract texts"] + parts["processes that split texts"] == processes
    assert sum(parts.values()) <= gateway_memory(SETTINGS).limit_bytes < sum(parts.values()) + STEP


def test_a_store_with_embedded_chroma_includes_its_process() -> None:
    settings = StoreSettings(max_bytes_in_flight=200 * MIB, chroma_url="http://chroma:8000")
    embedded = msgspec.structs.replace(settings, chroma_url="", embedded_memory_bytes=1024 * MIB)
    assert store_memory(embedded).limit_bytes - store_memory(settings).limit_bytes == 1024 * MIB


@pytest.mark.parametrize(
    "settings", [StoreSettings(chroma_url=""), StoreSettings(chroma_url="", max_bytes_in_flight=MIB)]
)
def test_settings_that_depend_on_the_limit_are_refused(settings: StoreSettings) -> None:
    with pytest.raises(ValueError, match="must be set"):
        store_memory(settings)


def test_a_changed_setting_of_a_file_changes_the_file(tmp_path: Path) -> None:
    for name in ("docker-compose.yml", "docker-compose.platform.yml", "k8s", "docs"):
        (tmp_path / name).symlink_to(ROOT / name)
    compose = tmp_path / "docker-compose.yml"
    text = compose.read_text()
    compose.unlink()
    compose.write_text(text.replace('EXTRACTION_CONCURRENCY: "1"', 'EXTRACTION_CONCURRENCY: "2"'))
    written = rendered(tmp_path)
    before, after = yaml.safe_load(text), yaml.safe_load(written[Path("docker-compose.yml")])
    limits = [each["services"]["gateway"]["deploy"]["resources"]["limits"].pop("memory") for each in (before, after)]
    assert limits == ["2496m", "3520m"]
    assert after["services"]["ragstore"] == before["services"]["ragstore"]
    assert "| 3520 |" in written[Path("docs/operating.md")]
