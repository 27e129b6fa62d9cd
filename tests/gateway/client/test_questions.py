"""The client's calls of question sets and their runs."""

from __future__ import annotations

import pytest

from ragstore_client import Conflict, NotFound
from ragstore_client.gateway import (
    ExpectedPassage,
    GatewayClient,
    KnowledgeBase,
    QuestionRun,
    QuestionSet,
    SetQuestion,
    Stored,
)

pytestmark = pytest.mark.process

LIFT = "The lift is tested every year."


def test_a_run_measures_the_questions_of_a_set_and_is_compared_with_the_run_before(
    client: GatewayClient, base: Stored[KnowledgeBase]
) -> None:
    client.ingest_text(base, "lift.txt", LIFT)
    span = ExpectedPassage(document_name="lift.txt", start=0, end=len(LIFT))
    absent = ExpectedPassage(document_name="absent.txt")
    created = client.question_sets.create(
        QuestionSet(
            name="lifts",
            base=base.id,
            questions=[
                SetQuestion(text="When is the lift tested?", passages=[span]),
                SetQuestion(text="Who tests it?", earlier=["Is there a lift?"], passages=[absent]),
            ],
        )
    )
    assert [found.name for found in client.question_sets.iter("lifts") if found.id == created.id] == ["lifts"]
    states: list[QuestionRun] = []
    first, second = (client.run_question_set(created, progress=states.append) for _ in range(2))
    assert states[-1] == second
    assert (second.searched, second.has_ended) == (2, True)
    assert (first.status, first.questions, first.compared_with) == ("completed", 2, "")
    assert first.figures is not None
    assert [(each.k, each.recall) for each in first.figures.cutoffs] == [(k, 0.5) for k in (1, 3, 5, 10)]
    assert [(each.rank, each.change) for each in second.outcomes] == [(1, "equal"), (None, "equal")]
    assert second.compared_with == first.run_id
    listed = list(client.iter_question_runs(created, page_size=1))
    assert [run.run_id for run in listed] == [second.run_id, first.run_id]
    assert client.get_question_run(created, first.run_id) == first
    with pytest.raises(Conflict) as ended:
        client.cancel_question_run(created, first.run_id)
    assert ended.value.code == "question_run_ended"
    with pytest.raises(NotFound):
        client.cancel_question_run(created, "absent")


def test_a_set_without_expected_passages_is_not_run(client: GatewayClient, base: Stored[KnowledgeBase]) -> None:
    created = client.question_sets.create({"name": "empty", "base": base.id, "questions": [{"text": "Why?"}]})
    with pytest.raises(Conflict) as raised:
        client.run_question_set(created)
    assert raised.value.code == "nothing_expected"
