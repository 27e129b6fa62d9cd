"""Compute memory limits, memory requests and the size of /tmp of containers from their settings, and write them.

`python -m scripts.container_memory` writes them into the compose files, the manifests, and the tables of
docs/operating.md. With `--check` it only reports files that differ.

A limit is the sum of all processes of a container: with less, the kernel ends one of them under legal load. The sizes
of idle processes were measured with version 0.2.0 on Linux; all other sizes follow from settings.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import yaml

from ragstore import settings as store
from ragstore.kit.service import MEMORY_SHARE
from ragstore.store.embedding_memory import MAX_VALUES
from ragstore_gateway import settings as gateway

ROOT: Final = Path(__file__).resolve().parents[1]
PAGE: Final = Path("docs/operating.md")
MIB: Final = 1024**2

STEP: Final = 64 * MIB
"""Limits and requests are multiples of it."""

TMP_PATH: Final = "/tmp"  # noqa: S108  # the name of a volume, for a table
TMP: Final = 64 * MIB
"""Size of /tmp, which is memory. Bodies and forms are never in it; SQLite sorts in it."""

LOGS: Final = 64 * MIB
"""Kubernetes counts the logs and /tmp as ephemeral storage."""

CHARACTER: Final = 8
"""Bytes of a character of a text that is ingested: up to four each decoded and as MessagePack."""

EMBEDDING_BYTES: Final = 4
"""Bytes of a number of an embedding."""

STORE_IDLE: Final = 100 * MIB
CHROMA_IDLE: Final = 331 * MIB
"""Embedded Chroma with 50,000 documents of 768 dimensions."""

GATEWAY_IDLE: Final = 215 * MIB
MINILM: Final = 256 * MIB
EXTRACTION_IDLE: Final = 47 * MIB
SPLITTING_IDLE: Final = 176 * MIB
"""With the vocabulary of tokens, and after a text of ten million characters."""


@dataclass(frozen=True, slots=True)
class Part:
    """A part of a container's memory.

    Attributes:
        name: what takes it.
        setting: the settings that determine it.
        limit_bytes: its maximum.
        request_bytes: what it takes with little load.
    """

    name: str
    setting: str
    limit_bytes: int
    request_bytes: int


@dataclass(frozen=True, slots=True)
class Memory:
    """The memory of a container."""

    parts: tuple[Part, ...]

    @property
    def limit_bytes(self) -> int:
        """The limit."""
        return _rounded(sum(part.limit_bytes for part in self.parts))

    @property
    def request_bytes(self) -> int:
        """The request, or reservation."""
        return _rounded(sum(part.request_bytes for part in self.parts))


def store_memory(settings: store.Settings) -> Memory:
    """The memory of a container of the store."""
    parts = [
        Part("the idle service", "", STORE_IDLE, STORE_IDLE),
        Part("embeddings of small collections", "", EMBEDDING_BYTES * MAX_VALUES, 0),
        _bodies(settings.max_bytes_in_flight),
    ]
    if not settings.chroma_url:
        chroma = settings.embedded_memory_bytes
        if not chroma:
            raise ValueError("RAGSTORE_EMBEDDED_MEMORY_BYTES must be set: its default is a share of the limit")
        parts.append(Part("embedded Chroma", "`RAGSTORE_EMBEDDED_MEMORY_BYTES`", chroma, CHROMA_IDLE))
    return Memory((*parts, _tmp()))


def gateway_memory(settings: gateway.Settings) -> Memory:
    """The memory of a container of the gateway over a store of another container."""
    processes = settings.extraction_concurrency
    document = settings.max_document_bytes + CHARACTER * settings.max_document_text_characters
    return Memory(
        (
            Part("the idle gateway", "", GATEWAY_IDLE, GATEWAY_IDLE),
            Part("the model `builtin/minilm`, if it is used", "", MINILM, 0),
            _bodies(settings.max_bytes_in_flight),
            Part(
                "documents that are ingested",
                f"`INGESTION_CONCURRENCY` x (`MAX_DOCUMENT_BYTES` + {CHARACTER} x `MAX_DOCUMENT_TEXT_CHARACTERS`)",
                settings.ingestion_concurrency * document,
                0,
            ),
            Part(
                "processes that extract texts",
                "`EXTRACTION_CONCURRENCY` x `EXTRACTION_MEMORY_BYTES`",
                processes * settings.extraction_memory_bytes,
                processes * EXTRACTION_IDLE,
            ),
            Part(
                "processes that split texts",
                "`EXTRACTION_CONCURRENCY` x `SPLITTING_MEMORY_BYTES`",
                processes * settings.splitting_memory_bytes,
                processes * SPLITTING_IDLE,
            ),
            Part(
                "pages that are fetched",
                "`FETCH_CONCURRENCY` x `FETCH_MAX_BYTES`",
                settings.fetch_concurrency * settings.fetch_max_bytes,
                0,
            ),
            Part("the cache of embeddings", "`EMBEDDING_CACHE_BYTES`", settings.embedding_cache_bytes, 0),
            _tmp(),
        )
    )


def _bodies(max_bytes: int) -> Part:
    if not max_bytes:
        raise ValueError("MAX_BYTES_IN_FLIGHT must be set: its default is a share of the limit")
    factors = f"{MEMORY_SHARE} x `MAX_BYTES_IN_FLIGHT`"
    return Part("bodies and responses", factors, MEMORY_SHARE * max_bytes, max_bytes)


def _tmp() -> Part:
    return Part(TMP_PATH, "", TMP, 0)


def _rounded(size: int) -> int:
    return -(-size // STEP) * STEP


# -- the files ----------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Container:
    """A container of a committed file.

    Attributes:
        name: its name in the table.
        file: the file, from the root of the repository.
        write: writes the memory into the text of the file.
    """

    name: str
    file: Path
    memory: Memory
    write: Callable[[str, Memory], str]


def containers(root: Path = ROOT) -> Iterator[Container]:
    """The containers whose memory is computed.

    Args:
        root: the folder of the repository.
    """
    for compose in (Path("docker-compose.yml"), Path("docker-compose.platform.yml")):
        services = yaml.safe_load((root / compose).read_text())["services"]
        for service, memory in (("ragstore", _store_of), ("gateway", _gateway_of)):
            if service in services:
                found = memory(with_defaults(services[service]["environment"]))
                yield Container(f"`{service}` of `{compose}`", compose, found, _compose_writer(service))
    base = _environ(root / "k8s/base/workload.yaml")
    remote = {**base, "RAGSTORE_CHROMA_URL": "http://chromadb:8000"}
    yield Container("`k8s/base`", Path("k8s/base/workload.yaml"), _store_of(remote), write_manifest)
    embedded = Path("k8s/overlays/embedded/workload.yaml")
    own = {**base, **_environ(root / embedded)}
    yield Container("`k8s/overlays/embedded`", embedded, _store_of(own), write_manifest)
    for folder in ("k8s/gateway", "k8s/components/gateway-workers"):
        file = Path(folder, "workload.yaml")
        yield Container(f"`{folder}`", file, _gateway_of(_environ(root / file)), write_manifest)


def _store_of(environ: Mapping[str, str]) -> Memory:
    return store_memory(store.load({name: str(value) for name, value in environ.items()}))


def with_defaults(environ: Mapping[str, str]) -> dict[str, str]:
    """The variables of a service of a compose file, with the defaults of the variables in their values."""
    return {name: re.sub(r"\$\{\w+:-([^}]*)\}", r"\1", str(value)) for name, value in environ.items()}


def _gateway_of(environ: Mapping[str, str]) -> Memory:
    return gateway_memory(gateway.load({name: str(value) for name, value in environ.items()}))


def _environ(manifest: Path) -> dict[str, str]:
    """The variables of the container of a workload that have a value in the manifest."""
    (document,) = yaml.safe_load_all(manifest.read_text())
    entries: list[dict[str, Any]] = document["spec"]["template"]["spec"]["containers"][0].get("env", [])
    return {entry["name"]: entry["value"] for entry in entries if "value" in entry}


def _compose_writer(service: str) -> Callable[[str, Memory], str]:
    block = re.compile(rf"^  {service}:\n(?:(?:    .*)?\n)+", re.MULTILINE)

    def write(text: str, memory: Memory) -> str:
        def changed(match: re.Match[str]) -> str:
            own = _replaced(match[0], r"(limits: \{.*?memory: )\w+", f"{memory.limit_bytes // MIB}m")
            own = _replaced(own, r"(reservations: \{.*?memory: )\w+", f"{memory.request_bytes // MIB}m")
            return _replaced(own, r"(tmpfs: \[\"/tmp:size=)\w+", f"{TMP // MIB}m")

        written, count = block.subn(changed, text)
        if count != 1:
            raise ValueError(f"there is no service {service}")
        return written

    return write


def write_manifest(text: str, memory: Memory) -> str:
    """Write the memory of a workload into its manifest.

    Args:
        text: the manifest.
    """
    text = _replaced(text, r"(requests: \{cpu.*?memory: )\w+", f"{memory.request_bytes // MIB}Mi")
    text = _replaced(text, r"(limits: \{cpu.*?memory: )\w+", f"{memory.limit_bytes // MIB}Mi")
    if "sizeLimit" not in text:  # an overlay, whose base has it
        return text
    text = _replaced(text, r"(limits: \{cpu.*?ephemeral-storage: )\w+", f"{(TMP + LOGS) // MIB}Mi")
    return _replaced(text, r"(sizeLimit: )\w+", f"{TMP // MIB}Mi")


def _replaced(text: str, pattern: str, value: str) -> str:
    written, count = re.subn(pattern, lambda match: match[1] + value, text)
    if count != 1:
        raise ValueError(f"{pattern} occurs {count} times")
    return written


# -- the tables ---------------------------------------------------------------------------------

SUMS: Final = "| container | memory, MiB | limit | request |\n| --- | --- | ---: | ---: |\n"
FACTORS: Final = "| part of the gateway | computed from |\n| --- | --- |\n"


def sums(found: list[Container]) -> str:
    """The table of the sums.

    Args:
        found: the containers.
    """
    rows = []
    for container in found:
        parts = " + ".join(f"{part.limit_bytes // MIB} {part.name}" for part in container.memory.parts)
        memory = container.memory
        rows.append(f"| {container.name} | {parts} | {memory.limit_bytes // MIB} | {memory.request_bytes // MIB} |\n")
    return SUMS + "".join(rows)


def factors(memory: Memory) -> str:
    """The table of the parts of a container of the gateway."""
    rows = [f"| {part.name} | {part.setting or 'measured'} |\n" for part in memory.parts if part.name != TMP_PATH]
    return FACTORS + "".join(rows)


def rendered(root: Path = ROOT) -> dict[Path, str]:
    """The files as they should be.

    Args:
        root: the folder of the repository.
    """
    texts: dict[Path, str] = {}
    found = list(containers(root))
    for container in found:
        text = texts.get(container.file) or (root / container.file).read_text()
        texts[container.file] = container.write(text, container.memory)
    page = (root / PAGE).read_text()
    for head, rows in ((SUMS, sums(found)), (FACTORS, factors(found[-1].memory))):
        start = page.index(head)
        # A table ends before the first line that does not begin with a bar.
        end = page.index("\n\n", start) + 1
        page = page[:start] + rows + page[end:]
    return {**texts, PAGE: page}


def main() -> int:
    """Write the files, or check them."""
    outdated = {file: text for file, text in rendered().items() if (ROOT / file).read_text() != text}
    if "--check" in sys.argv[1:]:
        for file in outdated:
            print(f"{file} is out of date: make generate")
        return 1 if outdated else 0
    for file, text in outdated.items():
        (ROOT / file).write_text(text)
    return 0


if __name__ == "__main__":
    sys.exit(main())
