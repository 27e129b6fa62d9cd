"""`FileSearch`: the tool `file_search`, over the vector stores of the gateway."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from msgspec import Raw

from ragstore.kit.auth.name_patterns import NamePatterns
from ragstore_client.context import estimate_tokens
from ragstore_gateway.api.request_variables import RequestVariables
from ragstore_gateway.chat.conversation import Conversation
from ragstore_gateway.chat.prompt_passage import PromptPassage
from ragstore_gateway.configurations.configurations import Configurations
from ragstore_gateway.configurations.hidden_bases import is_visible
from ragstore_gateway.configurations.knowledge_base import KnowledgeBase
from ragstore_gateway.engines.engine_collection import DOCUMENT_NAME_KEY
from ragstore_gateway.errors import ConfigurationNotFound
from ragstore_gateway.openai_vector_stores.schemas import VectorStoreSearch
from ragstore_gateway.openai_vector_stores.search import DEFAULT_RESULTS, StoreSearch
from ragstore_gateway.responses.objects import FileSearchResult
from ragstore_gateway.responses.request import FileSearchTool
from ragstore_gateway.retrieval.assistant import EMPTY_CONTEXT
from ragstore_gateway.retrieval.context import CITE_INSTRUCTION
from ragstore_gateway.retrieval.source_prompt import NAMED

NO_MATCH: Final = "no_match"


@dataclass(frozen=True, slots=True)
class FoundFiles:
    """The result of a search.

    Attributes:
        question: what was searched for.
        results: the passages, the best one first.
        passages: the same passages as the prompt has them, as far as there is room.
    """

    question: str
    results: Sequence[FileSearchResult]
    passages: Sequence[PromptPassage]

    def messages(self, conversation: Conversation) -> Raw:
        """The messages of a chat with the passages as numbered sources.

        Args:
            conversation: the messages of the caller.
        """
        if not self.passages:
            return conversation.with_system(EMPTY_CONTEXT[NO_MATCH], keep_history=True)
        text = NAMED.text(conversation.question, self.passages)
        return conversation.augmented(CITE_INSTRUCTION, text, keep_history=True)


class FileSearch:
    """Searches vector stores for a response.

    Args:
        bases: the knowledge bases, which are the vector stores.
        search: searches one of them.
        token_budget: maximum number of tokens of the passages of a prompt.
    """

    def __init__(self, bases: Configurations[KnowledgeBase], search: StoreSearch, token_budget: int) -> None:
        self._bases = bases
        self._search = search
        self._token_budget = token_budget

    async def find(
        self, tool: FileSearchTool, question: str, visible: NamePatterns, variables: RequestVariables
    ) -> FoundFiles:
        """Search the vector stores that a tool names.

        Args:
            visible: names of the knowledge bases that exist for the caller.
            variables: the variables of the request.

        Raises:
            ConfigurationNotFound: a vector store does not exist for the caller.
            InvalidRequest: the filter is not valid.
            ServiceError: a search failed.
        """
        ids = list(dict.fromkeys(tool.vector_store_ids))
        for id in ids:
            await self._check(id, visible)
        limit = tool.max_num_results or DEFAULT_RESULTS
        body = VectorStoreSearch(question, tool.filters, limit, tool.ranking_options)
        pages = await asyncio.gather(*(self._search.search(id, body, variables) for id in ids))
        results = [
            FileSearchResult(each.file_id, each.filename, each.score, each.content[0].text, dict(each.attributes))
            for page in pages
            for each in page.data
        ]
        # The results of one store keep their order: their scores are only the part of the vectors.
        best = results[:limit] if len(ids) == 1 else sorted(results, key=lambda each: -each.score)[:limit]
        return FoundFiles(question, best, self._fitting(best))

    async def _check(self, id: str, visible: NamePatterns) -> None:
        name = await self._bases.name_of(id)
        if name is None or not is_visible(id, name, visible):
            raise ConfigurationNotFound(f"There is no vector store {id[:100]}")

    def _fitting(self, results: Sequence[FileSearchResult]) -> list[PromptPassage]:
        passages: list[PromptPassage] = []
        left = self._token_budget
        for number, each in enumerate(results, 1):
            tokens = estimate_tokens(each.text)
            left -= tokens
            if left < 0:
                break
            passages.append(
                PromptPassage(
                    id=str(number),
                    text=each.text,
                    metadata={DOCUMENT_NAME_KEY: each.filename},
                    citation=each.filename,
                    number=number,
                    tokens=tokens,
                    title=each.filename,
                )
            )
        return passages
