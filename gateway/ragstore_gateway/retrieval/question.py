"""`Question`: the texts of a conversation that knowledge bases are searched for."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from ragstore_gateway.chat.conversation import MAX_EARLIER_CHARACTERS, Conversation
from ragstore_gateway.keywords.words import words

SMALL_TALK: Final = frozenset(
    (
        "bye",
        "cheers",
        "danke",
        "goodbye",
        "gracias",
        "hallo",
        "hello",
        "hey",
        "hi",
        "merci",
        "ok",
        "okay",
        "thank",
        "thanks",
        "thx",
        "tschuess",
        "tschuss",
        "you",
    )
)
"""Words of messages that are no question. A message that has only these is not searched for."""

MAX_SHORT: Final = 9
"""Maximum number of characters of a short question, which needs a passage above `MIN_COSINE` (source: the chat context
library, `RAG_MIN_QUESTION_CHARS`)."""

MIN_COSINE: Final = 0.2


@dataclass(frozen=True, slots=True)
class Question:
    """A question, and what was said before it.

    Attributes:
        text: the last message of the user.
        earlier: the earlier messages of the user, the oldest one first.
        rewritten: the question that a model has made of them; empty for none.
    """

    text: str
    earlier: Sequence[str] = ()
    rewritten: str = ""

    @classmethod
    def of(cls, conversation: Conversation, query: str) -> Question:
        """The question of a conversation.

        Args:
            query: `conversation`, `rewrite`, or `last` for the last message alone.
        """
        return cls(conversation.question, () if query == "last" else conversation.earlier)

    @property
    def asked(self) -> str:
        """The question as one text."""
        return self.rewritten or self.text

    @property
    def embedded(self) -> list[str]:
        """The texts whose mean vector is searched for: the last message, and the end of all messages.

        On the conversations of MTRAG-UN, it finds more than either text (docs/knowledge-bases.md).
        """
        if self.rewritten or not self.earlier:
            return [self.asked]
        whole = "\n".join([*self.earlier, self.text])
        return [self.text, whole[-MAX_EARLIER_CHARACTERS:]]

    @property
    def keywords(self) -> str:
        """The text whose words are searched for: the user's last two messages."""
        if self.rewritten:
            return self.rewritten
        return "\n".join([*self.earlier[-1:], self.text])

    @property
    def is_small_talk(self) -> bool:
        """Whether the last message is no question, such as "thanks!"."""
        return len(self.text) <= 100 and SMALL_TALK.issuperset(words(self.text))

    @property
    def is_short(self) -> bool:
        """Whether the last message is so short that what it finds may have nothing to do with it."""
        return len(self.text.strip()) <= MAX_SHORT
