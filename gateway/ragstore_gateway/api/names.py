"""The maximum length of names that the gateway repeats."""

from __future__ import annotations

from typing import Final

MAX_NAME_CHARACTERS: Final = 256
"""Maximum length of the name of a model, a session or a user in a request. The gateway repeats names in responses, and
the name of a model in each event of a stream."""
