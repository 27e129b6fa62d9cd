"""Question sets over HTTP: their versions, their base, and the runs that measure searches of the base."""

from __future__ import annotations

import time
from typing import Any, Final

import httpx
import pytest

from ragstore_gateway.configurations.question_set import MAX_QUESTIONS
from tests.gateway.knowledge.conftest import versioned
from tests.support.held_provider import held_provider
from tests.support.problems import assert_problem

pytestmark = pytest.mark.process

KETTLE: Final = "The warranty of the kettle lasts three years. "
TRAINS: Final = "Trains to the airport leave at noon."
WARRANTY: Final = "How long is the warranty of the kettle?"
DEPARTURES: Final = "When do trains to the airport leave?"


def question(text: str, *passages: dict[str, Any], **fields: Any) -> dict[str, Any]:
    """A question with expected passages."""
    return {"text": text, "passages": list(passages), **fields}


def span(name: str, start: int, end: int) -> dict[str, Any]:
    """An expected span."""
    return {"documentName": name, "start": start, "end": end}


@pytest.fixture
def base(http: httpx.Client, name: str) -> str:
    """The id of a base without documents."""
    return id_of(http.post("/ragstore/rags", json={"name": name}))


@pytest.fixture
def filled(http: httpx.Client, base: str) -> str:
    """The id of a base with two documents."""
    for document, text in (("kettle.txt", KETTLE), ("trains.txt", TRAINS)):
        ingest(http, base, document, text)
    return base


def ingest(http: httpx.Client, base: str, document: str, text: str) -> None:
    """Ingest a document, and wait until it is complete."""
    path = f"/ragstore/rags/{base}/ingest"
    headers = {"Content-Type": "text/plain"}
    given = http.post(path, params={"documentName": document}, content=text.encode(), headers=headers).json()
    status = f"/ragstore/rags/{base}/ingestion/{given['ingestionId']}/status"
    waited(lambda: http.get(status).json()["status"] == "completed")


def waited(is_done: Any) -> None:
    """Wait until something is done."""
    deadline = time.monotonic() + 60
    while not is_done():
        assert time.monotonic() < deadline
        time.sleep(0.05)


def id_of(response: httpx.Response) -> str:
    """The id of a new configuration."""
    assert response.status_code == 201, response.text
    return response.headers["Location"].rpartition("/")[2].partition("?")[0]


def created(http: httpx.Client, base: str, *questions: dict[str, Any], name: str = "tea") -> str:
    """Create a set; its path."""
    body = {"name": name, "base": base, "questions": list(questions)}
    return f"/ragstore/questions/{id_of(http.post('/ragstore/questions', json=body))}"


def completed(http: httpx.Client, path: str) -> dict[str, Any]:
    """Run a set, and wait for the end of the run."""
    accepted = http.post(f"{path}/runs")
    assert accepted.status_code == 202, accepted.text
    location = accepted.headers["Location"]
    assert location == f"{path}/runs/{accepted.json()['runId']}"
    waited(lambda: http.get(location).json()["status"] != "running")
    run: dict[str, Any] = http.get(location).json()
    assert (run["status"], run["reason"]) == ("completed", "")
    return run


def test_a_set_is_versioned_as_other_configurations_are(http: httpx.Client, base: str) -> None:
    path = created(http, base, question(WARRANTY))
    first = http.get(path).json()
    assert first["questions"] == [{"text": WARRANTY, "earlier": [], "passages": []}]
    second = {**first, "questions": [question(WARRANTY, span("kettle.txt", 0, 45))]}
    written = http.put(versioned(path, 1), json=second)
    assert written.headers["Location"] == versioned(path, 2)
    assert http.get(versioned(path, 1)).json() == first
    assert_problem(http.put(versioned(path, 1), json=second), 409, "version_conflict")
    assert [each["version"] for each in http.get(f"{path}/versions").json()["versions"]] == [2, 1]
    assert http.post(path).json()["name"] == "tea-copy"
    assert http.delete(path, params={"version": 2}).status_code == 200
    assert_problem(http.get(path), 404, "configuration_not_found")


def test_the_name_of_a_set_is_unique_within_its_base(http: httpx.Client, name: str, base: str) -> None:
    other = id_of(http.post("/ragstore/rags", json={"name": f"{name}-other"}))
    created(http, base)
    created(http, other)
    taken = http.post("/ragstore/questions", json={"name": "tea", "base": base})
    assert_problem(taken, 409, "name_taken")
    listed = http.get("/ragstore/questions/descriptors", params={"limit": 1000}).json()
    assert {each["base"] for each in listed if each["name"] == "tea"} >= {base, other}


def test_a_set_keeps_its_base_and_is_removed_with_it(http: httpx.Client, name: str, base: str) -> None:
    path = created(http, base)
    other = id_of(http.post("/ragstore/rags", json={"name": f"{name}-other"}))
    moved = assert_problem(http.put(versioned(path, 1), json={"name": "tea", "base": other}), 400, "invalid_request")
    assert moved["errors"][0]["path"] == "$.base"
    assert http.delete(f"/ragstore/rags/{base}").status_code == 200
    assert http.get(path).status_code == 200
    assert http.delete(f"/ragstore/rags/{base}", params={"permanent": True}).status_code == 200
    assert http.get(versioned(path, 1)).status_code == 404


@pytest.mark.parametrize(
    ("fields", "path"),
    [
        ({"base": "nowhere"}, "$.base"),
        ({"questions": [question("  ")]}, "$.questions[0].text"),
        ({"questions": [question("a"), question("a")]}, "$.questions[1].text"),
        ({"questions": [question("a", span("a.txt", 5, 5))]}, "$.questions[0].passages[0].end"),
        ({"questions": [question("a", {"documentName": "a.txt", "start": 5})]}, "$.questions[0].passages[0]"),
        ({"questions": [question(str(each)) for each in range(MAX_QUESTIONS + 1)]}, "$.questions"),
        ({"question": []}, "$.question"),
    ],
)
def test_a_field_that_is_wrong_is_named(http: httpx.Client, base: str, fields: dict[str, Any], path: str) -> None:
    response = http.post("/ragstore/questions", json={"name": "tea", "base": base, **fields})
    assert [each["path"] for each in assert_problem(response, 400, "invalid_request")["errors"]] == [path]


def test_a_run_has_the_figures_of_the_base_and_the_questions_that_it_wins_and_loses(
    http: httpx.Client, filled: str
) -> None:
    wrong = question(DEPARTURES, {"documentName": "absent.txt"})
    path = created(http, filled, question(WARRANTY, span("kettle.txt", 0, 45)), wrong, question("No label"))
    first = completed(http, path)
    assert (first["questions"], first["setVersion"], first["baseVersion"]) == (2, 1, 1)
    assert first["figures"]["mrr"] == 0.5
    assert first["figures"]["cutoffs"] == [{"k": k, "recall": 0.5, "ndcg": 0.5} for k in (1, 3, 5, 10)]
    assert [(each["question"], each["rank"], each["change"]) for each in first["outcomes"]] == [
        (WARRANTY, 1, "new"),
        (DEPARTURES, None, "new"),
    ]
    trains = f"/ragstore/rags/{filled}/documents/kettle.txt"
    assert http.delete(trains).status_code == 204
    second = completed(http, path)
    assert (second["comparedWith"], second["won"], second["lost"]) == (first["runId"], 0, 1)
    assert [(each["change"], each["rank"], each["rankBefore"]) for each in second["outcomes"]] == [
        ("lost", None, 1),
        ("equal", None, None),
    ]
    listed = http.get(f"{path}/runs").json()
    assert (listed["total"], [each["runId"] for each in listed["runs"]]) == (2, [second["runId"], first["runId"]])
    assert "outcomes" not in listed["runs"][0]


def test_a_run_shows_its_progress_and_is_cancelled(http: httpx.Client, name: str) -> None:
    with held_provider() as provider:
        provider.held_text = "Held?"
        base = id_of(http.post("/ragstore/rags", json={"name": name, **provider.base()}))
        ingest(http, base, "kettle.txt", KETTLE)
        questions = [question(text, {"documentName": "absent.txt"}) for text in (WARRANTY, DEPARTURES, "Held?")]
        path = created(http, base, *questions)
        run = http.post(f"{path}/runs").headers["Location"]
        waited(lambda: http.get(run).json()["searched"] == 2)
        assert http.get(run).json()["status"] == "running"
        assert [http.delete(run).status_code for _ in range(2)] == [204, 204]
        found = http.get(run).json()
        assert (found["status"], found["reason"], found["searched"]) == ("cancelled", "requested", 2)
        assert (found["outcomes"], "figures" in found, "finishedOn" in found) == ([], False, True)
        provider.released.set()
        assert completed(http, path)["searched"] == 3


def test_a_run_that_has_ended_or_does_not_exist_is_not_cancelled(http: httpx.Client, filled: str) -> None:
    path = created(http, filled, question(WARRANTY, {"documentName": "kettle.txt"}))
    run = completed(http, path)
    assert_problem(http.delete(f"{path}/runs/{run['runId']}"), 409, "question_run_ended")
    assert http.get(f"{path}/runs/{run['runId']}").json() == run
    other = created(http, filled, name="other")
    for absent in (f"{other}/runs/{run['runId']}", f"{path}/runs/%00"):
        assert_problem(http.delete(absent), 404, "question_run_not_found")
    assert_problem(http.delete(f"/ragstore/questions/absent/runs/{run['runId']}"), 404, "configuration_not_found")


def test_a_set_without_expected_passages_or_without_its_base_is_not_run(http: httpx.Client, base: str) -> None:
    path = created(http, base, question(WARRANTY))
    assert_problem(http.post(f"{path}/runs"), 409, "nothing_expected")
    assert_problem(http.get(f"{path}/runs/%00"), 404, "question_run_not_found")
    assert http.delete(f"/ragstore/rags/{base}").status_code == 200
    assert_problem(http.post(f"{path}/runs"), 404, "configuration_not_found")
