"""`POST /ragstore/retrieve`: the passages and the prompt of a chat, without a reply."""

from __future__ import annotations

from typing import Any

from litestar import Request, post
from litestar.di import NamedDependency
from litestar.params import SkipValidation

from ragstore.kit.auth.roles import READS
from ragstore.kit.errors import Forbidden, Overloaded
from ragstore.kit.openapi import ERRORS
from ragstore_gateway.api.bodies import decode_configuration
from ragstore_gateway.api.openapi import body_of
from ragstore_gateway.chat.caller import caller_of
from ragstore_gateway.configurations.assistant import Assistant
from ragstore_gateway.errors import ConfigurationNotFound, DatabaseUnavailable
from ragstore_gateway.keys import READER, is_admin
from ragstore_gateway.retrieval.trials import RetrievalTrial, RetrievalTrials, TrialQuestion
from ragstore_gateway.settings import Settings


@post(
    "/ragstore/retrieve",
    status_code=200,
    opt={**READER, **READS, ERRORS: (ConfigurationNotFound, DatabaseUnavailable, Overloaded), **body_of(TrialQuestion)},
    operation_id="retrieve",
    summary="Retrieve for a question",
    tags=["assistants"],
)
async def retrieve(
    request: Request[Any, Any, Any],
    retrieval_trials: SkipValidation[NamedDependency[RetrievalTrials]],
    settings: SkipValidation[NamedDependency[Settings]],
) -> RetrievalTrial:
    """The passages that a chat would find for a question, the prompt that it would send, and the time of each part.

    Retrieval is the chat's own. No model is called, also not to rewrite the question, and the audit ledger has no
    entry. An assistant that is not stored needs an admin key: its HTTP calls are made. `maxResults`, `minScore` and
    `where` belong to `base`.
    """
    body = decode_configuration(TrialQuestion, await request.body())
    may_configure = is_admin(request.scope)
    if isinstance(body.assistant, Assistant) and not may_configure:
        raise Forbidden("An assistant that is not stored needs a key with the role admin")
    return await retrieval_trials.retrieve(body, caller_of(request.scope, {}, settings), shows_responses=may_configure)
