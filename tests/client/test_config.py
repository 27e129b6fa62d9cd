"""The configuration from the platform, and the settings from the environment."""

from __future__ import annotations

import pytest

from ragstore_client import InvalidConfiguration, RagArchiveConfig, RagConfig, RagSettings, extract_rag_config
from tests.client.corpus import CANARY_VALUE

DEFAULT_MODEL = "jinaai/jina-embeddings-v2-base-de"


def configured(*archives: dict[str, object]) -> dict[str, object]:
    return {"configurable": {"user_id": "usr_abc123", "rag_config": {"archives": list(archives)}}}


def archive(name: str = "AIS Management Standard", **more: object) -> dict[str, object]:
    return {"name": name, "collection_name": "repo_a1b2c3d4", **more}


def test_the_platforms_payload_is_parsed() -> None:
    found = extract_rag_config(configured(archive(chromadb_url="http://elsewhere:8000", embedding_model="acme/small")))
    assert found == RagConfig(
        archives=[
            RagArchiveConfig(
                name="AIS Management Standard",
                collection_name="repo_a1b2c3d4",
                chromadb_url="http://elsewhere:8000",
                embedding_model="acme/small",
            )
        ]
    )


@pytest.mark.parametrize(
    "config",
    [{}, {"configurable": {}}, {"configurable": {"model_name": "openai:gpt-4o-mini"}}, {"configurable": None}],
)
def test_a_missing_rag_config_is_none(config: dict[str, object]) -> None:
    assert extract_rag_config(config) is None


@pytest.mark.parametrize("nothing", [None, {}])
def test_a_null_or_empty_rag_config_is_none(nothing: object) -> None:
    assert extract_rag_config({"configurable": {"rag_config": nothing}}) is None


def test_no_archives_is_a_configuration_without_archives() -> None:
    found = extract_rag_config(configured())
    assert found is not None
    assert len(found.archives) == 0


def test_an_archive_has_defaults(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("DOCPROC_CHROMADB_URL", raising=False)
    made = RagArchiveConfig(name="a", collection_name="b")
    assert (made.chromadb_url, made.embedding_model) == ("http://chromadb:8000", DEFAULT_MODEL)


@pytest.mark.parametrize(
    ("url", "environment", "expected"),
    [
        ("http://archive:1", "http://environment:2", "http://archive:1"),
        (None, "http://environment:2", "http://environment:2"),
        ("", "http://environment:2", "http://environment:2"),
        (None, "", "http://chromadb:8000"),
        (None, None, "http://chromadb:8000"),
    ],
)
def test_the_url_is_the_archives_then_the_environments_then_the_default(
    monkeypatch: pytest.MonkeyPatch, url: str | None, environment: str | None, expected: str
) -> None:
    monkeypatch.delenv("DOCPROC_CHROMADB_URL", raising=False)
    if environment is not None:
        monkeypatch.setenv("DOCPROC_CHROMADB_URL", environment)
    found = extract_rag_config(configured(archive(chromadb_url=url)))
    assert found is not None
    assert found.archives[0].chromadb_url == expected


def test_the_threads_configuration_replaces_the_assistants_whole() -> None:
    assistant = configured(archive("A"), archive("B", chromadb_url="http://b:1"))
    thread = configured(archive("B"))
    found = extract_rag_config(thread, assistant=assistant)
    assert found is not None
    assert [each.name for each in found.archives] == ["B"]
    assert found.archives[0].chromadb_url != "http://b:1"


def test_a_thread_without_the_key_has_no_archives() -> None:
    assert extract_rag_config({"configurable": {"user_id": "u"}}, assistant=configured(archive("A"))) is None


def test_without_a_configuration_of_the_thread_the_assistants_applies() -> None:
    found = extract_rag_config({}, assistant=configured(archive("A")))
    assert found is not None
    assert [each.name for each in found.archives] == ["A"]


@pytest.mark.parametrize(
    ("url", "expected"),
    [
        ("http://chroma", "http://chroma:8000"),
        ("http://chroma/", "http://chroma:8000/"),
        ("http://user:secret@chroma/prefix", "http://user:secret@chroma:8000/prefix"),
        ("http://[::1]", "http://[::1]:8000"),
        ("http://[::1]:9000", "http://[::1]:9000"),
        ("http://chroma:80", "http://chroma:80"),
        ("https://chroma.example.com", "https://chroma.example.com"),
        ("not a url", "not a url"),
    ],
)
def test_an_archive_s_url_without_a_port_means_8000(url: str, expected: str) -> None:
    assert RagArchiveConfig(name="a", collection_name="b", chromadb_url=url).service_url == expected


def test_a_thread_that_lists_no_archive_has_none() -> None:
    found = extract_rag_config(configured(), assistant=configured(archive("A")))
    assert found is not None
    assert found.archives == []


def test_unknown_fields_of_a_rag_config_are_ignored() -> None:
    assert extract_rag_config(configured(archive(colour="blue"))) is not None


@pytest.mark.parametrize(
    ("raw", "where"),
    [
        ({"archives": [{"name": CANARY_VALUE}]}, "collection_name"),
        ({"archives": [archive(embedding_model=5)]}, r"\$.archives\[0\].embedding_model"),
        ({"archives": CANARY_VALUE}, r"\$.archives"),
        ({"archives": [CANARY_VALUE]}, r"\$.archives\[0\]"),
        ([CANARY_VALUE], "rag_config"),
    ],
)
def test_an_invalid_rag_config_is_rejected_without_repeating_its_values(raw: object, where: str) -> None:
    with pytest.raises(InvalidConfiguration, match=where) as caught:
        extract_rag_config({"configurable": {"rag_config": raw}})
    assert CANARY_VALUE not in str(caught.value)


def test_settings_have_the_defaults_of_the_specification() -> None:
    settings = RagSettings.from_env({})
    assert settings == RagSettings()
    assert settings.embeddings_url == "http://tei-embeddings:8080"
    assert (settings.default_top_k, settings.default_layer) == (5, "chunk")
    assert (settings.query_timeout, settings.embed_timeout) == (5.0, 10.0)


def test_settings_come_from_the_environment() -> None:
    settings = RagSettings.from_env(
        {
            "DOCPROC_TEI_EMBEDDINGS_URL": "http://tei:1",
            "RAG_DEFAULT_TOP_K": "7",
            "RAG_DEFAULT_LAYER": "section",
            "RAG_QUERY_TIMEOUT_SECONDS": "2.5",
            "RAG_EMBED_TIMEOUT_SECONDS": "3",
            "RAGSTORE_API_KEY": "key",
        }
    )
    assert settings == RagSettings(
        embeddings_url="http://tei:1",
        default_top_k=7,
        default_layer="section",
        query_timeout=2.5,
        embed_timeout=3.0,
        api_key="key",
    )


def test_an_empty_variable_counts_as_not_set() -> None:
    assert RagSettings.from_env({"RAG_DEFAULT_TOP_K": " ", "RAG_DEFAULT_LAYER": ""}) == RagSettings()


@pytest.mark.parametrize("name", ["RAG_DEFAULT_TOP_K", "RAG_QUERY_TIMEOUT_SECONDS", "RAG_EMBED_TIMEOUT_SECONDS"])
@pytest.mark.parametrize("value", ["many", "0", "-1", "nan", "inf"])
def test_an_invalid_variable_is_named_in_the_error(name: str, value: str) -> None:
    with pytest.raises(InvalidConfiguration, match=name):
        RagSettings.from_env({name: value})
