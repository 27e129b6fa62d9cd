"""The roles that routes require."""

from __future__ import annotations

from typing import Any, Final

from ragstore.kit.auth.roles import requires

READER: Final[dict[str, Any]] = requires("reader")
WRITER: Final[dict[str, Any]] = requires("writer")
ADMIN: Final[dict[str, Any]] = requires("admin")
