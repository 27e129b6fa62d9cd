"""Passages in the forms of the context library, which selects, orders and cites them."""

from __future__ import annotations

from ragstore_client import context
from ragstore_gateway.chat.prompt_passage import PromptPassage
from ragstore_gateway.engines.engine_collection import Passage, Vector
from ragstore_gateway.retrieval.source_names import SourceName


def library_passage(passage: Passage, id: str | None = None, embedding: Vector | None = None) -> context.Passage:
    """A passage as the library selects and orders it.

    Args:
        passage: a passage of a named base.
        id: its id in the result; its own id by default.
        embedding: a vector to compare with the vectors of other passages.
    """
    return context.Passage(
        id=passage.id if id is None else id,
        text=passage.text,
        metadata=dict(passage.metadata),
        similarity=passage.cosine,
        embedding=embedding,
        collection=passage.base,
    )


def prompt_passage(
    passage: Passage,
    number: int,
    *,
    address: str,
    base_id: str = "",
    index: int = 0,
    is_response: bool = False,
    is_further: bool = False,
) -> PromptPassage:
    """A passage as a prompt under headings has it. A reply may cite it by its number, by its base, or by its document.

    Args:
        passage: a passage of a named base.
        number: its number in the prompt.
        address: the address of the gateway that shows it; empty for none.
        base_id: id of its base; empty for the response of an HTTP call.
        index: its place among the passages of its base, from 1; 0 if the base has no others.
        is_response: whether it is the response of an HTTP call.
        is_further: whether a better passage has its number.
    """
    document = context.citation_of(library_passage(passage))
    name = SourceName.of(passage.metadata, passage.base)
    return PromptPassage(
        id=passage.id,
        text=passage.text,
        metadata={"url": document, **passage.metadata} if passage.metadata else {},
        similarity=None if is_response else passage.cosine,
        citation=f"{passage.base}#{index}" if index else passage.base,
        number=number,
        tokens=context.estimate_tokens(passage.text),
        collection=passage.base,
        title=name.title,
        base_id=base_id,
        url=name.url or address,
        is_response=is_response,
        is_further=is_further,
    )


def named(passage: context.ContextPassage, *, address: str, base_id: str, is_further: bool = False) -> PromptPassage:
    """A passage of a prompt with numbered sources, with its title and its address.

    Args:
        passage: the passage as the library has selected it.
        address: the address of the gateway that shows it.
        base_id: id of its base.
        is_further: whether a better passage has its number.
    """
    name = SourceName.of(passage.metadata, passage.citation)
    fields = {field: getattr(passage, field) for field in passage.__struct_fields__}
    return PromptPassage(**fields, title=name.title, base_id=base_id, url=name.url or address, is_further=is_further)
