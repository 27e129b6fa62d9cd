"""`POST /ragstore/retrieve`: the retrieval of a chat without its model, and with the fate of each passage."""

from __future__ import annotations

from typing import Any, Final

import httpx
import pytest

from ragstore_gateway.retrieval.context import CITE_INSTRUCTION
from tests.gateway.retrieval.conftest import RESULT, Assisted, http_calls
from tests.support.problems import assert_problem

pytestmark = pytest.mark.process

ROOMS: Final = ("kitchen", "cellar", "garden", "attic", "garage", "office", "hall", "pantry", "studio", "porch")
MANUAL: Final = "\n\n".join(
    f"The {room} of house {house} has the kettle number {house * 10 + index}, and its key is in the {room}."
    for house in range(4)
    for index, room in enumerate(ROOMS)
)
QUESTIONS: Final = [
    *(f"Which kettle is in the {room} of house {house}?" for house in range(4) for room in ROOMS),
    "Where are the keys of house 2?",
    "How long is the warranty of the kettle?",
    "When does the shop open that sells kettles?",
    "How is the kettle cleaned? And with what?",
    "Ist der Wasserkocher im Keller?",
    "kettle",
    "zzz",
    "thanks!",
    "### Task: make a title of the kitchen",
    "Kettle \U0001f600 of the e\u0301tage\n\nwith two paragraphs",
]


@pytest.fixture(scope="module")
def house(assistant_gateway: Assisted) -> str:
    """The path of a base with a document of many chunks. Two assistants search it."""
    chunks = {"chunkSize": 160, "chunkOverlap": 0, "chunkUnit": "characters"}
    path = assistant_gateway.base("house", {"house.txt": MANUAL}, maxResults=4, **chunks)
    assistant_gateway.assistant("porter", workflow=["house", "docs"], systemMessage="You know the house.")
    task = {"id": "t", "enableWorkflowRag": True, "diversity": 0.3, "maxRagContextChars": 700}
    assistant_gateway.assistant("keeper", workflow=["house", "faq"], promptStyle="sources", tasks=[task])
    return path


def base_id(path: str) -> str:
    """The id of a base in its path."""
    return path.rpartition("/")[2]


def retrieved(gateway: Assisted, *, key: str = "ann", question: str = "kettle warranty", **fields: Any) -> Any:
    """The response to a question."""
    response = gateway.call(key, "POST", "/ragstore/retrieve", json={"question": question, **fields})
    assert response.status_code == 200, response.text
    return response.json()


def differs(gateway: Assisted, http: httpx.Client, assistant: str, question: str) -> bool:
    """Whether a chat has another prompt, other passages or another reason than this call."""
    body = {"model": f"rag/{assistant}", "messages": [{"role": "user", "content": question}]}
    reply = http.post("/v1/chat/completions", json=body, headers={"X-RAG-Passages": "true"})
    prompt = gateway.upstream.chats()[-1].json["messages"]
    names = ("number", "id", "base", "base_id", "document", "document_name", "title", "start", "end", "score")
    shown = [tuple(each[name] for name in names) for each in reply.json()["rag"]["passages"]]
    found = http.post("/ragstore/retrieve", json={"question": question, "assistant": assistant}).json()
    own = ("number", "id", "base", "baseId", "document", "documentName", "title", "start", "end", "score")
    used = [tuple(each[name] for name in own) for each in found["passages"] if "number" in each]
    return (prompt, sorted(shown), reply.headers.get("x-rag-reason")) != (
        found["messages"],
        sorted(used),
        found.get("reason"),
    )


def test_a_chat_and_this_call_agree_for_50_questions(assistant_gateway: Assisted, house: str) -> None:
    assert len(QUESTIONS) == 50
    headers = {"Authorization": f"Bearer {assistant_gateway.keys['ann']}"}
    with httpx.Client(base_url=assistant_gateway.served.url, headers=headers, timeout=30) as http:
        differing = [
            question
            for number, question in enumerate(QUESTIONS)
            if differs(assistant_gateway, http, ("porter", "keeper")[number % 2], question)
        ]
    assert differing == []


def test_each_passage_that_was_found_has_its_fate_and_its_text(assistant_gateway: Assisted, house: str) -> None:
    found = retrieved(assistant_gateway, question=QUESTIONS[0], assistant="keeper")
    by_fate = {each["fate"]: each for each in found["passages"]}
    assert {"context", "ranked_away"} <= by_fate.keys() or {"context", "same_source"} <= by_fate.keys()
    assert all(each["text"] for each in found["passages"])
    assert all(("number" in each) == (each["fate"] in ("context", "cut")) for each in found["passages"])
    spans = [each for each in found["passages"] if each["base"] == "house"]
    assert [each["text"] for each in spans] == [MANUAL[each["start"] : each["end"]] for each in spans]


def test_a_passage_below_the_minimum_score_is_shown_with_its_text(assistant_gateway: Assisted, house: str) -> None:
    found = retrieved(assistant_gateway, base=base_id(house), minScore=1.0)
    assert {each["fate"] for each in found["passages"]} == {"below_min_score"}
    assert all(each["text"] in MANUAL for each in found["passages"])
    assert found["reason"] == "no_match"


def test_a_base_is_searched_with_other_parameters_and_is_unchanged(assistant_gateway: Assisted, house: str) -> None:
    where = {"document_name": "nowhere"}
    own = retrieved(assistant_gateway, base=base_id(house), question=QUESTIONS[1])
    fewer = retrieved(assistant_gateway, base=base_id(house), question=QUESTIONS[1], maxResults=1, minScore=0.5)
    none = retrieved(assistant_gateway, base=base_id(house), question=QUESTIONS[1], where=where)
    assert [len([each for each in found["passages"] if "number" in each]) for found in (own, fewer, none)] == [4, 1, 0]
    assert (fewer["searches"][0]["maxResults"], fewer["searches"][0]["minScore"]) == (1, 0.5)
    assert none["reason"] == "no_match"


def test_without_a_base_and_an_assistant_it_is_a_plain_model(assistant_gateway: Assisted) -> None:
    found = retrieved(assistant_gateway, question="Where is the kettle?")
    assistant_gateway.ask("m", "Where is the kettle?")
    assert found["messages"] == assistant_gateway.upstream.chats()[-1].json["messages"]
    assert [each["base"] for each in found["searches"]] in ([], ["memory"])


def test_an_assistant_that_is_not_stored_needs_an_admin(assistant_gateway: Assisted, house: str) -> None:
    body = {"name": "new", "workflow": ["house"], "systemMessage": "Try.", "tasks": [{"enableWorkflowRag": True}]}
    found = retrieved(assistant_gateway, key="root", question=QUESTIONS[2], assistant=body)
    assert found["messages"][0]["content"].startswith("Try.\n\n## Relevant Context:")
    refused = assistant_gateway.call("ann", "POST", "/ragstore/retrieve", json={"question": "x", "assistant": body})
    assert_problem(refused, 403, "forbidden")
    assert "rag/new" not in assistant_gateway.call("ann", "GET", "/v1/models").text


def test_no_model_is_called_and_the_ledger_has_no_entry(assistant_gateway: Assisted, house: str) -> None:
    assistant_gateway.assistant("rewriter", workflow=["house"], query="rewrite")
    before = assistant_gateway.call("root", "GET", "/audit").json()["head"], len(assistant_gateway.upstream.chats())
    retrieved(assistant_gateway, assistant="rewriter", question=QUESTIONS[3])
    retrieved(assistant_gateway, base=base_id(house), question=QUESTIONS[3])
    after = assistant_gateway.call("root", "GET", "/audit").json()["head"], len(assistant_gateway.upstream.chats())
    assert after == before


def test_the_response_of_an_http_call_is_for_admins_only(assistant_gateway: Assisted) -> None:
    task = {"id": "t", "httpCallRag": "search-api"}
    assistant_gateway.assistant("finder", tasks=[task], httpCalls=http_calls(assistant_gateway))
    found = retrieved(assistant_gateway, key="root", assistant="finder")
    (call,) = found["httpCalls"]
    assert call == {"task": "t", "name": "search-api", "contextLength": len(RESULT)}
    assert found["messages"][0]["content"] == f"\n\n## Search Results:\n[1] search-api\n{RESULT}\n\n{CITE_INSTRUCTION}"
    hidden = retrieved(assistant_gateway, assistant="finder")
    assert "messages" not in hidden
    assert RESULT not in str(hidden)
    assert hidden["httpCalls"] == found["httpCalls"]


def test_a_search_or_a_call_that_fails_is_named_with_its_code(assistant_gateway: Assisted) -> None:
    path = assistant_gateway.created("/ragstore/rags", {"name": "leaving"}).partition("?")[0]
    task = {"id": "t", "enableWorkflowRag": True, "httpCallRag": "search-api"}
    calls = http_calls(assistant_gateway, pointer="/absent")
    assistant_gateway.assistant("failing-trial", workflow=["leaving"], tasks=[task], httpCalls=calls)
    assert assistant_gateway.call("root", "DELETE", path).status_code == 200
    found = retrieved(assistant_gateway, assistant="failing-trial")
    assert found["searches"] == [{"task": "t", "base": "leaving", "error": "configuration_not_found"}]
    assert [each["error"] for each in found["httpCalls"]] == ["pointer_not_found"]
    assert found["reason"] == "failed"


def test_each_stage_has_its_time(assistant_gateway: Assisted, house: str) -> None:
    found = retrieved(assistant_gateway, question="A question that no cache has?", assistant="keeper")
    stages = {(each["name"], each.get("baseId", "")) for each in found["stages"]}
    ids = {each["baseId"] for each in found["searches"]}
    assert len(ids) == 2
    expected = {(name, id) for name in ("search base", "search vectors", "search keywords") for id in ids}
    assert stages == {*expected, ("embed question", ""), ("diversity", ""), ("context", "")}
    assert found["ms"] >= max(each["ms"] for each in found["stages"] if each["name"] == "search base")


def test_an_unknown_assistant_and_an_unknown_base_are_404(assistant_gateway: Assisted) -> None:
    for fields in ({"assistant": "nobody"}, {"base": "nowhere"}, {"base": "0" * 36}):
        response = assistant_gateway.call("ann", "POST", "/ragstore/retrieve", json={"question": "x", **fields})
        assert_problem(response, 404, "configuration_not_found")
