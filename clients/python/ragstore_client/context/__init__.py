"""From a question to what a model receives, and back to what the model cited."""

from ragstore_client.context._builder import AsyncContextBuilder, ContextBuilder
from ragstore_client.context._cache import ContextCache
from ragstore_client.context._context import ChatContext, Reason, Timings
from ragstore_client.context._passages import ContextPassage, MetadataValue, Passage, Vector
from ragstore_client.context._query import TopicTracker
from ragstore_client.context._retrieve import StepFailure
from ragstore_client.context._scopes import Scope, session_scopes
from ragstore_client.context._settings import ContextSettings
from ragstore_client.context._sources import PassageSource, ScopedSource

__all__ = [
    "AsyncContextBuilder",
    "ChatContext",
    "ContextBuilder",
    "ContextCache",
    "ContextPassage",
    "ContextSettings",
    "MetadataValue",
    "Passage",
    "PassageSource",
    "Reason",
    "Scope",
    "ScopedSource",
    "StepFailure",
    "Timings",
    "TopicTracker",
    "Vector",
    "session_scopes",
]
