"""The settings: each variable, what it takes, and what is said when it is wrong."""

from __future__ import annotations

from pathlib import Path

import msgspec
import pytest

from ragstore.kit.settings import SettingsError, without_userinfo
from ragstore.settings import Settings, load, shown, unknown, variable

GOOD: dict[str, list[tuple[str, object]]] = {
    "host": [("0.0.0.0", "0.0.0.0"), ("::1", "::1")],
    "port": [("0", 0), ("65535", 65535)],
    "data_path": [("/somewhere/else", "/somewhere/else")],
    "reserved_prefixes": [("kb_,eval-", "kb_,eval-"), ("none", "none")],
    "chroma_url": [("http://chroma:8000", "http://chroma:8000"), ("https://u:p@h/path", "https://u:p@h/path")],
    "chroma_tenant": [("tenant", "tenant")],
    "chroma_database": [("database", "database")],
    "chroma_token": [("secret", "secret"), ("123", "123")],
    "chroma_headers": [('{"X-A": "b"}', {"X-A": "b"}), ("{}", {})],
    "chroma_ca_file": [(__file__, __file__)],
    "chroma_timeout_seconds": [("0.5", 0.5), ("10", 10.0)],
    "chroma_connections": [("1", 1)],
    "request_timeout_seconds": [("0.5", 0.5), ("10", 10.0)],
    "max_requests": [("1", 1)],
    "max_body_bytes": [("1", 1)],
    "max_small_body_bytes": [("1", 1)],
    "max_bytes_in_flight": [("0", 0), ("1", 1)],
    "chroma_quotas": [('{"read": 300, "predicates": 8}', {"read": 300, "predicates": 8}), ("{}", {})],
    "max_batch_size": [("1000", 1000)],
    "sync_threshold": [("200", 200), ("3", 3)],
    "coalescing": [("false", False), ("true", True), ("0", False), ("1", True)],
    "planning": [("false", False), ("true", True)],
    "max_collections": [("1", 1), ("20000", 20_000)],
    "embedded_memory_bytes": [("0", 0), ("1073741824", 1_073_741_824)],
    "index_sample_every": [("0", 0), ("500", 500)],
    "queued_writes": [("1", 1)],
    "queued_bytes": [("1", 1)],
    "keys_file": [("/run/secrets/keys", "/run/secrets/keys")],
    "allow_open": [("true", True), ("false", False)],
    "ui": [("true", True), ("false", False)],
    "cors_origins": [(text, text) for text in ("https://app.example", "http://localhost:3000, http://[::1]:3000")],
    "rate_limit": [("0", 0), ("600", 600)],
    "shutdown_seconds": [("1", 1)],
    "drain_seconds": [("0", 0.0), ("2.5", 2.5)],
    "log_level": [("debug", "debug"), ("info", "info"), ("warning", "warning"), ("error", "error")],
    "log_format": [("auto", "auto"), ("json", "json"), ("console", "console")],
}

BAD: list[tuple[str, str]] = [
    ("port", "-1"),
    ("port", "65536"),
    ("port", "http"),
    ("port", "80.5"),
    ("reserved_prefixes", "kb"),
    ("reserved_prefixes", "kb_,,x_"),
    ("reserved_prefixes", "*"),
    ("chroma_url", "chroma:8000"),
    ("chroma_url", "ftp://chroma"),
    ("chroma_url", "http://"),
    ("chroma_url", "http://chroma:99999"),
    ("chroma_url", "http://[::1"),
    ("chroma_quotas", '{"reads": 300}'),
    ("chroma_quotas", '{"read": 0}'),
    ("chroma_headers", "X-A: b"),
    ("chroma_headers", '["X-A"]'),
    ("chroma_headers", '{"X-A": 1}'),
    ("chroma_headers", '{"X-A": "b\\nX-B: c"}'),
    ("chroma_headers", '{"X-A\\r": "b"}'),
    ("chroma_ca_file", "/no/such/file"),
    ("chroma_timeout_seconds", "0"),
    ("chroma_timeout_seconds", "-1"),
    ("chroma_timeout_seconds", "soon"),
    ("chroma_connections", "0"),
    ("request_timeout_seconds", "0"),
    ("max_requests", "0"),
    ("max_body_bytes", "0"),
    ("max_small_body_bytes", "0"),
    ("max_bytes_in_flight", "-1"),
    ("max_batch_size", "0"),
    ("sync_threshold", "2"),
    ("coalescing", "perhaps"),
    ("queued_writes", "0"),
    ("queued_bytes", "-5"),
    ("allow_open", "perhaps"),
    ("cors_origins", "*"),
    ("cors_origins", "app.example"),
    ("cors_origins", "https://app.example/"),
    ("rate_limit", "-1"),
    ("shutdown_seconds", "0"),
    ("drain_seconds", "-1"),
    ("log_level", "loud"),
    ("log_format", "xml"),
]


def test_every_setting_is_tried() -> None:
    assert set(GOOD) == set(Settings.__struct_fields__)


@pytest.mark.parametrize(
    ("field", "text", "value"), [(field, text, value) for field, tries in GOOD.items() for text, value in tries]
)
def test_a_variable_sets_its_field(field: str, text: str, value: object) -> None:
    settings = load({f"RAGSTORE_{field.upper()}": text})
    assert getattr(settings, field) == value
    assert type(getattr(settings, field)) is type(value)
    others = {name for name in Settings.__struct_fields__ if name != field}
    assert all(getattr(settings, name) == getattr(Settings(), name) for name in others)


@pytest.mark.parametrize(("field", "text"), BAD)
def test_a_wrong_value_is_told_in_one_line_that_names_the_variable(field: str, text: str) -> None:
    with pytest.raises(SettingsError) as refused:
        load({f"RAGSTORE_{field.upper()}": text})
    message = str(refused.value)
    assert message.startswith(f"RAGSTORE_{field.upper()} is wrong: ")
    assert "\n" not in message


def test_a_wrong_secret_is_not_repeated() -> None:
    with pytest.raises(SettingsError) as refused:
        load({"RAGSTORE_CHROMA_HEADERS": '{"Authorization": "hunter2\\n"}'})
    assert "hunter2" not in str(refused.value)


@pytest.mark.parametrize("field", Settings.__struct_fields__)
def test_an_empty_variable_counts_as_not_set(field: str) -> None:
    assert load({variable(field): ""}) == Settings()


def test_nothing_set_means_embedded_chroma_on_this_machine_alone() -> None:
    settings = load({})
    assert (settings.store, settings.host, settings.port, settings.data_path) == (
        "embedded",
        "127.0.0.1",
        8080,
        "./data",
    )


def test_a_url_means_a_chroma_server() -> None:
    assert load({"RAGSTORE_CHROMA_URL": "http://chroma:8000"}).store == "remote"


def test_the_processs_own_variables_are_read(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RAGSTORE_PORT", "1234")
    assert load().port == 1234


def test_settings_cannot_be_changed() -> None:
    with pytest.raises(AttributeError):
        Settings().port = 1  # type: ignore[misc]


def test_variables_that_are_no_settings_are_named_and_do_no_harm() -> None:
    environ = {"RAGSTORE_PROT": "1", "RAGSTORE_SERVICE_HOST": "10.0.0.1", "PATH": "/bin", "RAGSTORE_PORT": "1"}
    assert unknown(environ) == ["RAGSTORE_PROT", "RAGSTORE_SERVICE_HOST"]
    assert load(environ).port == 1


def test_what_is_shown_names_every_variable() -> None:
    assert set(shown(Settings())) == {variable(field) for field in Settings.__struct_fields__}


def test_what_is_shown_holds_no_secret() -> None:
    settings = Settings(
        chroma_url="https://user:hunter2@chroma:8000/api",
        chroma_token="hunter2",
        chroma_headers={"Authorization": "hunter2", "X-B": "hunter2"},
    )
    found = shown(settings)
    assert "hunter2" not in msgspec.json.encode(found).decode()
    assert found["RAGSTORE_CHROMA_TOKEN"] == "***"
    assert found["RAGSTORE_CHROMA_HEADERS"] == '{"Authorization":"***","X-B":"***"}'
    assert found["RAGSTORE_CHROMA_URL"] == "https://***@chroma:8000/api"


@pytest.mark.parametrize(
    ("url", "redacted"),
    [
        ("http://chroma:8000", "http://chroma:8000"),
        ("", ""),
        ("http://token@chroma", "http://***@chroma"),
        ("http://a:b@c:d@chroma/x?y=1", "http://***@chroma/x?y=1"),
    ],
)
def test_a_url_is_shown_without_its_password(url: str, redacted: str) -> None:
    assert without_userinfo(url) == redacted


def test_a_folder_is_no_file_of_authorities(tmp_path: Path) -> None:
    with pytest.raises(SettingsError, match="RAGSTORE_CHROMA_CA_FILE is wrong"):
        load({"RAGSTORE_CHROMA_CA_FILE": str(tmp_path)})
