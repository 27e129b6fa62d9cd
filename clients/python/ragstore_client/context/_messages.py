"""Chat messages in OpenAI's form: `role`, and `content` as a string or as a list of parts."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TypeAlias, TypeGuard

Message: TypeAlias = Mapping[str, object]
"""A chat message."""

Part: TypeAlias = Mapping[str, object]
"""A part of a message's content: a text or an image."""


def split_question(history: Sequence[Message], question: str) -> tuple[list[dict[str, object]], list[Part]]:
    """Separate the question from a history that ends with it.

    Args:
        history: the messages of a chat, with or without the question as the last one.

    Returns:
        Copies of the messages before the question, and the parts of its message that are not text.
    """
    messages = [dict(message) for message in history]
    if not messages or messages[-1].get("role") != "user" or text_of(messages[-1]).strip() != question.strip():
        return messages, []
    content = messages.pop().get("content")
    return messages, [part for part in content if not _is_text(part)] if _is_parts(content) else []


def user_message(text: str, parts: Sequence[Part] = ()) -> dict[str, object]:
    """A user message with a text and, optionally, parts such as images."""
    return {"role": "user", "content": [{"type": "text", "text": text}, *parts] if parts else text}


def add_to_system(messages: Sequence[Message], text: str) -> list[dict[str, object]]:
    """Append a text to the system message, or add one.

    Many models accept a single system message only, as the first one.

    Args:
        messages: the messages, with or without a system message at the beginning.
        text: the text, after a blank line where there is a system message.

    Returns:
        The messages, which begin with a system message.
    """
    if not messages or messages[0].get("role") not in ("system", "developer"):
        return [{"role": "system", "content": text}, *map(dict, messages)]
    first, *others = messages
    content = first.get("content")
    extended: object
    if _is_parts(content):
        extended = [*content, {"type": "text", "text": text}]
    else:
        extended = f"{content}\n\n{text}" if content else text
    return [{**first, "content": extended}, *map(dict, others)]


def text_of(message: Message) -> str:
    """The text of a message: its content, or the texts among the parts of its content, on separate lines."""
    content = message.get("content")
    if _is_parts(content):
        return "\n".join(str(part["text"]) for part in content if _is_text(part))
    return content if isinstance(content, str) else ""


def _is_parts(content: object) -> TypeGuard[list[Part]]:
    return isinstance(content, list) and all(isinstance(part, Mapping) for part in content)


def _is_text(part: Part) -> bool:
    return part.get("type") == "text" and isinstance(part.get("text"), str)
