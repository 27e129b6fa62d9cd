"""The JSON Schema of configurations: valid, as strict as the gateway, and of use to a generator of forms."""

from __future__ import annotations

import json
import re
import subprocess
from pathlib import Path
from typing import Any, Final

import httpx
import pytest
from jsonschema import Draft202012Validator

from tests.gateway.knowledge.conftest import body_of
from tests.support.knowledge_base_faults import KNOWLEDGE_BASE_FAULTS
from tests.support.servers import Served

pytestmark = pytest.mark.process

FOLDER: Final = Path(__file__).resolve().parents[1] / "node"


@pytest.fixture(scope="module")
def schemas(gateway: Served) -> dict[str, Any]:
    """The schemas by kind."""
    return {
        kind: httpx.get(f"{gateway.url}/ragstore/{kind}/jsonSchema").raise_for_status().json()
        for kind in ("rags", "assistants")
    }


def test_the_schema_is_of_2020_12_and_documents_each_field(schemas: dict[str, Any], kind: str) -> None:
    schema = schemas[kind]
    assert schema["$schema"] == "https://json-schema.org/draft/2020-12/schema"
    Draft202012Validator.check_schema(schema)
    assert schema["additionalProperties"] is False
    assert "name" in schema["required"]
    assert all("description" in each or "anyOf" in each for each in schema["properties"].values())


def test_each_field_has_a_title_for_people(schemas: dict[str, Any], kind: str) -> None:
    schema = schemas[kind]
    described = [schema, *schema["$defs"].values()]
    titles = {name: field["title"] for each in described for name, field in each.get("properties", {}).items()}
    assert all(re.fullmatch(r"[A-Z].*", title) for title in titles.values()), titles
    if kind == "rags":
        named = {name: titles[name] for name in ("chunkSize", "apiKey", "baseUrl", "requestDelayMs", "maxResults")}
        assert list(named.values()) == ["Chunk size", "API key", "Base URL", "Request delay (ms)", "Maximum results"]


def test_a_small_configuration_is_valid(schemas: dict[str, Any], kind: str) -> None:
    assert Draft202012Validator(schemas[kind]).is_valid(body_of(kind, "x"))


@pytest.mark.parametrize(("fields", "path"), KNOWLEDGE_BASE_FAULTS)
def test_the_schema_rejects_the_faults_that_the_gateway_rejects(
    schemas: dict[str, Any], fields: dict[str, object], path: str
) -> None:
    if path == "$.chunkOverlap" and fields.get("chunkOverlap") != -1:
        return  # JSON Schema cannot compare two fields
    assert not Draft202012Validator(schemas["rags"]).is_valid({"name": "x", **fields}), json.dumps(fields)


def test_numbers_of_parameters_may_be_texts_as_eddi_writes_them(schemas: dict[str, Any], gateway: Served) -> None:
    parameters = {"apiKey": "${env:OPENAI_API_KEY}", "dimensions": "512"}
    body = {"name": "numbers as texts", "embeddingProvider": "openai", "embeddingParameters": parameters}
    assert Draft202012Validator(schemas["rags"]).is_valid(body)
    assert httpx.post(f"{gateway.url}/ragstore/rags", json=body).status_code == 201


def test_react_jsonschema_form_makes_forms_whose_data_the_gateway_accepts(gateway: Served) -> None:
    if not (FOLDER / "node_modules/@rjsf").is_dir():
        pytest.fail("react-jsonschema-form is not installed: make environments")
    completed = subprocess.run(
        ["node", "--test", "--test-reporter=tap", "forms.test.mjs"],
        cwd=FOLDER,
        env={"PATH": "/usr/local/bin:/usr/bin:/bin", "GATEWAY_URL": gateway.url},
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    totals = {word: int(number) for word, number in re.findall(r"^# (\w+) (\d+)$", completed.stdout, flags=re.M)}
    assert totals.get("tests"), completed.stdout + completed.stderr
    assert totals["pass"] == totals["tests"], completed.stdout
