"""A model server with OpenAI's API and no model: it quotes the sentence that shares the most words with the question.

    python examples/extractive_model.py --port 8099

It lets you try the gateway's `rag/` models without a model: RAGSTORE_GATEWAY_UPSTREAM_URL=http://127.0.0.1:8099/v1.
"""

from __future__ import annotations

import argparse
import json
import re
import time
from collections.abc import AsyncIterator
from http import HTTPStatus
from typing import Annotated, Any
from uuid import uuid4

import msgspec
import uvicorn
from litestar import Litestar, Request, Response, get, post
from litestar.exceptions import ClientException, HTTPException
from litestar.response import Stream
from msgspec import Meta, Struct

MODEL = "extractive"
SOURCE = re.compile(
    r"^(?:Source )?\[(\d+)\] [^\n]+\n(.*?)(?=^(?:Source )?\[\d+\]|^Sources:|^#{2,3} (?:Source|Search)|^Cite |\Z)",
    re.MULTILINE | re.DOTALL,
)
LETTERS = 4
SENTENCE = re.compile(r"[A-Z][^.!?\n]+[.!?]")


def words_of(text: str) -> set[str]:
    """The first letters of the words of a text, so that "roofs" is "roof"."""
    return {word[:LETTERS] for word in re.findall(r"\w+", text.lower()) if len(word) >= LETTERS}


def reply_to(prompt: str) -> str:
    """The sentence of a source that shares the most words with the question, with its number; or that there is none."""
    question = words_of(SOURCE.sub(" ", prompt))
    sentences = [(sentence, number) for number, text in SOURCE.findall(prompt) for sentence in SENTENCE.findall(text)]
    if not sentences:
        return "There is no source for that."
    sentence, number = max(sentences, key=lambda each: len(words_of(each[0]) & question))
    return f"{sentence} [{number}]"


def object_of(kind: str, choice: dict[str, Any]) -> dict[str, Any]:
    """A completion, or a chunk of one."""
    return {
        "id": f"chatcmpl-{uuid4().hex}",
        "object": kind,
        "created": int(time.time()),
        "model": MODEL,
        "choices": [{"index": 0, **choice}],
    }


class Message(Struct):
    """A message of a chat. Only its texts are read."""

    role: str
    content: object = None


class ChatRequest(Struct):
    """A request for a completion. Other fields are ignored."""

    model: str
    messages: Annotated[list[Message], Meta(min_length=1)]
    stream: bool | None = False


def text_of(content: object) -> str:
    """The text of a message: its content, or the texts of its parts."""
    parts = content if isinstance(content, list) else [{"text": content}]
    texts = [part.get("text") for part in parts if isinstance(part, dict)]
    return "\n".join(text for text in texts if isinstance(text, str))


def prompt_of(messages: list[Message]) -> str:
    """The question and the passages, which are in the last message of the user or in the first system message."""
    questions = [each for each in messages if each.role == "user"][-1:]
    return "\n".join(text_of(each.content) for each in (*questions, messages[0]))


@get("/v1/models", sync_to_thread=False)
def models() -> dict[str, Any]:
    """The one model."""
    return {"object": "list", "data": [{"id": MODEL, "object": "model", "created": 0, "owned_by": "examples"}]}


@get("/v1/chat/completions", sync_to_thread=False)
def stored() -> dict[str, Any]:
    """No completions are stored."""
    return {"object": "list", "data": []}


@post("/v1/chat/completions", status_code=200)
async def complete(request: Request[Any, Any, Any]) -> Response[Any]:
    """Complete a chat."""
    try:
        data = msgspec.json.decode(await request.body(), type=ChatRequest)
    except (msgspec.MsgspecError, UnicodeError) as error:
        raise ClientException(str(error)) from None
    reply = reply_to(prompt_of(data.messages))
    if data.stream:
        return Stream(chunks(reply), media_type="text/event-stream")
    choice = {"message": {"role": "assistant", "content": reply}, "finish_reason": "stop"}
    return Response(object_of("chat.completion", choice))


async def chunks(reply: str) -> AsyncIterator[str]:
    """A reply as a stream of its words."""
    deltas: list[dict[str, Any]] = [{"delta": {"content": word}} for word in re.findall(r"\S+\s*", reply)]
    for choice in [*deltas, {"delta": {}, "finish_reason": "stop"}]:
        yield f"data: {json.dumps(object_of('chat.completion.chunk', choice))}\n\n"
    yield "data: [DONE]\n\n"


def error_of(_: Request[Any, Any, Any], error: HTTPException) -> Response[Any]:
    """An error in OpenAI's shape."""
    kind = "invalid_request_error" if error.status_code < HTTPStatus.INTERNAL_SERVER_ERROR else "server_error"
    body = {"error": {"message": error.detail, "type": kind, "param": None, "code": None}}
    return Response(body, status_code=error.status_code)


def main() -> None:
    """Serve until a signal stops the process."""
    parser = argparse.ArgumentParser(description=main.__doc__)
    parser.add_argument("--host", default="127.0.0.1")
    parser.add_argument("--port", type=int, default=8099)
    app = Litestar([models, stored, complete], exception_handlers={HTTPException: error_of})
    options = parser.parse_args()
    uvicorn.run(app, host=options.host, port=options.port, log_level="warning")


if __name__ == "__main__":
    main()
