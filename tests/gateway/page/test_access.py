"""`GET /access` and `GET /` of the gateway, and keys for both services that `keys new` makes."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import httpx
import pytest
from click.testing import CliRunner

from ragstore_gateway.commands.cli import main
from tests.support.gateways import start_gateway
from tests.support.problems import problem_of
from tests.support.process_fixtures import starts_process
from tests.support.servers import Served, running

KEYS = {
    "boss": ["--role", "admin", "--store-role", "admin"],
    "team": ["--role", "writer", "--store-role", "reader", "--collections", "repo_*", "--collections", "shared"],
    "chat": ["--role", "reader", "--bases", "team_*"],
}


@dataclass(frozen=True)
class KeyedGateway:
    """A gateway with keys.

    Attributes:
        served: the gateway.
        keys: the plain keys by name.
    """

    served: Served
    keys: dict[str, str]

    def get(self, path: str, key: str = "") -> httpx.Response:
        """Send a request with the key of a name, or with none."""
        return httpx.get(self.served.url + path, headers={"Authorization": f"Bearer {self.keys[key]}"} if key else {})


def new_key(file: Path, name: str, *options: str) -> str:
    """Make a key by the command; return the plain key."""
    result = CliRunner().invoke(main, ["keys", "new", name, *options, "--file", str(file)])
    assert result.exit_code == 0, result.output
    return result.output.strip()


@pytest.fixture(scope="module")
@starts_process
def keyed(tmp_path_factory: pytest.TempPathFactory) -> Iterator[KeyedGateway]:
    """A gateway with its store in its process, and keys that the command made."""
    folder = tmp_path_factory.mktemp("keyed-gateway")
    keys = {name: new_key(folder / "keys", name, *options) for name, options in KEYS.items()}
    with running(start_gateway(folder, {"RAGSTORE_GATEWAY_KEYS_FILE": str(folder / "keys")})) as served:
        yield KeyedGateway(served, keys)


def test_access_needs_no_key(keyed: KeyedGateway) -> None:
    access = keyed.get("/access").json()

    assert access["service"] == "ragstore-gateway"
    assert access["keysRequired"] is True
    assert access["key"] is None
    assert access["store"] == "in-process"
    assert access["chat"] is False
    assert ".pdf" in access["formats"]


def test_a_wrong_key_gets_401(keyed: KeyedGateway) -> None:
    response = httpx.get(keyed.served.url + "/access", headers={"X-API-Key": "rsk_" + "A" * 43})

    assert problem_of(response, 401)["code"] == "unauthorized"
    assert response.headers["www-authenticate"].startswith("Bearer")


@pytest.mark.parametrize(
    ("name", "rights"),
    [
        ("boss", {"gateway": {"role": "admin"}, "store": {"role": "admin"}}),
        (
            "team",
            {"gateway": {"role": "writer"}, "store": {"role": "reader", "collections": ["repo_*", "shared"]}},
        ),
        ("chat", {"gateway": {"role": "reader", "bases": ["team_*"]}}),
    ],
)
def test_access_has_the_rights_of_a_key_in_both_services(
    keyed: KeyedGateway, name: str, rights: dict[str, object]
) -> None:
    assert keyed.get("/access", name).json()["key"] == {"name": name, **rights}


def test_a_key_for_both_services_opens_the_collections_of_the_store(keyed: KeyedGateway) -> None:
    assert keyed.get("/collections", "boss").status_code == 200
    assert keyed.get("/health", "boss").status_code == 200


def test_a_key_for_the_gateway_only_does_not_open_the_collections(keyed: KeyedGateway) -> None:
    problem_of(keyed.get("/collections", "chat"), 403)


def test_a_program_gets_the_description_of_the_gateway(keyed: KeyedGateway) -> None:
    description = keyed.get("/").json()

    assert description["name"] == "ragstore-gateway"
    assert description["links"]["page"] == "/ui/"


def test_a_browser_gets_the_page(keyed: KeyedGateway) -> None:
    response = httpx.get(keyed.served.url + "/", headers={"Accept": "text/html"}, follow_redirects=True)

    assert response.url.path == "/ui/"
    assert response.headers["content-type"].startswith("text/html")


@pytest.mark.process
def test_a_setting_removes_the_page(tmp_path: Path) -> None:
    with running(start_gateway(tmp_path, {"RAGSTORE_GATEWAY_UI": "false"})) as served:
        problem_of(httpx.get(served.url + "/ui/"), 404)
        assert httpx.get(served.url + "/", headers={"Accept": "text/html"}).json()["name"] == "ragstore-gateway"


@pytest.mark.process
def test_a_gateway_with_a_remote_store_has_no_rights_in_it(keyed: KeyedGateway, tmp_path: Path) -> None:
    key = new_key(tmp_path / "keys", "boss", *KEYS["boss"])
    environ = {
        "RAGSTORE_GATEWAY_KEYS_FILE": str(tmp_path / "keys"),
        "RAGSTORE_URL": keyed.served.url,
        "RAGSTORE_API_KEY": keyed.keys["boss"],
    }
    with running(start_gateway(tmp_path, environ, ready=False)) as served:
        access = httpx.get(served.url + "/access", headers={"X-API-Key": key}).json()

    assert access["store"] == "remote"
    assert access["key"] == {"name": "boss", "gateway": {"role": "admin"}}


def test_collections_without_a_role_in_the_store_are_an_error(tmp_path: Path) -> None:
    command = ["keys", "new", "a", "--role", "reader", "--collections", "x", "--file", str(tmp_path / "keys")]
    result = CliRunner().invoke(main, command)

    assert result.exit_code == 1
    assert "--collections needs --store-role" in result.output
    assert not (tmp_path / "keys").exists()


def test_the_list_of_keys_has_the_roles_in_both_services(tmp_path: Path) -> None:
    for name, options in KEYS.items():
        new_key(tmp_path / "keys", name, *options)
    lines = CliRunner().invoke(main, ["keys", "list", "--file", str(tmp_path / "keys")]).output.splitlines()

    assert lines[0].split()[:5] == ["NAME", "ROLE", "CREATED", "STORE", "ROLE"]
    assert [line.split()[1] for line in lines[1:]] == ["admin", "writer", "reader"]
    assert [line.split()[3] for line in lines[1:]] == ["admin", "reader", "-"]
    assert "repo_* shared" in lines[2]


def test_a_key_for_both_services_is_one_line_of_the_file(tmp_path: Path) -> None:
    new_key(tmp_path / "keys", "boss", *KEYS["boss"])
    entry = json.loads((tmp_path / "keys").read_text())

    assert entry["scopes"] == {"gateway": {"role": "admin"}, "store": {"role": "admin"}}


def test_a_key_has_a_tenant_of_the_gateway_and_another_one_of_chroma(tmp_path: Path) -> None:
    file = tmp_path / "keys"
    tenants = ["--tenant", "acme", "--store-tenant", "chroma-acme"]
    new_key(file, "both", "--role", "admin", "--store-role", "writer", *tenants)
    scopes = json.loads(file.read_text())["scopes"]
    assert scopes["gateway"] == {"role": "admin", "tenant": "acme"}
    assert scopes["store"] == {"role": "writer", "tenant": "chroma-acme"}
    listed = CliRunner().invoke(main, ["keys", "list", "--file", str(file)]).output.splitlines()
    assert [each for each in listed[0].split("  ") if "TENANT" in each] == ["TENANT", "STORE TENANT"]
    assert "chroma-acme" in listed[1]
    refused = CliRunner().invoke(main, ["keys", "new", "x", "--role", "admin", "--tenant", "a b", "--file", str(file)])
    assert refused.exit_code == 1
    refused = CliRunner().invoke(
        main, ["keys", "new", "x", "--role", "admin", "--store-tenant", "chroma", "--file", str(file)]
    )
    assert "--store-tenant needs --store-role" in refused.output
