"""Commands that name the replacement of an option of an earlier version."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import click


class CommandWithReplacements(click.Command):
    """A command some of whose earlier options have a replacement.

    Args:
        replacements: what to do instead, by the name of the earlier option.
    """

    def __init__(self, *args: Any, replacements: Mapping[str, str], **kwargs: Any) -> None:  # click's own arguments
        super().__init__(*args, **kwargs)
        self._replacements = replacements

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Read the arguments.

        Raises:
            click.UsageError: they are wrong.
        """
        try:
            return super().parse_args(ctx, args)
        except click.NoSuchOption as error:
            replacement = self._replacements.get(error.option_name)
            if replacement is None:
                raise
            raise click.UsageError(f"No such option: {error.option_name}; {replacement}", ctx) from None
