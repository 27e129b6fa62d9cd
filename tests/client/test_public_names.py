"""Every public name can be inspected: `help`, signatures, type hints, and msgspec's decoding of the public structs."""

from __future__ import annotations

import inspect
import pydoc
import typing
from types import ModuleType

import msgspec
import pytest

import ragstore_client
import ragstore_client.context
import ragstore_client.gateway
import ragstore_client.integrations.langchain
import ragstore_client.integrations.langgraph
import ragstore_client.integrations.llamaindex
from ragstore_client import Client, NewDocument

MODULES = (
    ragstore_client,
    ragstore_client.context,
    ragstore_client.gateway,
    ragstore_client.integrations.langchain,
    ragstore_client.integrations.langgraph,
    ragstore_client.integrations.llamaindex,
)
NAMES = [(module, name) for module in MODULES for name in module.__all__]


def functions(member: object) -> list[object]:
    """A function itself, or the public methods that a class defines in this package."""
    if not inspect.isclass(member):
        return [member] if inspect.isfunction(member) else []
    found = [value for name, value in inspect.getmembers(member, inspect.isfunction) if not name.startswith("_")]
    return [value for value in found if value.__module__.startswith("ragstore_client")]


@pytest.mark.parametrize(("module", "name"), NAMES, ids=[f"{module.__name__}.{name}" for module, name in NAMES])
def test_a_public_name_can_be_inspected(module: ModuleType, name: str) -> None:
    member = getattr(module, name)
    if inspect.isclass(member):
        typing.get_type_hints(member)
    if inspect.isclass(member) or inspect.isfunction(member):
        pydoc.render_doc(member)
    for function in functions(member):
        inspect.signature(function)  # type: ignore[arg-type]  # what functions() returns
        typing.get_type_hints(function)


STRUCTS = [
    member
    for module, name in NAMES
    if inspect.isclass(member := getattr(module, name)) and issubclass(member, msgspec.Struct)
]


@pytest.mark.parametrize("struct", [Client, *STRUCTS], ids=lambda struct: struct.__name__)
def test_the_signature_of_a_class_names_its_arguments(struct: type) -> None:
    assert not {"args", "kwargs"} & inspect.signature(struct).parameters.keys()


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
