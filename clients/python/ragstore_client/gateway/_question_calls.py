"""Calls of runs of question sets, as values; see `_calls`."""

from __future__ import annotations

from ragstore_client._call import Call, path_segment, query_params
from ragstore_client._responses import json_decoder
from ragstore_client.gateway import _questions as models
from ragstore_client.gateway._calls import QUESTION_SETS


def run_question_set(id: str) -> Call[models.AcceptedQuestionRun]:
    """`POST …/questions/{id}/runs`."""
    return Call("POST", _runs(id), json_decoder(models.AcceptedQuestionRun), idempotent=False)


def list_question_runs(id: str, *, index: int | None, limit: int | None) -> Call[models.QuestionRunList]:
    """`GET …/questions/{id}/runs`."""
    params = query_params(index=index, limit=limit)
    return Call("GET", _runs(id), json_decoder(models.QuestionRunList), params=params)


def get_question_run(id: str, run_id: str) -> Call[models.QuestionRun]:
    """`GET …/questions/{id}/runs/{run_id}`."""
    return Call("GET", f"{_runs(id)}/{path_segment(run_id)}", json_decoder(models.QuestionRun))


def cancel_question_run(id: str, run_id: str) -> Call[bool]:
    """`DELETE …/questions/{id}/runs/{run_id}`."""
    return Call("DELETE", f"{_runs(id)}/{path_segment(run_id)}", lambda _: True, result_if_gone=True)


def _runs(id: str) -> str:
    return f"{QUESTION_SETS.path}/{path_segment(id)}/runs"
