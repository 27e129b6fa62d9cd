"""`ResponseStream`: the stream of a chat completion becomes the stream of a response, event by event."""

from __future__ import annotations

import re
from collections.abc import Generator, Sequence
from typing import Any, Final

import msgspec

from ragstore_gateway.chat.body import UNREADABLE
from ragstore_gateway.chat.event_frames import DONE, EventFrames, is_error
from ragstore_gateway.errors import UpstreamFailed
from ragstore_gateway.responses.objects import (
    FileSearchCall,
    FunctionCall,
    OutputItem,
    OutputMessage,
    OutputText,
    Response,
    Usage,
    ended,
    new_id,
)
from ragstore_gateway.responses.reply import ChatCompletion, ChatMessage, ChatToolCall, Reply, usage_of

_DATA: Final = re.compile(rb"^data:[ ]?([^\r\n]*)", re.MULTILINE)

_decode: Final = msgspec.json.Decoder(ChatCompletion).decode

TOO_LARGE: Final = "An event of the model server's stream is too large"


class ResponseStream:
    """Makes the events of a response, in the order of OpenAI's API.

    Args:
        response: the response that has begun.
        before: items before the reply.
        reply: finds its citations.

    Attributes:
        complete: whether the last event has been made.
        ended: the whole response; None before its end, and after an error.
    """

    def __init__(self, response: Response, before: Sequence[OutputItem], reply: Reply) -> None:
        self._response = response
        self._before = before
        self._reply = reply
        self._frames = EventFrames()
        self._number = 0
        self._output: list[OutputItem] = []
        self._message = ""
        self._text: list[str] = []
        self._call: FunctionCall | None = None
        self._arguments: list[str] = []
        self._call_index = -1
        self._finish: str | None = None
        self._usage: Usage | None = None
        self.complete = False
        self.ended: Response | None = None

    def begin(self) -> bytes:
        """The events before the reply."""
        events = [self._event("response.created", response=self._response)]
        events.append(self._event("response.in_progress", response=self._response))
        for item in self._before:
            events += self._searched_files(item) if isinstance(item, FileSearchCall) else []
            self._output.append(item)
        return b"".join(events)

    def feed(self, chunk: bytes) -> Generator[bytes, None, None]:
        """The events for a chunk of the upstream's stream. An event of it that is too large ends the response."""
        for event, _ in self._frames.feed(chunk):
            yield from self._changed(event)
        if self._frames.is_too_large:
            self._frames.take_rest()
            if not self.complete:
                self.complete = True
                yield self._event("error", code=UpstreamFailed.code, message=TOO_LARGE, param=None)

    def finish(self) -> Generator[bytes, None, None]:
        """The events after the last byte of the upstream."""
        if rest := self._frames.take_rest():
            yield from self._changed(rest)
        if self._finish is not None:
            yield from self._end()

    def _changed(self, event: bytes) -> Generator[bytes, None, None]:
        data = b"\n".join(_DATA.findall(event))
        if self.complete or not data.strip():
            return
        if data.strip() == DONE:
            if self._finish is not None or self._message or self._call is not None:
                yield from self._end()
            return
        if is_error(data):
            self.complete = True
            yield b"event: error\ndata: " + data.replace(b"\n", b"\ndata: ") + b"\n\n"
            return
        try:
            chunk = _decode(data)
        except UNREADABLE:
            return
        self._usage = usage_of(chunk.usage) or self._usage
        for choice in chunk.choices[:1]:
            yield from self._added(choice.delta or ChatMessage())
            self._finish = choice.finish_reason or self._finish

    def _added(self, delta: ChatMessage) -> Generator[bytes, None, None]:
        if delta.content:
            yield from self._closed_call()
            if not self._message:
                yield self._opened_message()
            yield from self._texts(delta.content)
        for part in delta.tool_calls or ():
            if self._call is None or part.index != self._call_index:
                yield from self._closed_message()
                yield from self._closed_call()
                yield self._opened_call(part)
            if part.function.arguments:
                self._arguments.append(part.function.arguments)
                yield self._of_call("response.function_call_arguments.delta", delta=part.function.arguments)

    def _opened_message(self) -> bytes:
        self._message = new_id("msg")
        item = OutputMessage(self._message, "in_progress")
        opened = self._event("response.output_item.added", output_index=len(self._output), item=item)
        return opened + self._of_text("response.content_part.added", part=OutputText(""))

    def _texts(self, text: str) -> Generator[bytes, None, None]:
        self._text.append(text)
        for _ in self._reply.feed(text):
            yield b""
        yield self._of_text("response.output_text.delta", delta=text, logprobs=[])

    def _closed_message(self) -> Generator[bytes, None, None]:
        if not self._message:
            return
        listed, annotations = self._reply.end()
        if listed:
            self._text.append(listed)
            yield self._of_text("response.output_text.delta", delta=listed, logprobs=[])
        for index, annotation in enumerate(annotations):
            yield self._of_text("response.output_text.annotation.added", annotation_index=index, annotation=annotation)
        part = OutputText("".join(self._text), annotations)
        yield self._of_text("response.output_text.done", text=part.text, logprobs=[])
        yield self._of_text("response.content_part.done", part=part)
        yield self._closed(OutputMessage(self._message, "completed", [part]))
        self._message = ""
        self._text = []

    def _opened_call(self, part: ChatToolCall) -> bytes:
        self._call = FunctionCall(new_id("fc"), part.id or "", part.function.name or "", "", "in_progress")
        self._call_index = part.index
        return self._event("response.output_item.added", output_index=len(self._output), item=self._call)

    def _closed_call(self) -> Generator[bytes, None, None]:
        if self._call is None:
            return
        arguments = "".join(self._arguments)
        yield self._of_call("response.function_call_arguments.done", arguments=arguments, name=self._call.name)
        yield self._closed(msgspec.structs.replace(self._call, arguments=arguments, status="completed"))
        self._call = None
        self._arguments = []

    def _closed(self, item: OutputItem) -> bytes:
        event = self._event("response.output_item.done", output_index=len(self._output), item=item)
        self._output.append(item)
        return event

    def _end(self) -> Generator[bytes, None, None]:
        """The last events."""
        if self.complete:
            return
        yield from self._closed_message()
        yield from self._closed_call()
        response = self.ended = ended(self._response, self._output, self._finish or "", self._usage)
        self.complete = True
        yield self._event(f"response.{response.status}", response=response)

    def _searched_files(self, item: FileSearchCall) -> list[bytes]:
        index = len(self._output)
        begun = msgspec.structs.replace(item, status="in_progress", results=None)
        states = ("in_progress", "searching", "completed")
        return [
            self._event("response.output_item.added", output_index=index, item=begun),
            *(
                self._event(f"response.file_search_call.{state}", output_index=index, item_id=item.id)
                for state in states
            ),
            self._event("response.output_item.done", output_index=index, item=item),
        ]

    def _of_text(self, type: str, **fields: Any) -> bytes:
        own = {"item_id": self._message, "output_index": len(self._output), "content_index": 0}
        return self._event(type, **own, **fields)

    def _of_call(self, type: str, **fields: Any) -> bytes:
        id = "" if self._call is None else self._call.id
        return self._event(type, item_id=id, output_index=len(self._output), **fields)

    def _event(self, type: str, **fields: Any) -> bytes:
        data = msgspec.json.encode({"type": type, "sequence_number": self._number, **fields})
        self._number += 1
        return f"event: {type}\ndata: ".encode() + data + b"\n\n"
