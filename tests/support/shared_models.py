"""The built-in models of embeddings are loaded once in a process of tests, and not for each test with a gateway."""

from __future__ import annotations

from dataclasses import replace
from functools import cache
from typing import cast

from ragstore_gateway.embeddings.builtin import MODELS, BuiltinModel


def share_builtin_models() -> None:
    """Let all gateways of this process use the same models. The smallest one takes 0.1 s to load."""
    models = cast("dict[str, BuiltinModel]", MODELS)
    models |= {name: replace(model, create=cache(model.create)) for name, model in models.items()}
