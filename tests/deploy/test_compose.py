"""The content of docker-compose.yml. `make deploy-check` validates it against the schema."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import httpx
import pytest
import yaml

from ragstore.settings import Settings, load, unknown
from ragstore_gateway import settings as gateway_settings
from scripts.container_memory import with_defaults
from tests.deploy.dockerfile import ROOT
from tests.support.servers import Served, free_port, running, start_process

COMPOSE: dict[str, Any] = yaml.safe_load((ROOT / "docker-compose.yml").read_text())
SERVICES: dict[str, dict[str, Any]] = COMPOSE["services"]
LOCK = (ROOT / "requirements/embedded.txt").read_text()


def bash_check(service: str, inner_port: int, port: int) -> int:
    """The exit code of a health check in bash, with another port."""
    command: list[str] = SERVICES[service]["healthcheck"]["test"]
    assert command[:3] == ["CMD", "bash", "-c"]
    script = command[3].replace("$$", "$").replace(f"/{inner_port}", f"/{port}")
    return subprocess.run(["bash", "-c", script], capture_output=True, check=False, timeout=10).returncode


def test_its_services_have_the_names_of_the_topology() -> None:
    assert set(SERVICES) == {
        *("ragstore", "chromadb", "repair", "tei-embeddings", "gateway", "postgres", "litellm", "model", "searxng"),
        "open-webui",
    }


def test_the_embeddings_server_and_the_gateway_with_its_neighbours_start_only_with_a_profile() -> None:
    profiles = {name: service["profiles"] for name, service in SERVICES.items() if "profiles" in service}
    assert profiles == {
        "tei-embeddings": ["embeddings"],
        "gateway": ["gateway"],
        "postgres": ["gateway"],
        "litellm": ["gateway"],
        "model": ["gateway"],
        "searxng": ["gateway"],
        "open-webui": ["gateway"],
    }


def test_the_gateway_uses_the_store_and_the_upstream_of_the_topology() -> None:
    environ = with_defaults(SERVICES["gateway"]["environment"])
    settings = gateway_settings.load(environ)
    store, upstream = urlsplit(environ["RAGSTORE_URL"]), urlsplit(settings.upstream_url)
    assert (store.hostname, store.port) == ("ragstore", 8080)
    assert (upstream.hostname, upstream.port, upstream.path) == ("litellm", 4000, "/v1")
    # A model in the process: the profile needs no download of a model.
    assert (settings.embedding_provider, settings.embedding_url) == ("local", "")
    assert settings.searxng_url == "http://searxng:8080"


def test_the_embeddings_server_of_the_other_profile_can_be_chosen() -> None:
    environ = dict(SERVICES["gateway"]["environment"])
    chosen = {"GATEWAY_EMBEDDING_PROVIDER": "tei", "GATEWAY_EMBEDDING_URL": "http://tei-embeddings:8080"}
    for name, value in chosen.items():
        environ = {key: re.sub(rf"\$\{{{name}:-[^}}]*\}}", value, text) for key, text in environ.items()}
    settings = gateway_settings.load(with_defaults(environ))
    assert (settings.embedding_provider, settings.embedding_url) == ("tei", "http://tei-embeddings:8080")


def test_the_files_that_are_mounted_without_a_variable_are_there() -> None:
    mounts = [each for service in SERVICES.values() for each in service.get("volumes", []) if isinstance(each, str)]
    files = [mount.partition(":")[0] for mount in with_defaults(dict(zip(mounts, mounts, strict=True))).values()]
    assert {"./examples/compose/litellm.yaml", "./examples/compose/searxng.yml"} <= set(files)
    for file in files:
        assert not file.startswith(".") or (ROOT / file).is_file(), file


def test_the_models_of_the_upstream_are_served_by_the_example_model(tmp_path: Path) -> None:
    config = yaml.safe_load((ROOT / "examples/compose/litellm.yaml").read_text())
    (model,) = (each["litellm_params"] for each in config["model_list"])
    base, command = urlsplit(model["api_base"]), list(SERVICES["model"]["command"])
    assert (base.hostname, base.port, base.path) == ("model", int(command[command.index("--port") + 1]), "/v1")
    (mount,) = SERVICES["model"]["volumes"]
    source, target, _ = mount.split(":")
    command[command.index(target)] = str(ROOT / source)
    command[command.index("--port") + 1] = str(port := free_port())
    command[0] = sys.executable
    with running(start_process(command, f"http://127.0.0.1:{port}", tmp_path / "log", {})) as served:
        served.wait_until_ready("/v1/models")
        names = [each["id"] for each in httpx.get(f"{served.url}/v1/models").json()["data"]]
    assert f"openai/{names[0]}" == model["model"]


def test_the_chat_client_uses_the_gateway_and_writes_to_its_volume_only() -> None:
    client = SERVICES["open-webui"]
    environ = client["environment"]
    address = urlsplit(environ["OPENAI_API_BASE_URL"])
    assert (address.hostname, address.port, address.path) == ("gateway", 8090, "/v1")
    assert environ["OPENAI_API_KEY"] == "${GATEWAY_CHAT_KEY:-}"
    assert client["depends_on"] == {"gateway": {"condition": "service_healthy"}}
    (volume,) = client["volumes"]
    name, _, folder = volume.partition(":")
    assert name in COMPOSE["volumes"]
    assert [path for path in environ.values() if path.startswith("/")] == [
        f"{folder}/.webui_secret_key",
        f"{folder}/static",
    ]


def test_the_gateway_orders_annotations_as_the_chat_client_needs_it() -> None:
    settings = gateway_settings.load(with_defaults(SERVICES["gateway"]["environment"]))
    assert settings.rag_annotation_order == "number"


def test_the_search_engine_allows_json() -> None:
    settings = yaml.safe_load((ROOT / "examples/compose/searxng.yml").read_text())
    assert "json" in settings["search"]["formats"]
    assert settings["server"]["limiter"] is False


def test_the_state_of_the_gateway_is_in_the_postgresql_of_the_topology_on_a_volume() -> None:
    database = urlsplit(gateway_settings.load(with_defaults(SERVICES["gateway"]["environment"])).database_url)
    postgres = SERVICES["postgres"]
    environ = postgres["environment"]
    assert (database.hostname, database.port) == ("postgres", 5432)
    assert (database.username, database.path) == (environ["POSTGRES_USER"], f"/{environ['POSTGRES_DB']}")
    written = SERVICES["gateway"]["environment"]["RAGSTORE_GATEWAY_DATABASE_URL"]
    assert f":{environ['POSTGRES_PASSWORD']}@" in written
    assert postgres["volumes"] == ["gateway-data:/var/lib/postgresql"]
    assert "gateway-data" in COMPOSE["volumes"]
    assert "ports" not in postgres
    assert SERVICES["gateway"]["depends_on"]["postgres"] == {"condition": "service_healthy"}


def test_the_upstream_has_no_version_with_malware() -> None:
    # Versions 1.82.7 and 1.82.8 of LiteLLM contained a credential stealer (MAL-2026-2144).
    version = SERVICES["litellm"]["image"].rpartition(":")[2].rstrip("}")
    assert not re.search(r"1\.82\.[78]", version)


@pytest.mark.parametrize("name", SERVICES)
def test_every_service_but_the_database_is_on_my_network(name: str) -> None:
    networks = {"postgres": ["gateway-database"], "gateway": ["my_network", "gateway-database"]}
    assert SERVICES[name]["networks"] == networks.get(name, ["my_network"])


def test_the_network_has_a_fixed_name_and_that_of_the_database_is_the_projects_own() -> None:
    assert COMPOSE["networks"]["my_network"]["name"] == "my_network"
    assert COMPOSE["networks"]["gateway-database"] == {"internal": True}


def test_no_password_has_a_default_and_no_variable_keeps_the_store_from_starting() -> None:
    text = (ROOT / "docker-compose.yml").read_text()
    variables = set(re.findall(r"\$\{(\w+)([^}]*)\}", text))
    assert ("GATEWAY_DATABASE_PASSWORD", ":-") in variables
    assert {default for name, default in variables if name.endswith(("PASSWORD", "_KEY"))} == {":-"}
    # Compose reads the variables of services whose profile is not chosen, too.
    assert not [name for name, default in variables if "?" in default]


def test_the_gateway_starts_with_keys_only() -> None:
    gateway = SERVICES["gateway"]
    settings = gateway_settings.load(with_defaults(gateway["environment"]))
    assert not settings.allow_open
    (mount,) = gateway["volumes"]
    assert settings.keys_file == f"{mount['target']}/keys.jsonl"
    assert (mount["type"], mount["read_only"], mount["bind"]) == ("bind", True, {"create_host_path": False})


@pytest.mark.parametrize("name", SERVICES)
def test_every_service_is_hardened(name: str) -> None:
    service = SERVICES[name]
    assert service["read_only"] is True
    assert service["cap_drop"] == ["ALL"]
    assert service["security_opt"] == ["no-new-privileges:true"]


@pytest.mark.parametrize("name", SERVICES)
def test_every_service_has_resource_limits(name: str) -> None:
    assert {"cpus", "memory", "pids"} <= SERVICES[name]["deploy"]["resources"]["limits"].keys()


@pytest.mark.parametrize("name", [name for name in SERVICES if name != "repair"])
def test_every_service_that_serves_has_a_health_check(name: str) -> None:
    assert SERVICES[name]["healthcheck"]["test"][0] == "CMD"


def test_ragstore_starts_when_chroma_is_healthy() -> None:
    assert SERVICES["ragstore"]["depends_on"] == {"chromadb": {"condition": "service_healthy"}}


def test_chroma_starts_when_its_data_was_repaired() -> None:
    assert SERVICES["chromadb"]["depends_on"] == {"repair": {"condition": "service_completed_successfully"}}
    assert SERVICES["repair"]["command"] == ["chroma-repair", "/data"]
    assert SERVICES["repair"]["volumes"] == SERVICES["chromadb"]["volumes"]
    assert SERVICES["repair"]["restart"] == "no"
    assert (SERVICES["repair"]["image"], SERVICES["repair"]["build"]) == (
        SERVICES["ragstore"]["image"],
        SERVICES["ragstore"]["build"],
    )


def test_a_platform_with_a_network_and_a_chroma_of_its_own_gets_the_service_alone() -> None:
    platform = yaml.safe_load((ROOT / "docker-compose.platform.yml").read_text())
    assert platform["networks"] == {"my_network": {"external": True}}
    assert platform["services"].keys() == {"ragstore"}
    assert "volumes" not in platform
    service = dict(platform["services"]["ragstore"])
    assert "depends_on" not in service
    # Otherwise it is the service of docker-compose.yml.
    assert service == {key: value for key, value in SERVICES["ragstore"].items() if key != "depends_on"}


def test_ragstore_uses_the_chroma_service() -> None:
    address = urlsplit(load(SERVICES["ragstore"]["environment"]).chroma_url)
    assert (address.hostname, address.port) == ("chromadb", 8000)


def test_every_ragstore_variable_is_a_setting() -> None:
    assert unknown(SERVICES["ragstore"]["environment"]) == []


def test_chroma_has_the_tested_version() -> None:
    version = SERVICES["chromadb"]["image"].rpartition(":")[2]
    assert f"\nchromadb=={version} " in LOCK


def test_chroma_s_data_is_on_a_volume() -> None:
    volume, _, path = SERVICES["chromadb"]["volumes"][0].partition(":")
    assert volume in COMPOSE["volumes"]
    assert path == "/data"


def test_the_embeddings_server_has_the_port_and_model_of_the_topology() -> None:
    command = SERVICES["tei-embeddings"]["command"]
    assert command[command.index("--port") + 1] == "8080"
    assert command[command.index("--model-id") + 1] == "jinaai/jina-embeddings-v2-base-de"


def test_only_the_loopback_interface_is_published() -> None:
    ports = [port for service in SERVICES.values() for port in service.get("ports", [])]
    assert ports == ["127.0.0.1:8080:8080", "127.0.0.1:8090:8090", "127.0.0.1:3000:8080"]


def test_requests_in_flight_complete_before_the_container_is_killed() -> None:
    assert int(SERVICES["ragstore"]["stop_grace_period"].removesuffix("s")) > Settings().shutdown_seconds


def test_chroma_s_health_check_passes_on_a_chroma_server(chroma: Served) -> None:
    assert bash_check("chromadb", 8000, urlsplit(chroma.url).port or 0) == 0


@pytest.mark.parametrize(("name", "port"), [("chromadb", 8000), ("tei-embeddings", 8080)])
def test_health_checks_fail_when_the_port_is_closed(name: str, port: int) -> None:
    assert bash_check(name, port, free_port()) != 0


def test_a_health_check_fails_on_another_status(chroma: Served) -> None:
    # A Chroma server has no /health.
    assert bash_check("tei-embeddings", 8080, urlsplit(chroma.url).port or 0) != 0
