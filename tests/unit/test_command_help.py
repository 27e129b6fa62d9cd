"""`--help` of both commands."""

from __future__ import annotations

import click
import pytest
from click.testing import CliRunner

from ragstore import cli
from ragstore_gateway.commands import cli as gateway_cli


@pytest.mark.parametrize("command", [cli.main, gateway_cli.main], ids=["ragstore", "ragstore-gateway"])
def test_no_summary_of_a_command_is_cut(command: click.Command) -> None:
    printed = CliRunner().invoke(command, ["--help"], terminal_width=80).output
    summaries = printed.partition("Commands:\n")[2].splitlines()
    assert summaries
    assert not [line for line in summaries if line.endswith("...")]
