"""The routes of runs of question sets."""

from __future__ import annotations

from typing import Annotated, Any, Final

from litestar import Request, Response, delete, get, post
from litestar.datastructures import ResponseHeader
from litestar.di import NamedDependency
from litestar.handlers import HTTPRouteHandler
from litestar.params import PathParameter, QueryParameter, SkipValidation

from ragstore.kit.context import record_write
from ragstore.kit.errors import Overloaded
from ragstore.kit.openapi import ERRORS
from ragstore_gateway.configurations.where_template import variables_of
from ragstore_gateway.errors import (
    ConfigurationNotFound,
    DatabaseUnavailable,
    NothingExpected,
    QuestionRunEnded,
    QuestionRunNotFound,
    QuestionSetRunning,
)
from ragstore_gateway.evaluation.evaluations import Evaluations
from ragstore_gateway.evaluation.runs import WITH_OUTCOMES, outcomes_of
from ragstore_gateway.evaluation.schemas import (
    AcceptedQuestionRun,
    QuestionRunList,
    QuestionRunOutcomes,
    run_of,
    run_with_outcomes,
)
from ragstore_gateway.keys import READER, WRITER
from ragstore_gateway.settings import Settings

EvaluationsDependency = SkipValidation[NamedDependency[Evaluations]]
SettingsDependency = SkipValidation[NamedDependency[Settings]]

SetId = Annotated[str, PathParameter(description="Id of the question set.")]
RunId = Annotated[str, PathParameter(description="Id of the run.")]
Index = Annotated[int, QueryParameter(description="Number of the page, from 0.", ge=0, le=1_000_000)]
Limit = Annotated[int, QueryParameter(description="Maximum number of runs on the page.", ge=1, le=1000)]

PATH: Final = "/ragstore/questions/{id:str}/runs"

_TAGS: Final = ["questions"]
_ERRORS: Final = (ConfigurationNotFound, DatabaseUnavailable)


@post(
    PATH,
    status_code=202,
    opt={**WRITER, ERRORS: (*_ERRORS, NothingExpected, QuestionSetRunning, Overloaded)},
    operation_id="runQuestionSet",
    summary="Run a question set",
    tags=_TAGS,
    response_headers=[ResponseHeader(name="Location", description="Path of the run.", documentation_only=True)],
)
async def run_question_set(
    request: Request[Any, Any, Any], id: SetId, evaluations: EvaluationsDependency, settings: SettingsDependency
) -> Response[AcceptedQuestionRun]:
    """Search for the questions of a set, in the background, and measure which expected passages are found.

    A run searches the current version of the base, for ten passages of each question, and calls no model. Variables of
    the base's filter have the values of this request. A set has one run at a time.
    """
    run = await evaluations.start(id, variables_of(request.scope, settings.session_from))
    path = f"/ragstore/questions/{id}/runs/{run.id}"
    record_write(path.removeprefix("/"), run.questions)
    return Response(AcceptedQuestionRun(run.id), headers={"Location": path})


@get(
    PATH,
    opt={**READER, ERRORS: _ERRORS},
    operation_id="listQuestionRuns",
    summary="List the runs of a question set",
    tags=_TAGS,
)
async def list_question_runs(
    id: SetId, evaluations: EvaluationsDependency, index: Index = 0, limit: Limit = 20
) -> QuestionRunList:
    """A page of the runs of a set, newest first. The newest 100 are kept."""
    await evaluations.sets.read(id)
    runs, total = await evaluations.runs.page(id, index=index, limit=limit)
    return QuestionRunList([run_of(each) for each in runs], total)


@get(
    f"{PATH}/{{run_id:str}}",
    opt={**READER, ERRORS: (*_ERRORS, QuestionRunNotFound)},
    operation_id="getQuestionRun",
    summary="Read a run of a question set",
    tags=_TAGS,
)
async def get_question_run(id: SetId, run_id: RunId, evaluations: EvaluationsDependency) -> QuestionRunOutcomes:
    """A run, with the outcome of each question, and its comparison with the completed run before."""
    await evaluations.sets.read(id)
    run = await evaluations.runs.read(id, run_id=run_id, options=WITH_OUTCOMES)
    stored = await evaluations.sets.read(id, run.set_version)
    return run_with_outcomes(run, outcomes_of(run), stored.body.questions)


@delete(
    [f"{PATH}/{{run_id:str}}"],
    status_code=204,
    opt={**WRITER, ERRORS: (*_ERRORS, QuestionRunNotFound, QuestionRunEnded)},
    operation_id="cancelQuestionRun",
    summary="Cancel a run of a question set",
    tags=_TAGS,
)
async def cancel_question_run(id: SetId, run_id: RunId, evaluations: EvaluationsDependency) -> None:
    """Cancel a run. It has no figures, and its searches end within a second."""
    await evaluations.cancel(id, run_id)


ROUTES: Final[list[HTTPRouteHandler]] = [
    run_question_set,
    list_question_runs,
    get_question_run,
    cancel_question_run,
]
"""The routes of runs."""
