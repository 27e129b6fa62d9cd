"""Settings of any service: a prefix, types, secrets by annotation."""

from __future__ import annotations

from typing import Annotated

import msgspec
import pytest

from ragstore.kit.settings import SECRET, SECRET_USERINFO, ServerSettings, SettingsError, load, shown, unknown
from scripts.settings_table import table


class Settings(ServerSettings, frozen=True, kw_only=True):
    """Settings of a test.

    Attributes:
        url: where the pot is.
        token: opens the pot.
        headers: open the pot, too.
        teas: what is in the pot.
        port: the port of tea.
    """

    url: Annotated[str, SECRET_USERINFO] = ""
    token: Annotated[str, SECRET, msgspec.Meta(min_length=3)] = ""
    headers: Annotated[dict[str, str], SECRET] = {}
    teas: tuple[str, ...] = ()
    port: int = 418


def test_fields_are_read_from_variables_with_the_prefix() -> None:
    settings = load(Settings, "TEA_", {"TEA_TEAS": '["green"]', "TEA_MAX_REQUESTS": "7", "RAGSTORE_PORT": "1"})
    assert (settings.teas, settings.max_requests, settings.port) == (("green",), 7, 418)


def test_secrets_are_masked_by_their_annotation() -> None:
    settings = Settings(url="http://u:hunter2@pot", token="hunter2", headers={"A": "hunter2"}, teas=("green",))
    values = shown(settings, "TEA_")
    assert "hunter2" not in str(values)
    assert (values["TEA_TOKEN"], values["TEA_HEADERS"], values["TEA_URL"]) == ("***", '{"A":"***"}', "http://***@pot")
    assert (values["TEA_TEAS"], values["TEA_PORT"]) == ("('green',)", "418")


def test_a_secret_that_is_not_set_is_shown_as_such() -> None:
    assert shown(Settings(), "TEA_")["TEA_TOKEN"] == ""


@pytest.mark.parametrize(("name", "value"), [("TEA_TEAS", "green"), ("TEA_PORT", "x"), ("TEA_TOKEN", "no")])
def test_a_value_that_is_not_valid_is_an_error_of_one_line(name: str, value: str) -> None:
    with pytest.raises(SettingsError, match=f"^{name} is wrong: [^\n]+$"):
        load(Settings, "TEA_", {name: value})


def test_unknown_variables_are_those_with_the_prefix_that_are_not_fields() -> None:
    environ = {"TEA_PROT": "1", "TEA_PORT": "1", "TEA_URL_OF_CLIENT": "1", "OTHER": "1"}
    assert unknown(Settings, "TEA_", ["TEA_URL_OF_CLIENT"], environ) == ["TEA_PROT"]


def test_a_table_describes_the_settings_of_any_service() -> None:
    rows = table(Settings, "TEA_").splitlines()
    assert "| `TEA_PORT` | `418` | the port of tea. |" in rows
    assert "| `TEA_TOKEN` |  | opens the pot. |" in rows
    assert any(row.startswith("| `TEA_LOG_LEVEL` | `info` |") for row in rows)
    assert len(rows) == 2 + len(Settings.__struct_fields__)
