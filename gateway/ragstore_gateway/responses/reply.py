"""`Reply`: the text of a reply with its citations, and a plain response made of a chat completion."""

from __future__ import annotations

from collections.abc import Generator, Sequence
from typing import Final

import msgspec
from msgspec import Struct

from ragstore_gateway.chat import metrics
from ragstore_gateway.chat.body import UNREADABLE
from ragstore_gateway.chat.citations import ResponseCitations
from ragstore_gateway.chat.prompt_passage import PromptPassage
from ragstore_gateway.errors import UpstreamFailed
from ragstore_gateway.responses.objects import (
    Annotation,
    FileCitation,
    FileSearchResult,
    FunctionCall,
    InputDetails,
    OutputDetails,
    OutputItem,
    OutputMessage,
    OutputText,
    Response,
    UrlCitation,
    Usage,
    ended,
    new_id,
)

_CHOICE: Final = 0


class ChatFunction(Struct, frozen=True):
    """A function in a chat completion, or a part of it in a stream."""

    name: str | None = None
    arguments: str | None = None


class ChatToolCall(Struct, frozen=True):
    """A call of a function in a chat completion, or a part of it in a stream."""

    index: int = 0
    id: str | None = None
    function: ChatFunction = ChatFunction()


class ChatMessage(Struct, frozen=True):
    """A message of a chat completion, or a part of it in a stream."""

    content: str | None = None
    tool_calls: list[ChatToolCall] | None = None


class ChatChoice(Struct, frozen=True):
    """A choice of a chat completion."""

    message: ChatMessage | None = None
    delta: ChatMessage | None = None
    finish_reason: str | None = None


class _PromptDetails(Struct, frozen=True):
    cached_tokens: int | None = None


class _CompletionDetails(Struct, frozen=True):
    reasoning_tokens: int | None = None


class ChatUsage(Struct, frozen=True):
    """The tokens of a chat completion."""

    prompt_tokens: int = 0
    completion_tokens: int = 0
    total_tokens: int | None = None
    prompt_tokens_details: _PromptDetails | None = None
    completion_tokens_details: _CompletionDetails | None = None


class ChatCompletion(Struct, frozen=True):
    """A chat completion, or a chunk of one."""

    choices: list[ChatChoice] = []
    usage: ChatUsage | None = None


_decode: Final = msgspec.json.Decoder(ChatCompletion).decode


class Reply:
    """The citations of a reply.

    Args:
        passages: the passages in the prompt.
        files: the results of a search of vector stores; the ids of their passages count them from 1.
        annotate: whether citations become annotations.
        list_sources: whether the reply ends with a list of the sources that it cites.
    """

    def __init__(
        self,
        passages: Sequence[PromptPassage],
        files: Sequence[FileSearchResult],
        *,
        annotate: bool,
        list_sources: bool,
    ) -> None:
        self._citations = ResponseCitations(passages) if passages else None
        self._files = {str(number): each for number, each in enumerate(files, 1)}
        self._annotate = annotate
        self._list_sources = list_sources

    def feed(self, text: str) -> Generator[None, None, None]:
        """Add text, in steps."""
        if self._citations is not None:
            yield from self._citations.feed(_CHOICE, text)

    def end(self) -> tuple[str, list[Annotation]]:
        """End the reply: a list of its sources, which may be empty, and its annotations."""
        if self._citations is None:
            return "", []
        found = self._citations.end(_CHOICE)
        metrics.INVENTED_CITATIONS.inc(sum(citation.invented for citation in found))
        listed = self._citations.source_list(found) if self._list_sources else ""
        if not self._annotate:
            return listed, []
        cited = [each.url_citation for each in self._citations.annotations(found)]
        return listed, [
            FileCitation(self._files[each.passage_id].file_id, self._files[each.passage_id].filename, each.start_index)
            if each.passage_id in self._files
            else UrlCitation(each.url, each.title, each.start_index, each.end_index, each.passage_id)
            for each in cited
        ]


def usage_of(usage: ChatUsage | None) -> Usage | None:
    """The tokens of a response.

    Args:
        usage: the tokens as the upstream says them.
    """
    if usage is None:
        return None
    total = usage.prompt_tokens + usage.completion_tokens
    cached, reasoning = usage.prompt_tokens_details, usage.completion_tokens_details
    return Usage(
        usage.prompt_tokens,
        usage.completion_tokens,
        total if usage.total_tokens is None else usage.total_tokens,
        InputDetails((0 if cached is None else cached.cached_tokens) or 0),
        OutputDetails((0 if reasoning is None else reasoning.reasoning_tokens) or 0),
    )


def plain_response(
    content: bytes, response: Response, before: Sequence[OutputItem], reply: Reply
) -> Generator[None, None, Response]:
    """A plain response, in steps.

    Args:
        content: the upstream's chat completion.
        response: the response that has begun.
        before: items before the reply.
        reply: finds its citations.

    Raises:
        UpstreamFailed: it is no chat completion.
    """
    yield
    try:
        completion = _decode(content)
        choice = completion.choices[0]
    except (*UNREADABLE, IndexError):
        raise UpstreamFailed("The model server's response is not a completion") from None
    message = choice.message or ChatMessage()
    output = list(before)
    if message.content:
        yield from reply.feed(message.content)
        listed, annotations = reply.end()
        text = OutputText(message.content + listed, annotations)
        output.append(OutputMessage(new_id("msg"), "completed", [text]))
    for call in message.tool_calls or ():
        function = call.function
        output.append(
            FunctionCall(new_id("fc"), call.id or "", function.name or "", function.arguments or "", "completed")
        )
    yield
    return ended(response, output, choice.finish_reason or "", usage_of(completion.usage))
