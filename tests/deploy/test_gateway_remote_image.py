"""The gateway's image with STORE=remote, built once and started in a folder; `test_image.py` says what that shows."""

from __future__ import annotations

import json
import subprocess
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from tests.deploy.dockerfile import GATEWAY_DOCKERFILE, ROOT, Engine, built_image, stages
from tests.support.ingestion import Base, EmbeddingServer, client_of, embedding_server
from tests.support.servers import Served, free_port, running, start_service

IMAGE = stages(GATEWAY_DOCKERFILE)[-1]
MAX_BYTES = 350_000_000


@pytest.fixture(scope="module")
def image(tmp_path_factory: pytest.TempPathFactory) -> Engine:
    """The image, built. Its packages are compiled, since that is a fifth of its size."""
    return built_image(tmp_path_factory.mktemp("image"), GATEWAY_DOCKERFILE, store="remote")


@pytest.fixture
async def provider() -> AsyncIterator[EmbeddingServer]:
    """A provider of embeddings."""
    async with embedding_server() as server:
        yield server


@pytest.fixture
async def gateway(image: Engine, provider: EmbeddingServer, tmp_path: Path) -> AsyncIterator[Served]:
    """The image, started with its CMD beside a store and a provider of embeddings."""
    port, folder = free_port(), tmp_path / "gateway"
    folder.mkdir()
    with running(start_service(tmp_path, {"RAGSTORE_RESERVED_PREFIXES": "none"})) as store:
        environ = {
            "RAGSTORE_URL": store.url,
            "RAGSTORE_GATEWAY_HOST": "127.0.0.1",
            "RAGSTORE_GATEWAY_PORT": str(port),
            "RAGSTORE_GATEWAY_DATA_PATH": str(folder),
            "RAGSTORE_GATEWAY_EMBEDDING_PROVIDER": "tei",
            "RAGSTORE_GATEWAY_EMBEDDING_URL": provider.url,
        }
        process = image.start(IMAGE.value("CMD"), environ, tmp_path / "log")
        with running(Served(f"http://127.0.0.1:{port}", process, tmp_path / "log")) as served:
            served.wait_until_ready("/health/ready")
            yield served


async def test_documents_of_several_formats_are_found_and_a_built_in_model_is_503(
    gateway: Served, provider: EmbeddingServer
) -> None:
    page = "<html><body><article><h1>Ovens</h1><p>The oven bakes bread at 220 degrees.</p></article></body></html>"
    async with client_of(gateway.url) as client:
        parameters = {"baseUrl": provider.url}
        base = await Base.create(client, name="handbook", embeddingProvider="tei", embeddingParameters=parameters)
        await base.completed("kettle.md", "# Kettles\n\nThe kettle boils water.", "text/markdown")
        await base.completed("oven.html", page, "text/html")
        found = await base.query("The kettle boils water.")
        for model in ("builtin/wordllama", "builtin/minilm", "builtin/e5-small"):
            response = await client.post("/v1/embeddings", json={"model": model, "input": "tea"})
            assert response.status_code == 503
            assert response.json()["error"]["code"] == "model_unavailable"
            assert "pip install 'ragstore-gateway[" in response.json()["error"]["message"]
    assert sorted(each["text"] for each in found) == [
        "# Kettles\n\nThe kettle boils water.",
        "Ovens\nThe oven bakes bread at 220 degrees.",
    ]


def test_its_environment_is_small(image: Engine) -> None:
    folder = image.below("/opt/ragstore")
    assert (
        sum(file.stat().st_size for file in folder.rglob("*") if file.is_file() and not file.is_symlink()) < MAX_BYTES
    )


def test_it_writes_the_openapi_document(image: Engine) -> None:
    # The packages that invent examples are not in it.
    run = subprocess.run(
        ["ragstore-gateway", "openapi"], env=image.environ, cwd=image.folder, capture_output=True, check=True
    )
    assert json.loads(run.stdout) == json.loads((ROOT / "openapi/gateway.json").read_text())


@pytest.mark.parametrize(
    ("environ", "extra"),
    [
        (
            {"RAGSTORE_GATEWAY_EMBEDDING_PROVIDER": "tei", "RAGSTORE_GATEWAY_EMBEDDING_URL": "http://127.0.0.1:1"},
            "embedded",
        ),
        ({"RAGSTORE_URL": "http://127.0.0.1:1"}, "models"),
    ],
)
def test_what_it_does_not_contain_is_named_in_one_line(
    image: Engine, tmp_path: Path, environ: dict[str, str], extra: str
) -> None:
    given = {"RAGSTORE_GATEWAY_HOST": "127.0.0.1", "RAGSTORE_GATEWAY_DATA_PATH": str(tmp_path), **environ}
    run = subprocess.run(
        ["ragstore-gateway", "serve"],
        env={**image.environ, **given},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert run.returncode == 1
    assert f"pip install 'ragstore-gateway[{extra}]'" in run.stderr
    assert len([line for line in run.stderr.splitlines() if not line.startswith("{")]) == 1
