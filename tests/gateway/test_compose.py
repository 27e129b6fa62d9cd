"""The services of docker-compose.yml work together, as processes with the environments and commands of the file.

No container engine runs here. LiteLLM, SearxNG and Open WebUI are images of others: the upstream of the gateway is the
model that the configuration of LiteLLM names, and the requests of Open WebUI are made with the address and the models
of its environment. `tests/deploy/test_compose.py` checks the other properties of the file.
"""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Mapping
from contextlib import ExitStack
from pathlib import Path
from typing import Any, Final
from urllib.parse import urlsplit

import httpx
import pytest
import yaml
from openai import OpenAI
from openai.types.chat import ChatCompletionMessageParam

from scripts.container_memory import with_defaults
from tests.support.gateways import start_gateway, start_model, write_keys
from tests.support.pages import ROOT
from tests.support.servers import Served, running, start_service

pytestmark = pytest.mark.process

SERVICES: Final[dict[str, dict[str, Any]]] = yaml.safe_load((ROOT / "docker-compose.yml").read_text())["services"]


def environ_of(service: str, addresses: Mapping[str, str], **files: str) -> dict[str, str]:
    """The environment of a service of the file.

    Args:
        addresses: the address of a process for each address in the file. Each must be there.
        files: variables with paths, which are other ones outside of a container.
    """
    environ = with_defaults(SERVICES[service]["environment"])
    for address, real in addresses.items():
        assert address in environ.values(), address
        environ = {name: real if value == address else value for name, value in environ.items()}
    assert files.keys() <= environ.keys()
    return environ | files


def is_healthy(service: str, served: Served) -> bool:
    """Whether the health check of a service of the file passes on a process."""
    kind, _, *arguments = SERVICES[service]["healthcheck"]["test"]
    assert kind == "CMD"
    (port,) = (entry.rpartition(":")[2] for entry in SERVICES[service].get("ports", ["8099"]))
    check = [sys.executable, *(each.replace(f" {port},", f" {urlsplit(served.url).port},") for each in arguments)]
    return subprocess.run(check, check=False, timeout=30).returncode == 0


def test_a_document_is_cited_by_a_chat_over_the_services_of_the_file(
    tmp_path: Path, chroma: Served, postgres_url: str
) -> None:
    for name in ("ragstore", "gateway", "model"):
        (tmp_path / name).mkdir()
    keys = write_keys(tmp_path / "keys.jsonl", {"me": "admin", "chat": "reader"})
    with ExitStack() as stack:
        environ = environ_of("ragstore", {"http://chromadb:8000": chroma.url})
        store = stack.enter_context(running(start_service(tmp_path / "ragstore", environ)))
        model = stack.enter_context(running(start_model(tmp_path / "model")))
        addresses = {
            "http://ragstore:8080": store.url,
            "http://litellm:4000/v1": f"{model.url}/v1",
            "postgresql://gateway:@postgres:5432/gateway": postgres_url,
        }
        files = {
            "RAGSTORE_GATEWAY_KEYS_FILE": str(tmp_path / "keys.jsonl"),
            "RAGSTORE_GATEWAY_DATA_PATH": str(tmp_path / "gateway"),
        }
        environ = environ_of("gateway", addresses, **files)
        gateway = stack.enter_context(running(start_gateway(tmp_path / "gateway", environ)))

        for name, served in (("ragstore", store), ("gateway", gateway), ("model", model)):
            assert is_healthy(name, served), name
        ingest = [sys.executable, "-m", "ragstore_gateway", "ingest", str(ROOT / "examples/handbook/handbook.md")]
        own = {"RAGSTORE_GATEWAY_URL": gateway.url, "RAGSTORE_GATEWAY_API_KEY": keys["me"]}
        subprocess.run(ingest, env=own, check=True, timeout=120)
        question: list[ChatCompletionMessageParam] = [{"role": "user", "content": "When are flat roofs inspected?"}]
        chat = httpx.post(
            f"{gateway.url}/v1/chat/completions",
            headers={"Authorization": f"Bearer {keys['me']}"},
            json={"model": "rag/extractive", "messages": question},
            timeout=60,
        )
        message = chat.json()["choices"][0]["message"]
        assert "Flat roofs are inspected in April and November" in message["content"]
        assert message["annotations"][0]["url_citation"]["title"].startswith("handbook.md")

        client = environ_of("open-webui", {"http://gateway:8090/v1": f"{gateway.url}/v1"})
        with OpenAI(base_url=client["OPENAI_API_BASE_URL"], api_key=keys["chat"]) as sdk:
            models = {each.id for each in sdk.models.list()}
            assert {"rag/extractive", client["TASK_MODEL_EXTERNAL"]} <= models
            chunks = list(sdk.chat.completions.create(model="rag/extractive", messages=question, stream=True))
            assert "April and November" in "".join(
                each.choices[0].delta.content or "" for each in chunks if each.choices
            )
