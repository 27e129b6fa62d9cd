"""The settings of chat, and the names that other programs have for them."""

from __future__ import annotations

import pytest
from structlog.testing import capture_logs

from ragstore.kit.settings import SettingsError
from ragstore_gateway import settings
from ragstore_gateway.chat.upstream import Upstream
from ragstore_gateway.commands import cli

ALIASES = {
    "LITELLM_BASE": ("http://litellm:4000", "upstream_url", "http://litellm:4000"),
    "ENABLE_RAG": ("false", "rag_enabled", False),
    "QDRANT_TOP_K": ("7", "rag_top_k", 7),
    "RAG_TOP_K_MAX": ("9", "rag_top_k", 9),
    "MMR_LAMBDA": ("0.1", "rag_diversity", 0.1),
    "RAG_MAX_SOURCES": ("3", "rag_max_sources", 3),
    "RAG_MAX_CHARS": ("800", "rag_max_characters", 800),
    "RAG_TOKEN_BUDGET": ("1000", "rag_token_budget", 1000),
    "RAG_SIMILARITY_THRESHOLD": ("0.2", "rag_similarity_threshold", 0.2),
    "RAG_TIMEOUT_SECONDS": ("2.5", "rag_timeout_seconds", 2.5),
    "RAG_DEBUG_MODE": ("true", "rag_debug", True),
}


@pytest.mark.parametrize(("name", "expected"), ALIASES.items())
def test_the_variables_of_other_programs_are_read(name: str, expected: tuple[str, str, object]) -> None:
    value, field, parsed = expected
    assert getattr(settings.load({name: value}), field) == parsed


def test_the_gateways_own_variable_wins() -> None:
    loaded = settings.load({"QDRANT_TOP_K": "7", "RAG_TOP_K_MAX": "9", "RAGSTORE_GATEWAY_RAG_TOP_K": "2"})
    assert loaded.rag_top_k == 2
    assert settings.load({"RAG_TOP_K_MAX": "9", "QDRANT_TOP_K": "7"}).rag_top_k == 7


def test_an_error_names_the_variable_that_was_set() -> None:
    with pytest.raises(SettingsError, match=r"^MMR_LAMBDA is wrong"):
        settings.load({"MMR_LAMBDA": "2"})
    with pytest.raises(SettingsError, match=r"^RAGSTORE_GATEWAY_RAG_DIVERSITY is wrong"):
        settings.load({"RAGSTORE_GATEWAY_RAG_DIVERSITY": "2"})


def test_the_defaults_are_those_of_the_documented_contract() -> None:
    loaded = settings.load({})
    assert loaded.collections == ["memory"]
    assert (loaded.rag_top_k, loaded.rag_diversity, loaded.rag_max_sources, loaded.rag_max_characters) == (
        5,
        0.7,
        5,
        1200,
    )
    assert (loaded.rag_timeout_seconds, loaded.history, loaded.on_retrieval_failure) == (6.0, "keep", "continue")
    assert (loaded.rag_annotations, loaded.rag_debug, loaded.forward_key) == (True, False, False)


def test_collections_may_be_a_list() -> None:
    assert settings.load({"RAGSTORE_GATEWAY_RAG_COLLECTIONS": " a, b,,c "}).collections == ["a", "b", "c"]


@pytest.mark.parametrize(
    ("url", "key", "base", "authorization"),
    [
        ("http://litellm:4000", "", "http://litellm:4000/v1", ""),
        ("http://litellm:4000/", "k", "http://litellm:4000/v1", "Bearer k"),
        ("https://api.example/v1/", "", "https://api.example/v1", ""),
        ("https://g.example/v1beta/openai", "", "https://g.example/v1beta/openai", ""),
        ("https://ann:p%40ss@m.example/v1", "", "https://m.example/v1", "Basic YW5uOnBAc3M="),
        ("https://ann:pass@m.example/v1", "k", "https://m.example/v1", "Bearer k"),
    ],
)
def test_the_base_url_of_the_upstream(url: str, key: str, base: str, authorization: str) -> None:
    given = {"RAGSTORE_GATEWAY_UPSTREAM_URL": url, "RAGSTORE_GATEWAY_UPSTREAM_KEY": key}
    upstream = Upstream(settings.load(given))
    assert upstream._base == base
    assert upstream.authorization == authorization


def test_variables_of_other_programs_without_effect_are_named_in_the_log(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("QDRANT_URL", "http://qdrant:6333/secret-path")
    monkeypatch.setattr(cli, "configure_logging", lambda *_: None)
    with capture_logs() as logs:
        cli._checked_settings()
    (entry,) = [each for each in logs if each["event"] == "variable without effect"]
    assert entry["variable"] == "QDRANT_URL"
    assert "qdrant" in entry["remedy"]
    assert "secret-path" not in str(logs)


def test_a_variable_without_effect_that_is_empty_is_not_named() -> None:
    assert settings.unserved({"QDRANT_URL": "", "AGENT_EMBEDDER_URL": "x"}).keys() == {"AGENT_EMBEDDER_URL"}
