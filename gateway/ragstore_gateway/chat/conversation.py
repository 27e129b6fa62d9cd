"""The messages of a chat request: the question in them, and how context is added."""

from __future__ import annotations

from collections.abc import Generator, Sequence
from dataclasses import dataclass
from typing import Final, TypeAlias

import msgspec
from msgspec import Raw, Struct

from ragstore.kit.time_slices import run_whole
from ragstore_gateway.chat.body import UNREADABLE, encode_raw, write_list
from ragstore_gateway.chat.json_text import beginning, inner, inner_bytes, is_list, is_text

MAX_QUESTION_BYTES: Final = 64 * 1024
"""Maximum size of a question, as UTF-8. A longer text is searched by its beginning, and the upstream gets all of it."""


MAX_EARLIER_CHARACTERS: Final = 4000
"""Maximum number of characters of the messages before a question that are searched for together with it."""


class _MessageHead(Struct, frozen=True):
    role: str = ""
    content: Raw = Raw(b"null")


class _PartHead(Struct, frozen=True):
    type: str = ""
    text: Raw = Raw(b"null")


_MESSAGES: Final = msgspec.json.Decoder(list[Raw])
_HEAD: Final = msgspec.json.Decoder(_MessageHead)
_PART: Final = msgspec.json.Decoder(_PartHead)
_FIELDS: Final = msgspec.json.Decoder(dict[str, Raw])


Piece: TypeAlias = bytes | memoryview | Raw
"""A piece of JSON that is not copied until all are joined."""


@dataclass(frozen=True, slots=True)
class Conversation:
    """The messages of a request whose last user message has a text.

    Attributes:
        question: the text of the last user message; its text parts on separate lines if its content is a list. Of a
            text of more than `MAX_QUESTION_BYTES`, the beginning.
        before: the messages before it, as the caller sent them.
        after: the messages after it, such as the results of tools.
        message: the fields of the last user message.
        other_parts: the parts of its content that are not text, such as images.
        whole: the whole text as JSON without quotes, if the question is its beginning; else empty.
        earlier: the texts of the user messages before it, the oldest one first: the latest ones that have
            `MAX_EARLIER_CHARACTERS` together.
    """

    question: str
    before: Sequence[Raw]
    after: Sequence[Raw]
    message: dict[str, Raw]
    other_parts: Sequence[Raw]
    whole: bytes | memoryview = b""
    earlier: Sequence[str] = ()

    def augmented(self, system: str, text: str, *, keep_history: bool) -> Raw:
        """The messages with context.

        Args:
            system: the system message; empty for none. It comes first; the caller's own follow it.
            text: the text of the last user message, with the context. The question in it stands for the whole text.
            keep_history: whether the earlier messages are kept. Messages after the question belong to its
                own turn, and are always kept.

        Returns:
            The messages; kept ones are byte-identical.
        """
        content = self._content(text)
        if self.other_parts:
            content = [b'[{"type":"text","text":', *content, b"}"]
            for part in self.other_parts:
                content += [b",", part]
            content.append(b"]")
        return self._messages(system, content, keep_history=keep_history)

    def with_system(self, system: str, *, keep_history: bool) -> Raw:
        """The messages with a system message, and with the question unchanged.

        Args:
            system: the system message. It comes first; the caller's own follow it.
            keep_history: whether the earlier messages are kept.
        """
        return self._messages(system, [self.message["content"]], keep_history=keep_history)

    def _content(self, text: str) -> list[Piece]:
        """A text as JSON, in pieces, with the whole text in place of a question that is its beginning."""
        if not self.whole:
            return [encode_raw(text)]
        before, _, after = text.partition(self.question)
        return [b'"', inner_bytes(before), self.whole, inner_bytes(after), b'"']

    def _messages(self, system: str, content: Sequence[Piece], *, keep_history: bool) -> Raw:
        """All messages, the last user message with another content. They are copied once."""
        before = [*([_system(system)] if system else ()), *(self.before if keep_history else ())]
        pieces: list[Piece] = [b"["]
        for message in before:
            pieces += [message, b","]
        pieces.append(b"{")
        for number, (name, value) in enumerate(self.message.items()):
            pieces += [b"," if number else b"", encode_raw(name), b":"]
            pieces += content if name == "content" else [value]
        pieces.append(b"}")
        for message in self.after:
            pieces += [b",", message]
        return Raw(b"".join([*pieces, b"]"]))


def with_system(messages: Raw | None, system: str) -> Raw | None:
    """Messages without a question, with a system message before them.

    Args:
        messages: the field `messages`.
        system: the system message.

    Returns:
        The messages; None if they are not a list.
    """
    try:
        return write_list([_system(system), *_MESSAGES.decode(messages or b"[]")])
    except UNREADABLE:
        return None


def _system(text: str) -> Raw:
    return encode_raw({"role": "system", "content": text})


def read_conversation(messages: Raw | None) -> Generator[None, None, Conversation | None]:
    """Find the question in the messages of a request, in steps.

    Args:
        messages: the field `messages`.

    Returns:
        The conversation; None if no user message has a text, or the messages are not a list of messages. Of a text that
        is longer than a question may be, the beginning counts.
    """
    try:
        given = _MESSAGES.decode(messages or b"[]")
        yield
        of_user: list[int] = []
        for index, message in enumerate(given):
            # Every message must be one, also those before the question.
            if _HEAD.decode(message).role == "user":
                of_user.append(index)
            yield
        if not of_user:
            return None
        last = of_user.pop()
        fields = _FIELDS.decode(given[last])
        yield
        texts, others = yield from _content(fields.get("content", Raw(b"null")))
        whole = texts[0] if len(texts) == 1 else memoryview(b"\\n".join(texts))
        yield
        question = beginning(whole, MAX_QUESTION_BYTES)
        earlier = yield from _earlier([given[index] for index in of_user])
    except UNREADABLE:
        return None
    if not question.strip():
        return None
    is_cut = len(whole) > MAX_QUESTION_BYTES
    return Conversation(question, given[:last], given[last + 1 :], fields, others, whole if is_cut else b"", earlier)


def transcript(conversation: Conversation, max_characters: int, max_message: int) -> str:
    """The end of a conversation as a text, with the question at its end. Messages of tools and systems are left out.

    Args:
        max_characters: maximum number of characters of the messages before the question.
        max_message: maximum number of characters of each of them, from its beginning.
    """
    lines: list[str] = []
    left = max_characters
    for message in reversed(conversation.before):
        head = _HEAD.decode(message)
        if head.role not in ("user", "assistant"):
            continue
        texts, _ = run_whole(_content(head.content))
        text = "\n".join(beginning(each, max_message) for each in texts)[:max_message].strip()
        left -= len(text)
        if left < 0:
            break
        if text:
            lines.append(f"{head.role}: {text}")
    return "\n".join([*reversed(lines), f"user: {conversation.question}"])


def _earlier(messages: Sequence[Raw]) -> Generator[None, None, list[str]]:
    """The texts of the latest messages, in steps. Of a long one, the beginning."""
    found: list[str] = []
    left = MAX_EARLIER_CHARACTERS
    for message in reversed(messages):
        texts, _ = yield from _content(_HEAD.decode(message).content)
        text = "\n".join(beginning(each, MAX_EARLIER_CHARACTERS) for each in texts)[:MAX_EARLIER_CHARACTERS]
        if text.strip():
            found.append(text)
            left -= len(text)
        yield
        if left <= 0:
            break
    return found[::-1]


def _content(content: Raw) -> Generator[None, None, tuple[list[memoryview], list[Raw]]]:
    """The texts of a message's content, as JSON without quotes, and its parts that are not text; in steps."""
    if is_text(content):
        return [inner(content)], []
    texts: list[memoryview] = []
    others: list[Raw] = []
    for part in _MESSAGES.decode(content) if is_list(content) else ():
        head = _PART.decode(part)
        if head.type == "text" and is_text(head.text):
            texts.append(inner(head.text))
        else:
            others.append(part)
        yield
    return texts, others
