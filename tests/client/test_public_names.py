"""Every public name can be inspected: `help`, signatures, type hints, and msgspec's decoding of the public structs."""

from __future__ import annotations

import importlib
import inspect
import pydoc
import typing
from collections.abc import Iterator

import msgspec
import pytest

from ragstore_client import Client, NewDocument

MODULES = (
    "ragstore_client",
    "ragstore_client.context",
    "ragstore_client.gateway",
    "ragstore_client.integrations.langchain",
    "ragstore_client.integrations.langgraph",
    "ragstore_client.integrations.llamaindex",
)
"""Tests import them: LangChain and LlamaIndex take more than a second of each process that collects tests."""


def public_members(module: str) -> Iterator[object]:
    """The exports of a module."""
    loaded = importlib.import_module(module)
    for name in loaded.__all__:
        yield getattr(loaded, name)


def functions(member: object) -> list[object]:
    """A function itself, or the public methods that a class defines in this package."""
    if not inspect.isclass(member):
        return [member] if inspect.isfunction(member) else []
    found = [value for name, value in inspect.getmembers(member, inspect.isfunction) if not name.startswith("_")]
    return [value for value in found if value.__module__.startswith("ragstore_client")]


@pytest.mark.parametrize("module", MODULES)
def test_a_public_name_can_be_inspected(module: str) -> None:
    for member in public_members(module):
        if inspect.isclass(member):
            typing.get_type_hints(member)
        if inspect.isclass(member) or inspect.isfunction(member):
            pydoc.render_doc(member)
        for function in functions(member):
            inspect.signature(function)  # type: ignore[arg-type]  # what functions() returns
            typing.get_type_hints(function)


@pytest.mark.parametrize("module", MODULES)
def test_the_signature_of_a_class_names_its_arguments(module: str) -> None:
    for member in public_members(module):
        if member is Client or (inspect.isclass(member) and issubclass(member, msgspec.Struct)):
            assert not {"args", "kwargs"} & inspect.signature(member).parameters.keys(), member


def test_a_document_is_decoded_from_json_and_converted_from_a_row() -> None:
    expected = NewDocument(id="a", text="x", embedding=[1.0, 2.0], metadata={"n": 1})
    row = {"id": "a", "text": "x", "embedding": [1.0, 2.0], "metadata": {"n": 1}}
    assert msgspec.convert(row, NewDocument) == expected
    assert msgspec.json.decode(msgspec.json.encode(row), type=NewDocument) == expected


def test_a_document_and_a_client_are_shown_in_few_words() -> None:
    document = NewDocument(id="a", text="secret " * 99, embedding=[1.0] * 768)
    assert repr(document) == "NewDocument(id='a', text=<693 characters>, metadata=None)"
    with Client("http://user:secret@localhost:1") as client:
        assert repr(client) == "Client('http://localhost:1')"
        assert repr(client.collection("abc")) == "CollectionHandle('abc')"
