"""A configuration's provider and parameters are checked when it is written; nothing is sent."""

from __future__ import annotations

import pytest

from ragstore.kit.errors import InvalidRequest
from ragstore_gateway.embeddings.embeddings import validate
from ragstore_gateway.embeddings.providers.google import GeminiParameters
from ragstore_gateway.embeddings.providers.openai import OpenAIParameters
from tests.gateway.embeddings.factories import embeddings, references

KEY = {"apiKey": "${env:KEY}"}

REQUIRED = {
    "openai": {"apiKey"},
    "azure-openai": {"endpoint", "apiKey", "deploymentName"},
    "ollama": set(),
    "mistral": {"apiKey"},
    "bedrock": set(),
    "cohere": {"apiKey"},
    "vertex": {"project"},
    "gemini": {"apiKey"},
    "local": set(),
    "tei": set(),
    "ragproxy": set(),
}

MODELS = {
    "openai": "text-embedding-3-small",
    "azure-openai": "text-embedding-3-small",
    "ollama": "nomic-embed-text",
    "mistral": "mistral-embed",
    "bedrock": "amazon.titan-embed-text-v2:0",
    "cohere": "embed-english-v3.0",
    "vertex": "text-embedding-005",
    "gemini": "gemini-embedding-2",
    "local": "builtin/wordllama",
}

GIVEN = {"apiKey": "${env:KEY}", "endpoint": "https://tea.openai.azure.com", "deploymentName": "d", "project": "p"}


@pytest.mark.parametrize("provider", REQUIRED)
def test_each_missing_parameter_is_named_with_its_path(provider: str) -> None:
    expected = {f"$.embeddingParameters.{name}" for name in REQUIRED[provider]}
    if not expected:
        validate(provider, {}, references())
        return
    with pytest.raises(InvalidRequest) as caught:
        validate(provider, {}, references())
    assert {error.path for error in caught.value.field_errors} == expected
    assert {error.message for error in caught.value.field_errors} == {"Required"}


@pytest.mark.parametrize("provider", MODELS)
async def test_the_default_model_is_the_documented_one(provider: str) -> None:
    given = {name: GIVEN[name] for name in REQUIRED[provider]}
    async with embeddings() as made:
        assert made.of(provider, given).name.endswith(MODELS[provider])


def test_an_unknown_provider_is_named_with_the_known_ones() -> None:
    with pytest.raises(InvalidRequest, match=r"Must be one of openai, azure-openai.*: \$\.embeddingProvider"):
        validate("openay", {}, references())


def test_an_unknown_parameter_is_named_with_the_known_ones() -> None:
    with pytest.raises(InvalidRequest) as caught:
        validate("openai", {**KEY, "modell": "x", "url": "y"}, references(), "$.bases[2]")
    paths = [error.path for error in caught.value.field_errors]
    assert paths == ["$.bases[2].embeddingParameters.modell", "$.bases[2].embeddingParameters.url"]
    assert "known are model, apiKey" in caught.value.detail


@pytest.mark.parametrize(
    ("provider", "name", "value"),
    [
        ("openai", "baseUrl", "ftp://a"),
        ("openai", "baseUrl", "https://user:pass@a/v1"),
        ("openai", "baseUrl", "https://a/v1?key=1"),
        ("openai", "dimensions", 0),
        ("openai", "dimensions", "many"),
        ("openai", "model", 5),
        ("openai", "model", {}),
        ("bedrock", "region", "us-east-1.evil.example/"),
        ("vertex", "location", "evil.example/#"),
        ("vertex", "project", "../x"),
        ("azure-openai", "apiVersion", "1&x=y"),
        ("local", "dimensions", 100),
    ],
)
def test_a_wrong_value_is_named_with_its_path_and_not_repeated(provider: str, name: str, value: object) -> None:
    given = {each: GIVEN[each] for each in REQUIRED[provider]}
    with pytest.raises(InvalidRequest) as caught:
        validate(provider, {**given, name: value}, references())
    assert [error.path for error in caught.value.field_errors] == [f"$.embeddingParameters.{name}"]
    assert "evil" not in caught.value.detail
    assert "pass@" not in caught.value.detail


def test_a_literal_key_is_rejected_and_not_repeated() -> None:
    with pytest.raises(InvalidRequest) as caught:
        validate("openai", {"apiKey": "sk-canary"}, references())
    assert caught.value.field_errors[0].path == "$.embeddingParameters.apiKey"
    assert "sk-canary" not in caught.value.detail


def test_a_literal_key_is_accepted_where_the_setting_allows_it() -> None:
    validate("openai", {"apiKey": "sk-canary"}, references(literals=True))


def test_numbers_may_be_texts_and_empty_texts_are_absent() -> None:
    converted = validate("openai", {**KEY, "dimensions": "512", "model": "", "baseUrl": None}, references())
    assert isinstance(converted, OpenAIParameters)
    assert (converted.dimensions, converted.model) == (512, "text-embedding-3-small")


def test_gemini_has_the_dimension_and_the_task_of_documents_by_default() -> None:
    converted = validate("gemini", KEY, references())
    assert isinstance(converted, GeminiParameters)
    assert (converted.output_dimensionality, converted.task_type) == (3072, "RETRIEVAL_DOCUMENT")


async def test_the_same_configuration_has_the_same_embedder() -> None:
    async with embeddings() as made:
        assert made.of("openai", KEY) is made.of("openai", {**KEY, "model": "text-embedding-3-small"})
        assert made.of("openai", KEY) is not made.of("openai", {**KEY, "model": "text-embedding-3-large"})
