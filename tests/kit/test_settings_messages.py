"""The messages about wrong settings, in the words of people who set variables."""

from __future__ import annotations

import pytest

from ragstore.kit.settings import ServerSettings, SettingsError, load


@pytest.mark.parametrize(
    ("field", "text", "message"),
    [
        ("PORT", "eighty", "X_PORT is wrong: it must be a whole number"),
        ("REQUEST_TIMEOUT_SECONDS", "soon", "X_REQUEST_TIMEOUT_SECONDS is wrong: it must be a number"),
        ("LOG_LEVEL", "loud", "X_LOG_LEVEL is wrong: it must be one of debug, info, warning, error"),
        ("ALLOW_OPEN", "maybe", "X_ALLOW_OPEN is wrong: it must be true or false"),
        ("PORT", "70000", "X_PORT is wrong: Expected `int` <= 65535"),
    ],
)
def test_the_message_about_a_wrong_value_names_the_right_ones(field: str, text: str, message: str) -> None:
    with pytest.raises(SettingsError) as raised:
        load(ServerSettings, "X_", {f"X_{field}": text})
    assert str(raised.value) == message


@pytest.mark.parametrize(
    ("text", "value"), [("yes", True), ("On", True), ("1", True), ("TRUE", True), ("no", False), ("off", False)]
)
def test_a_switch_takes_the_usual_words(text: str, value: bool) -> None:
    assert load(ServerSettings, "X_", {"X_ALLOW_OPEN": text}).allow_open is value
