"""The settings of a builder: the names of the environment, the defaults, and the checks."""

from __future__ import annotations

from pathlib import Path

import pytest

from ragstore_client import InvalidConfiguration
from ragstore_client.context import ContextSettings
from ragstore_client.context._settings import VARIABLES


def test_the_defaults_are_those_of_the_chat_service() -> None:
    settings = ContextSettings.from_env({})
    assert settings == ContextSettings()
    assert (settings.token_budget, settings.top_k_max, settings.similarity_threshold) == (50_000, 40, 0.2)
    assert (settings.cache_ttl_seconds, settings.timeout_seconds, settings.debug) == (300, 6, False)


def test_every_setting_has_a_variable() -> None:
    environ = {
        "ENABLE_RAG": "off",
        "RAG_TOKEN_BUDGET": "1000",
        "RAG_TOP_K_MAX": " 7 ",
        "RAG_SIMILARITY_THRESHOLD": "0.35",
        "RAG_CACHE_TTL_SECONDS": "0",
        "RAG_TIMEOUT_SECONDS": "1.5",
        "RAG_DEBUG_MODE": "True",
        "MMR_LAMBDA": "0.7",
        "QDRANT_TOP_K": "60",
        "RAG_MAX_SOURCES": "5",
        "RAG_MAX_CHARS": "1200",
        "RAG_DEDUPLICATE_BY_URL": "1",
        "RAG_SHORT_QUESTIONS": "skip",
        "RAG_MIN_QUESTION_CHARS": "4",
        "RAG_GLOBAL_SESSION_ID": "*",
        "RAG_UNKNOWN": "ignored",
    }
    settings = ContextSettings.from_env(environ)
    assert settings == ContextSettings(
        enabled=False,
        token_budget=1000,
        top_k_max=7,
        similarity_threshold=0.35,
        cache_ttl_seconds=0,
        timeout_seconds=1.5,
        debug=True,
        diversity=0.7,
        fetch_k=60,
        max_sources=5,
        max_characters=1200,
        deduplicate_by_url=True,
        short_questions="skip",
        min_question_characters=4,
        global_session_id="*",
    )
    defaults = ContextSettings()
    assert all(getattr(settings, name) != getattr(defaults, name) for name in settings.__struct_fields__)


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("RAG_TOKEN_BUDGET", "-1"),
        ("RAG_TOKEN_BUDGET", "1.5"),
        ("RAG_TOP_K_MAX", "0"),
        ("RAG_TOP_K_MAX", "1001"),
        ("RAG_SIMILARITY_THRESHOLD", "nan"),
        ("RAG_SIMILARITY_THRESHOLD", "1.1"),
        ("RAG_TIMEOUT_SECONDS", "0"),
        ("RAG_TIMEOUT_SECONDS", "six"),
        ("RAG_CACHE_TTL_SECONDS", "inf"),
        ("RAG_DEBUG_MODE", "maybe"),
        ("MMR_LAMBDA", "1.01"),
        ("RAG_MAX_SOURCES", "0"),
        ("RAG_MAX_CHARS", "3"),
        ("RAG_SHORT_QUESTIONS", "sometimes"),
        ("RAG_TOKEN_BUDGET", "-1" + "0" * 400),
        ("RAG_TOP_K_MAX", "1" + "0" * 400),
    ],
)
def test_a_wrong_value_names_the_variable_and_not_the_value(name: str, value: str) -> None:
    with pytest.raises(InvalidConfiguration, match=f"^{name} must be") as raised:
        ContextSettings.from_env({name: value})
    assert value in ("0", "inf") or value not in str(raised.value).removeprefix(name).split()


@pytest.mark.parametrize("value", [5, True, None, b"5", ["5"]])
def test_a_variable_that_is_not_a_string_is_a_configuration_error(value: object) -> None:
    with pytest.raises(InvalidConfiguration, match=r"^RAG_TOP_K_MAX must be a string"):
        ContextSettings.from_env({"RAG_TOP_K_MAX": value})  # type: ignore[dict-item]  # what this is about


def test_a_budget_may_be_larger_than_any_float() -> None:
    assert ContextSettings(token_budget=10**400).token_budget == 10**400


def test_settings_made_in_code_are_checked_too() -> None:
    with pytest.raises(InvalidConfiguration, match="top_k_max must be at least 1"):
        ContextSettings(top_k_max=0)
    with pytest.raises(InvalidConfiguration, match="top_k_max must be a number"):
        ContextSettings(top_k_max=2.5)  # type: ignore[arg-type]  # what this is about
    with pytest.raises(InvalidConfiguration, match="global_session_id must be a string"):
        ContextSettings(global_session_id="")
    with pytest.raises(InvalidConfiguration, match="enabled must be true or false"):
        ContextSettings(enabled="no")  # type: ignore[arg-type]  # what this is about


def test_an_override_is_checked_and_changes_nothing_else() -> None:
    settings = ContextSettings(token_budget=1000)
    assert settings.override(top_k_max=3) == ContextSettings(token_budget=1000, top_k_max=3)
    with pytest.raises(InvalidConfiguration, match="timeout_seconds"):
        settings.override(timeout_seconds=-1)
    with pytest.raises(InvalidConfiguration, match="no setting 'top_k'"):
        settings.override(top_k=3)


@pytest.mark.parametrize(
    ("settings", "reranks", "candidates"),
    [
        (ContextSettings(), False, 40),
        (ContextSettings(), True, 120),
        (ContextSettings(diversity=0.0), False, 120),
        (ContextSettings(max_sources=5), False, 120),
        (ContextSettings(deduplicate_by_url=True), False, 120),
        (ContextSettings(fetch_k=50, diversity=0.5), False, 50),
        (ContextSettings(top_k_max=900), True, 1000),
    ],
)
def test_three_times_as_many_passages_are_fetched_where_some_are_chosen(
    settings: ContextSettings, reranks: bool, candidates: int
) -> None:
    assert settings.candidates(reranks=reranks) == candidates


def test_the_page_lists_every_variable_and_its_setting() -> None:
    page = (Path(__file__).resolve().parents[3] / "docs/answering-with-sources.md").read_text()
    rows = [f"| `{field}` | `{name}` |" for name, field in VARIABLES.items()]
    assert [row for row in rows if row not in page] == []
    assert set(VARIABLES.values()) == set(ContextSettings.__struct_fields__)
