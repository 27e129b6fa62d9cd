"""Public names of a package that are loaded on first use."""

import sys
from collections.abc import Callable, Mapping
from importlib import import_module


def lazy_names(package: str, modules: Mapping[str, str]) -> tuple[Callable[[str], object], Callable[[], list[str]]]:
    """The `__getattr__` and the `__dir__` of a package.

    Args:
        modules: the names that each module defines, separated by spaces.
    """
    module_of = {name: module for module, names in modules.items() for name in names.split()}
    namespace = vars(sys.modules[package])

    def load(name: str) -> object:
        if name not in module_of:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        value = namespace[name] = getattr(import_module(module_of[name]), name)
        return value

    return load, lambda: sorted(namespace["__all__"])
