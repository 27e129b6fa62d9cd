"""The messages of a chat request: the question in them, and how context is added."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import msgspec
from msgspec import Raw, Struct

from ragstore_gateway.chat.body import UNREADABLE, encode_raw, write_fields


class _MessageHead(Struct, frozen=True):
    role: str = ""
    content: Raw = Raw(b"null")


class _PartHead(Struct, frozen=True):
    type: str = ""
    text: str | None = None


_MESSAGES: Final = msgspec.json.Decoder(list[Raw])
_HEAD: Final = msgspec.json.Decoder(_MessageHead)
_PART: Final = msgspec.json.Decoder(_PartHead)
_FIELDS: Final = msgspec.json.Decoder(dict[str, Raw])


@dataclass(frozen=True, slots=True)
class Conversation:
    """The messages of a request whose last user message has a text.

    Attributes:
        question: the text of the last user message; its text parts on separate lines if its content is a list.
        before: the messages before it, as the caller sent them.
        after: the messages after it, such as the results of tools.
        message: the fields of the last user message.
        other_parts: the parts of its content that are not text, such as images.
    """

    question: str
    before: Sequence[Raw]
    after: Sequence[Raw]
    message: dict[str, Raw]
    other_parts: Sequence[Raw]

    def augmented(self, system: str, text: str, *, keep_history: bool) -> Raw:
        """The messages with context.

        Args:
            system: the system message. It comes first; the caller's own follow it.
            text: the text of the last user message, with the context.
            keep_history: whether the earlier messages are kept. Those after the question belong to its own turn, and
                are always kept.

        Returns:
            The messages. Those that are kept have their own bytes.
        """
        parts = [encode_raw({"type": "text", "text": text}), *self.other_parts]
        message = {**self.message, "content": encode_raw(parts if self.other_parts else text)}
        own = _system(system)
        earlier = self.before if keep_history else []
        return encode_raw([own, *earlier, Raw(write_fields(message)), *self.after])

    def with_system(self, system: str, *, keep_history: bool) -> Raw:
        """The messages with a system message, and with the question unchanged.

        Args:
            system: the system message. It comes first; the caller's own follow it.
            keep_history: whether the earlier messages are kept.
        """
        earlier = self.before if keep_history else []
        return encode_raw([_system(system), *earlier, Raw(write_fields(self.message)), *self.after])


def with_system(messages: Raw | None, system: str) -> Raw | None:
    """Messages without a question, with a system message before them.

    Args:
        messages: the field `messages`.
        system: the system message.

    Returns:
        The messages; None if they are not a list.
    """
    try:
        return encode_raw([_system(system), *_MESSAGES.decode(messages or b"[]")])
    except UNREADABLE:
        return None


def _system(text: str) -> Raw:
    return encode_raw({"role": "system", "content": text})


def read_conversation(messages: Raw | None) -> Conversation | None:
    """Find the question in the messages of a request.

    Args:
        messages: the field `messages`.

    Returns:
        The conversation; None if no user message has a text, or the messages are not a list of messages.
    """
    try:
        given = _MESSAGES.decode(messages or b"[]")
        heads = [_HEAD.decode(message) for message in given]
        last = max((index for index, head in enumerate(heads) if head.role == "user"), default=None)
        if last is None:
            return None
        text, others = _content(heads[last].content)
        if not text.strip():
            return None
        fields = _FIELDS.decode(given[last])
    except UNREADABLE:
        return None
    return Conversation(text, given[:last], given[last + 1 :], fields, others)


def _content(content: Raw) -> tuple[str, list[Raw]]:
    """The text of a message's content, and its parts that are not text."""
    value: object = msgspec.json.decode(content)
    if isinstance(value, str):
        return value, []
    if not isinstance(value, list):
        return "", []
    texts: list[str] = []
    others: list[Raw] = []
    for part in _MESSAGES.decode(content):
        head = _PART.decode(part)
        if head.type == "text" and head.text is not None:
            texts.append(head.text)
        else:
            others.append(part)
    return "\n".join(texts), others
