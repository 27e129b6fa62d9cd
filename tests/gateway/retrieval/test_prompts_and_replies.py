"""The prompt of an assistant, and its reply, through OpenAI's SDK."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from typing import Any
from urllib.parse import quote

import pytest
from openai import OpenAI
from openai.types.chat import ChatCompletionMessageParam

from ragstore_gateway.retrieval.context import CITE_INSTRUCTION, NOTHING_FOUND
from tests.gateway.retrieval.conftest import DOCS, Assisted, http_calls
from tests.support.fake_upstream import replying, stream_of

pytestmark = pytest.mark.process

MESSAGES: list[ChatCompletionMessageParam] = [{"role": "user", "content": "kettle warranty"}]


@pytest.fixture
def sdk(assistant_gateway: Assisted) -> Iterator[OpenAI]:
    """OpenAI's client, with a reader's key."""
    url, key = assistant_gateway.served.url, assistant_gateway.keys["ann"]
    with OpenAI(base_url=f"{url}/v1", api_key=key, max_retries=0) as client:
        yield client


def test_the_numbers_of_the_prompt_are_the_numbers_that_a_reply_cites(assistant_gateway: Assisted, sdk: OpenAI) -> None:
    tasks = [{"id": "one", "knowledgeBases": [{"name": "faq"}]}, {"id": "two", "knowledgeBases": [{"name": "docs"}]}]
    for style in ("context", "sources"):
        name = f"numbers-{style}"
        assistant_gateway.assistant(name, workflow=["docs", "faq"], tasks=tasks, promptStyle=style)
        assistant_gateway.upstream.on("m", replying("Nine [1]. Three years [2]."))
        found = sdk.chat.completions.create(model=f"rag/{name}", messages=MESSAGES)
        assistant_gateway.upstream.off("m")
        annotations = found.choices[0].message.annotations or []
        assert [each.url_citation.title for each in annotations] == ["hours.txt", "warranty.txt"]
        prompt = json.dumps(assistant_gateway.upstream.chats()[-1].json["messages"])
        assert prompt.index("[1] hours.txt") < prompt.index("[2] warranty.txt") < prompt.index("[3] cleaning.txt")


def test_an_assistant_may_have_its_own_instruction_how_to_cite_or_none(assistant_gateway: Assisted) -> None:
    for style in ("context", "sources"):
        for name, instruction in (("own", "Cite like lawyers."), ("none", "")):
            assistant_gateway.assistant(
                f"{name}-{style}", workflow=["faq"], promptStyle=style, systemMessage="Hi.", citeInstruction=instruction
            )
            assistant_gateway.ask(f"{name}-{style}")
            assert CITE_INSTRUCTION not in assistant_gateway.system
            assert ("Cite like lawyers." in assistant_gateway.system) == (name == "own")


def test_numbered_sources_without_a_message_and_an_instruction_have_no_system_message(
    assistant_gateway: Assisted,
) -> None:
    assistant_gateway.assistant("wordless", workflow=["faq"], promptStyle="sources", citeInstruction="")
    assistant_gateway.ask("wordless")
    assert [each["role"] for each in assistant_gateway.upstream.chats()[-1].json["messages"]] == ["user"]


@pytest.mark.parametrize("style", ["context", "sources"])
def test_a_model_is_told_that_nothing_was_found(assistant_gateway: Assisted, style: str) -> None:
    task = {"id": "t", "knowledgeBases": [{"name": "docs", "minScore": 0.999}]}
    fields: dict[str, Any] = {"workflow": ["docs"], "tasks": [task], "promptStyle": style, "systemMessage": "Hi."}
    assistant_gateway.assistant(f"told-{style}", **fields)
    assistant_gateway.ask(f"told-{style}")
    assert assistant_gateway.system == f"Hi.\n\n{NOTHING_FOUND}"
    assistant_gateway.assistant(f"silent-{style}", **fields, emptyContext="silent")
    assistant_gateway.ask(f"silent-{style}")
    assert assistant_gateway.system == "Hi."


def test_a_model_is_not_told_that_small_talk_was_not_searched_for(assistant_gateway: Assisted) -> None:
    assistant_gateway.ask("support", "thanks!")
    assert assistant_gateway.system == "You help."


@pytest.mark.parametrize(("style", "tokens"), [("context", 70), ("sources", 85)])
def test_the_context_stays_within_the_tokens_of_its_task(assistant_gateway: Assisted, style: str, tokens: int) -> None:
    task = {"id": "t", "enableWorkflowRag": True, "maxRagContextTokens": tokens}
    assistant_gateway.assistant(f"thrifty-{style}", workflow=["docs"], tasks=[task], promptStyle=style)
    response = assistant_gateway.ask(f"thrifty-{style}", conversation=f"c-thrifty-{style}")
    assert response.headers["x-rag-sources"] == "1"
    trace = assistant_gateway.data(f"c-thrifty-{style}")["rag:trace:t"][0]
    assert [each["fate"] for each in trace["passages"]] == ["context", "no_room"]


def test_numbered_sources_of_an_assistant_stay_within_its_characters(assistant_gateway: Assisted) -> None:
    for maximum, count, kept in ((150, 1, DOCS["warranty.txt"]), (60, 1, DOCS["warranty.txt"][:9])):
        task = {"id": "t", "enableWorkflowRag": True, "maxRagContextChars": maximum}
        name = f"short-{maximum}"
        assistant_gateway.assistant(name, workflow=["docs"], tasks=[task], promptStyle="sources")
        response = assistant_gateway.ask(name, conversation=name)
        assert int(response.headers["x-rag-sources"]) == count
        content = assistant_gateway.upstream.chats()[-1].json["messages"][1]["content"]
        assert kept in content
        assert len(content.partition("Context:\n")[2].replace("Sources:\n", "")) <= maximum + 1
    assert assistant_gateway.data("short-60")["rag:trace:t"][0]["passages"][0]["fate"] == "cut"


def test_a_text_that_two_documents_share_is_in_the_context_once(assistant_gateway: Assisted) -> None:
    assistant_gateway.base("twins", {"a.txt": "Kettles come in blue.", "b.txt": "Kettles come  in blue."}, minScore=0)
    assistant_gateway.assistant("once", workflow=["twins"])
    assistant_gateway.ask("once", "colour of kettles", conversation="c-once")
    assert assistant_gateway.system.count("in blue") == 1
    passages = assistant_gateway.data("c-once")["rag:trace:answer"][0]["passages"]
    assert [each["fate"] for each in passages] == ["context", "duplicate"]


def test_the_trace_shows_what_the_minimum_excluded(assistant_gateway: Assisted) -> None:
    task = {"id": "t", "knowledgeBases": [{"name": "docs", "minScore": 0.999}]}
    assistant_gateway.assistant("excluding", workflow=["docs"], tasks=[task])
    assistant_gateway.ask("excluding", conversation="c-excluding")
    trace = assistant_gateway.data("c-excluding")["rag:trace:t"][0]
    assert [each["fate"] for each in trace["passages"]] == ["below_min_score"] * 2
    assert trace["retrievedCount"] == 0


def test_a_reply_ends_with_the_cited_sources_if_the_assistant_says_so(assistant_gateway: Assisted, sdk: OpenAI) -> None:
    assistant_gateway.assistant("listing", workflow=["docs"], listSources=True)
    assistant_gateway.upstream.on("m", replying("Three years [1]."))
    message = sdk.chat.completions.create(model="rag/listing", messages=MESSAGES).choices[0].message
    formatted = sdk.chat.completions.create(
        model="rag/listing", messages=MESSAGES, response_format={"type": "json_object"}
    )
    assistant_gateway.upstream.on("m", stream_of("Three", " years [1]."))
    with sdk.chat.completions.stream(model="rag/listing", messages=MESSAGES) as stream:
        streamed = stream.get_final_completion().choices[0].message
    assistant_gateway.upstream.off("m")
    link = (message.annotations or [])[0].url_citation.url
    assert message.content == f"Three years [1].\n\nSources:\n- [1] [warranty.txt]({link})"
    assert streamed.content == message.content
    assert streamed.annotations == message.annotations
    assert formatted.choices[0].message.content == "Three years [1].", "JSON would become unreadable"


def test_the_sdk_gets_the_passages_of_a_prompt(assistant_gateway: Assisted, sdk: OpenAI) -> None:
    headers = {"X-RAG-Passages": "true"}
    found = sdk.chat.completions.create(model="rag/support", messages=MESSAGES, extra_headers=headers)
    passages = (found.model_extra or {})["rag"]["passages"]
    assert [(each["number"], each["base"], each["title"]) for each in passages] == [
        (1, "docs", "warranty.txt"),
        (2, "docs", "cleaning.txt"),
        (3, "faq", "hours.txt"),
    ]
    assert (passages[1]["text"], passages[1]["start"], passages[1]["end"]) == (DOCS["cleaning.txt"], 0, 42)
    assistant_gateway.upstream.on("m", stream_of("Three", " years [1]."))
    with sdk.chat.completions.stream(model="rag/support", messages=MESSAGES, extra_headers=headers) as stream:
        message = stream.get_final_completion().choices[0].message
    assistant_gateway.upstream.off("m")
    assert (message.model_extra or {})["passages"] == passages


@pytest.mark.parametrize("style", ["context", "sources"])
def test_a_shown_passage_names_the_base_and_the_document_by_which_the_text_is_read(
    assistant_gateway: Assisted, style: str
) -> None:
    text = "\U0001f600 Kettles of the shop are blue.\n\nTea is brewed in each of them."
    path = assistant_gateway.base(f"opening-{style}", {"shelf/blue pots.txt": text}, minScore=0)
    assistant_gateway.assistant(f"opening-{style}", workflow=[f"opening-{style}"], promptStyle=style)
    response = assistant_gateway.call(
        "ann",
        "POST",
        "/v1/chat/completions",
        json={"model": f"rag/opening-{style}", "messages": MESSAGES},
        headers={"X-RAG-Passages": "true"},
    )
    (passage,) = response.json()["rag"]["passages"]
    assert f"/ragstore/rags/{passage['base_id']}" == path
    assert passage["document_name"] == "shelf/blue pots.txt"
    name = quote(passage["document_name"], safe="")
    kept = assistant_gateway.call("root", "GET", f"{path}/texts/{name}").json()["text"]
    assert kept[passage["start"] : passage["end"]] == passage["text"] == text


def test_the_response_of_an_http_call_is_no_text_of_a_passage(assistant_gateway: Assisted) -> None:
    task = {"id": "t", "httpCallRag": "search-api"}
    assistant_gateway.assistant("calling", tasks=[task], httpCalls=http_calls(assistant_gateway))
    response = assistant_gateway.call(
        "ann",
        "POST",
        "/v1/chat/completions",
        json={"model": "rag/calling", "messages": MESSAGES},
        headers={"X-RAG-Passages": "true"},
    )
    assert response.json()["rag"]["passages"] == [{"number": 1, "title": "search-api", "base": "search-api"}]


def test_the_link_of_a_citation_shows_the_passage_to_readers_of_its_base(
    assistant_gateway: Assisted, sdk: OpenAI
) -> None:
    assistant_gateway.upstream.on("m", replying("Three years [1]."))
    message = sdk.chat.completions.create(model="rag/support", messages=MESSAGES).choices[0].message
    assistant_gateway.upstream.off("m")
    path = (message.annotations or [])[0].url_citation.url.removeprefix(assistant_gateway.served.url)
    shown = assistant_gateway.call("ann", "GET", path)
    assert shown.text == f"warranty.txt\n\n{DOCS['warranty.txt']}"
    assert shown.headers["content-type"].startswith("text/plain")
    assert assistant_gateway.call("", "GET", path).status_code == 401
    assert assistant_gateway.call("ann", "GET", path[:-4] + "0000").status_code == 404


def test_a_link_to_a_document_that_is_deleted_is_404(assistant_gateway: Assisted) -> None:
    base = assistant_gateway.base("passing", {"note.txt": "Kettles whistle."}, minScore=0)
    found = assistant_gateway.call("ann", "POST", f"{base}/query", json={"query": "kettle"}).json()["results"][0]
    path = f"{base}/passages/{found['id']}"
    assert assistant_gateway.call("ann", "GET", path).text == "note.txt\n\nKettles whistle."
    assert assistant_gateway.call("root", "DELETE", f"{base}/documents/note.txt").is_success
    assert assistant_gateway.call("ann", "GET", path).json()["code"] == "passage_not_found"


def log_line(assisted: Assisted, request_id: str) -> dict[str, Any]:
    """The log line of a request, which is written after its response."""
    deadline = time.monotonic() + 30
    while time.monotonic() < deadline:
        lines = [line for line in assisted.served.log.read_text().splitlines() if request_id in line]
        found = [json.loads(line) for line in lines if '"event": "request"' in line or '"event":"request"' in line]
        if found:
            line: dict[str, Any] = found[0]
            return line
        time.sleep(0.05)
    raise AssertionError("no log line")


def test_the_log_line_of_a_chat_has_models_reason_and_the_number_of_sources(assistant_gateway: Assisted) -> None:
    for question, expected in (
        ("kettle warranty", {"sources": 3}),
        ("thanks!", {"sources": 0, "reason": "short_question"}),
    ):
        response = assistant_gateway.ask("support", question)
        line = log_line(assistant_gateway, response.headers["x-request-id"])
        assert {**expected, "model": "rag/support", "upstream_model": "m"}.items() <= line.items()
        assert ("reason" in line) == ("reason" in expected)


@pytest.mark.parametrize(
    ("fields", "path"),
    [
        ({"emptyContext": "shout"}, "$.emptyContext"),
        ({"citeInstruction": 7}, "$.citeInstruction"),
        ({"listSources": "yes"}, "$.listSources"),
        ({"promptStyle": "poem"}, "$.promptStyle"),
        ({"tasks": [{"enableWorkflowRag": True, "maxRagContextTokens": 0}]}, "$.tasks[0].maxRagContextTokens"),
    ],
)
def test_wrong_values_are_rejected_when_they_are_written(
    assistant_gateway: Assisted, fields: dict[str, Any], path: str
) -> None:
    body = {"name": "wrong", "workflow": ["docs"], "tasks": [{"enableWorkflowRag": True}], **fields}
    response = assistant_gateway.call("root", "POST", "/ragstore/assistants", json=body)
    assert response.status_code == 400
    assert path in response.text


def test_a_base_with_layers_gives_each_text_to_a_prompt_once(assistant_gateway: Assisted) -> None:
    text = (
        "# Kettle\n\nThe kettle boils water in two minutes.\n\n# Toaster\n\nThe toaster browns bread in three minutes."
    )
    path = assistant_gateway.base("layered", {"manual.md": text}, chunkStrategy="layers", maxResults=10)
    assistant_gateway.assistant("layers", workflow=["layered"])
    found = assistant_gateway.call("ann", "POST", f"{path}/query", json={"query": "How long does the kettle take?"})
    assert len({each["metadata"]["layer"] for each in found.json()["results"]}) > 1
    assistant_gateway.ask("layers", "How long does the kettle take?")
    assert assistant_gateway.system.count("boils water") == 1
    assert assistant_gateway.system.count("browns bread") == 1


@pytest.mark.parametrize("style", ["context", "sources"])
def test_a_number_that_passages_share_cites_the_best_one_and_a_name_each_one(
    assistant_gateway: Assisted, sdk: OpenAI, style: str
) -> None:
    parts = (f"# Part {n}\n\nThe warranty of part {n} lasts {n} years." + " More." * 20 for n in range(1, 4))
    name = f"parts-{style}"
    base = {"chunkStrategy": "markdown", "chunkSize": 180, "chunkOverlap": 0}
    assistant_gateway.base(name, {"parts.md": "\n\n".join(parts)}, **base)
    assistant_gateway.assistant(name, workflow=[name], promptStyle=style)
    named = name if style == "context" else "parts.md"
    assistant_gateway.upstream.on("m", replying(f"Two years [1]. See [{named}]."))
    question: list[ChatCompletionMessageParam] = [{"role": "user", "content": "How long is the warranty of part 2?"}]
    headers = {"X-RAG-Passages": "true"}
    found = sdk.chat.completions.create(model=f"rag/{name}", messages=question, extra_headers=headers)
    assistant_gateway.upstream.off("m")
    prompt = "\n".join(each["content"] for each in assistant_gateway.upstream.chats()[-1].json["messages"])
    places = [prompt.index(f"The warranty of part {n} lasts") for n in (1, 2, 3)]
    assert places == sorted(places)
    assert "[2] " not in prompt
    texts = {each["id"]: each["text"] for each in (found.model_extra or {})["rag"]["passages"]}
    cited = [texts[each.url_citation.passage_id] for each in found.choices[0].message.annotations or []]  # type: ignore[attr-defined]  # ours
    assert "The warranty of part 2" in cited[0]
    assert sorted(cited[1:]) == sorted(texts.values())
