"""The commands `ask` and `ingest`, against a gateway whose store is another process."""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

import httpx
import pytest
from aiohttp import web
from click.testing import CliRunner, Result

from ragstore_gateway.commands.cli import main
from tests.client.fake_servers import LocalServer, Response
from tests.gateway.extraction import documents
from tests.support.fake_gateways import found_base
from tests.support.fake_providers import Received, fake_provider, json_response, vectors_of
from tests.support.fake_upstream import FakeUpstream, fake_upstream, replying
from tests.support.gateways import start_gateway
from tests.support.process_fixtures import starts_process
from tests.support.servers import Served, free_port, running, start_service

PREFIXES = '{"queryPrefix": "Q: ", "documentPrefix": "D: "}'
BOILER = "The boiler is in the cellar."
PUMP = "The pump of the boiler is repaired by the caretaker."
QUESTION = "Where is the boiler?"


def run(url: str, *words: str, stdin: bytes = b"", key: str = "") -> Result:
    """Run a command in this process."""
    environ = {"RAGSTORE_GATEWAY_URL": url, "RAGSTORE_GATEWAY_API_KEY": key}
    return CliRunner().invoke(main, list(words), input=stdin, env=environ)


def done(url: str, *words: str, stdin: bytes = b"") -> str:
    """The output of a command that succeeds."""
    ended = run(url, *words, stdin=stdin)
    assert ended.exit_code == 0, ended.output
    return ended.stdout


def create(url: str, name: str, **fields: Any) -> None:
    """Create a knowledge base that finds every passage, unless the gateway has one of the name."""
    created = httpx.post(f"{url}/ragstore/rags", json={"name": name, "minScore": 0, **fields})
    assert created.status_code in (201, 409), created.text


@dataclass(frozen=True)
class Remote:
    """A gateway with a remote store and an upstream."""

    url: str
    upstream: FakeUpstream


@pytest.fixture(scope="module")
@starts_process
def remote(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Remote]:
    """A gateway whose bases `memory` and `pumps` have a document each."""
    folder = tmp_path_factory.mktemp("store")
    (folder / "boiler.txt").write_text(BOILER)
    (folder / "pump.txt").write_text(PUMP)
    with (
        running(start_service(folder, {"RAGSTORE_RESERVED_PREFIXES": "none"})) as store,
        fake_upstream() as upstream,
    ):
        upstream.on("m", replying("In the cellar [1]."))
        environ = {"RAGSTORE_URL": store.url, "RAGSTORE_GATEWAY_UPSTREAM_URL": upstream.url}
        with running(start_gateway(tmp_path_factory.mktemp("gateway"), environ)) as served:
            for name in ("memory", "pumps"):
                create(served.url, name)
            done(served.url, "ingest", str(folder / "boiler.txt"))
            done(served.url, "kb", "ingest", "pumps", str(folder / "pump.txt"))
            yield Remote(served.url, upstream)


def test_ingest_is_kb_ingest_of_the_base_memory(remote: Remote, tmp_path: Path) -> None:
    (tmp_path / "docs/sub").mkdir(parents=True)
    (tmp_path / "docs/sub/lift.txt").write_text("The lift is tested every year.")
    (tmp_path / "docs/manual.pdf").write_bytes((documents.FILES / "manual.pdf").read_bytes())
    words = (str(tmp_path / "docs"), "-", "--recursive", "--document-name", "note.md", "--json")
    lines = [json.loads(line) for line in done(remote.url, "ingest", *words, stdin=b"# Keys").splitlines()]
    assert [(line["name"], line["ok"]) for line in lines] == [
        ("manual.pdf", True),
        ("sub/lift.txt", True),
        ("note.md", True),
    ]
    again = [
        json.loads(line) for line in done(remote.url, "kb", "ingest", "memory", *words, stdin=b"# Keys").splitlines()
    ]
    assert again == [{**line, "unchanged": True} for line in lines]
    found = done(remote.url, "kb", "query", "memory", "limescale", "--max-results", "1", "--json")
    assert json.loads(found)["metadata"]["document_name"] == "manual.pdf"
    assert "page_number" in json.loads(found)["metadata"]


def test_a_dry_run_prints_the_names_and_calls_no_gateway(tmp_path: Path) -> None:
    (tmp_path / "sub").mkdir()
    (tmp_path / "sub/lift.txt").write_text("Lift.")
    away = f"http://127.0.0.1:{free_port()}"
    words = ("ingest", str(tmp_path), "https://example.org/tea", "-", "--recursive", "--dry-run")
    assert done(away, *words) == "sub/lift.txt\nhttps://example.org/tea\nstdin\n"
    assert done(away, *words, "--json").splitlines()[0] == '{"name":"sub/lift.txt"}'


def test_a_document_that_two_arguments_name_is_sent_once(tmp_path: Path) -> None:
    (tmp_path / "lift.txt").write_text("Lift.")
    words = (str(tmp_path), str(tmp_path / "lift.txt"))
    assert done("http://127.0.0.1:1", "ingest", "--dry-run", *words) == "lift.txt\n"


def test_two_documents_of_one_name_are_wrong_usage_and_both_are_named(tmp_path: Path) -> None:
    paths = [tmp_path / folder / "lift.txt" for folder in ("a", "b")]
    ended = run("http://127.0.0.1:1", "ingest", "--dry-run", *map(str, paths))
    assert ended.exit_code == 2
    assert f"{paths[0]} and {paths[1]} would both have the name 'lift.txt'" in ended.stderr


@pytest.mark.parametrize(
    ("words", "replacement"),
    [
        (("ingest", "a", "--kb", "b"), "use `ragstore-gateway kb ingest NAME`"),
        (("ingest", "a", "--collection", "b"), "use `ragstore-gateway kb ingest NAME`"),
        (("ingest", "a", "--chunk-size", "9"), "`ragstore-gateway kb create NAME --set chunkSize=NUMBER`"),
        (("ingest", "a", "--overlap=9"), "`ragstore-gateway kb create NAME --set chunkOverlap=NUMBER`"),
        (("ingest", "a", "--source", "b"), "named by its file or its URL"),
        (("ask", "a", "--collection", "b"), "use --base NAME"),
    ],
)
def test_an_option_that_is_gone_is_wrong_usage_and_names_its_replacement(
    words: tuple[str, ...], replacement: str
) -> None:
    ended = run("http://127.0.0.1:1", *words)
    assert ended.exit_code == 2
    assert f"No such option: {words[2].partition('=')[0]}; " in ended.stderr
    assert replacement in ended.stderr


def test_other_unknown_options_are_wrong_usage(tmp_path: Path) -> None:
    ended = run("http://127.0.0.1:1", "ingest", "a", "--recursiv")
    assert ended.exit_code == 2
    assert "--recursive" in ended.stderr


@pytest.mark.parametrize("words", [("ask", "a"), ("ingest", "a"), ("kb", "list")])
@pytest.mark.parametrize("url", ["localhost:8090", "ftp://localhost", "http://localhost:99999", "/tea"])
def test_an_address_that_is_none_is_wrong_usage(words: tuple[str, ...], url: str) -> None:
    ended = run(url, *words)
    assert (ended.exit_code, f"'{url}' is not the address of a gateway" in ended.stderr) == (2, True)


@pytest.mark.parametrize("words", [("ask", "a"), ("ingest", "a"), ("kb", "query", "a", "b")])
def test_a_gateway_that_cannot_be_reached_is_one_line_with_the_next_step(words: tuple[str, ...]) -> None:
    ended = run(f"http://127.0.0.1:{free_port()}", *words)
    assert (ended.exit_code, ended.stderr.count("\n")) == (1, 1)
    assert "cannot be reached: start it with `ragstore-gateway serve`, or set --url" in ended.stderr


def test_a_request_whose_connection_was_lost_is_sent_again() -> None:
    responses = iter([Response(drop=True), Response(body=[])])
    with LocalServer(lambda _: next(responses)) as server:
        assert done(server.url, "kb", "list") == ""
    assert len(server.requests) == 2


@pytest.mark.parametrize(
    ("status", "body", "message"),
    [
        (
            401,
            {"detail": "A valid API key is\nrequired", "code": "unauthorized"},
            r"A valid .* set .*_API_KEY to a key",
        ),
        (403, {"detail": "The key's role is 'reader'", "code": "forbidden"}, r"The key's role is 'reader' \(403\)$"),
        (404, {"error": "what?"}, "status 404: is it a ragstore-gateway"),
        (200, {"error": "what?"}, "another form: is it a ragstore-gateway"),
    ],
)
async def test_a_response_that_is_an_error_is_one_line_with_exit_code_1(
    status: int, body: dict[str, Any], message: str
) -> None:
    async def respond(_: Received) -> web.StreamResponse:
        return json_response(body, status)

    async with fake_provider(respond) as fake:
        ended = await asyncio.to_thread(run, fake.url, "ask", "a")
    assert (ended.exit_code, ended.stderr.count("\n")) == (1, 1)
    assert re.search(message, ended.stderr.strip()), ended.stderr


def test_ask_shows_the_passages_that_the_model_gets_with_their_numbers(remote: Remote) -> None:
    output = done(remote.url, "ask", QUESTION, "--base", "pumps", "--base", "memory", "--top-k", "2")
    assert re.search(rf"^\[1\] 0\.\d\d boiler\.txt: {BOILER}\n\[2\] 0\.\d\d pump\.txt: {PUMP}\n", output)
    assert output.endswith("\n\nIn the cellar [1].\n")
    sent = remote.upstream.last.json
    assert sent["model"] == "m"
    prompt = sent["messages"][-1]["content"]
    assert prompt.startswith(f"Question: {QUESTION}")
    assert f"Source [1] boiler.txt\n{BOILER}\n\nSource [2] pump.txt\n{PUMP}\n" in prompt


def test_ask_searches_the_base_memory_by_default(remote: Remote) -> None:
    output = done(remote.url, "ask", QUESTION, "--top-k", "1")
    assert "boiler.txt" in output
    assert "pump.txt" not in output


def test_ask_shows_the_sources_that_an_assistant_cites(remote: Remote) -> None:
    task = {"id": "answer", "enableWorkflowRag": True}
    assistant = {"name": "caretaker", "model": "m", "workflow": ["pumps"], "tasks": [task]}
    created = httpx.post(f"{remote.url}/ragstore/assistants", json=assistant)
    assert created.status_code == 201, created.text
    assert done(remote.url, "ask", QUESTION, "--model", "rag/caretaker") == "In the cellar [1].\n\n[1] pump.txt\n"
    both = run(remote.url, "ask", QUESTION, "--model", "rag/caretaker", "--base", "pumps")
    assert (both.exit_code, "leave out --base or --model" in both.stderr) == (2, True)


def test_without_a_passage_no_model_replies(remote: Remote) -> None:
    create(remote.url, "empty")
    before = len(remote.upstream.chats())
    ended = run(remote.url, "ask", QUESTION, "--base", "empty")
    assert (ended.exit_code, ended.stdout) == (0, "")
    assert "No passage was found: `ragstore-gateway kb ingest NAME FILE...` adds documents" in ended.stderr
    assert len(remote.upstream.chats()) == before


def test_without_an_upstream_ask_shows_the_passages_and_the_missing_setting(gateway: Served, tmp_path: Path) -> None:
    (tmp_path / "boiler.txt").write_text(BOILER)
    create(gateway.url, "without-upstream")
    done(gateway.url, "kb", "ingest", "without-upstream", str(tmp_path / "boiler.txt"))
    output = done(gateway.url, "ask", QUESTION, "--base", "without-upstream")
    assert f"boiler.txt: {BOILER}" in output
    assert "No reply: the gateway has no upstream (RAGSTORE_GATEWAY_UPSTREAM_URL is not set)." in output


@pytest.mark.parametrize("words", [("ask", "a", "--base", "absent"), ("kb", "ingest", "absent", "a.txt")])
def test_a_base_that_does_not_exist_is_named_with_the_next_step(gateway: Served, words: tuple[str, ...]) -> None:
    ended = run(gateway.url, *words)
    assert (ended.exit_code, ended.stderr.count("\n")) == (1, 1)
    assert "There is no knowledge base 'absent': `ragstore-gateway kb list` lists the bases" in ended.stderr


@pytest.mark.process
async def test_chunks_are_embedded_once_as_documents_and_a_question_as_a_query(gateway: Served, tmp_path: Path) -> None:
    async def provided(received: Received) -> web.StreamResponse:
        return vectors_of(received)

    (tmp_path / "boiler.txt").write_text(BOILER)
    async with fake_provider(provided) as provider:
        environ = {
            "RAGSTORE_URL": gateway.url,
            "RAGSTORE_GATEWAY_EMBEDDING_PROVIDER": "tei",
            "RAGSTORE_GATEWAY_EMBEDDING_URL": provider.url,
            "RAGSTORE_GATEWAY_EMBEDDING_PARAMETERS": PREFIXES,
        }
        with running(await asyncio.to_thread(start_gateway, tmp_path, environ)) as served:
            parameters = {"baseUrl": provider.url, **json.loads(PREFIXES)}
            create(served.url, "of-commands", embeddingProvider="tei", embeddingParameters=parameters)
            words = ("kb", "ingest", "of-commands", str(tmp_path / "boiler.txt"))
            await asyncio.to_thread(done, served.url, *words)
            assert await asyncio.to_thread(done, served.url, *words) == "boiler.txt: unchanged\n"
            output = await asyncio.to_thread(done, served.url, "ask", QUESTION, "--base", "of-commands")
        embedded = [request.json["inputs"] for request in provider.received if isinstance(request.json, dict)]
    assert embedded.count([f"D: {BOILER}"]) == 1
    assert embedded.count([f"Q: {QUESTION}"]) == 1
    assert f"boiler.txt: {BOILER}" in output


async def test_lines_are_in_the_order_of_the_arguments_and_a_slow_document_delays_no_other(tmp_path: Path) -> None:
    names = [f"{number}.txt" for number in range(9)]
    for name in names:
        (tmp_path / name).write_text(name)
    sent: list[str] = []
    polls = 0

    async def respond(received: Received) -> web.StreamResponse:
        nonlocal polls
        if (found := found_base(received, "memory")) is not None:
            return found
        if received.method == "POST":
            given = [json.loads(line)["documentName"] for line in received.body.splitlines()]
            sent.extend(given)
            outcomes = [{"documentName": each, "status": "pending", "ingestionId": each} for each in given]
            return json_response({"kbId": "memory", "documents": outcomes}, 202)
        # The first document ends when all others have ended.
        polls += 1
        wanted = parse_qs(urlsplit(received.path).query)["ingestionId"]
        ended = [each for each in wanted if polls > 1 or each != names[0]]
        states = [
            {
                "ingestionId": each,
                "status": "completed" if each in ended else "processing",
                "chunks": 1,
                "progress": 0.5,
                "unchanged": False,
            }
            for each in wanted
        ]
        return json_response({"waitingFor": {}, "ingestions": states})

    async with fake_provider(respond) as fake:
        output = await asyncio.to_thread(done, fake.url, "ingest", *(str(tmp_path / name) for name in names))
    assert output == "".join(f"{name}: 1 chunks\n" for name in names)
    assert sorted(sent) == names


async def test_a_document_is_sent_in_parts_with_its_length(tmp_path: Path) -> None:
    content = b"tea " * 500_000
    (tmp_path / "tea.txt").write_bytes(content)
    lengths: list[str] = []

    async def respond(received: Received) -> web.StreamResponse:
        if (found := found_base(received, "memory")) is not None:
            return found
        if received.method == "POST":
            assert received.body == content
            lengths.append(received.headers["Content-Length"])
            return json_response({"ingestionId": "i"}, 202)
        state = {"ingestionId": "i", "status": "completed", "chunks": 1, "progress": 1, "unchanged": False}
        return json_response({"waitingFor": {}, "ingestions": [state]})

    async with fake_provider(respond) as fake:
        assert await asyncio.to_thread(done, fake.url, "ingest", str(tmp_path / "tea.txt")) == "tea.txt: 1 chunks\n"
    assert lengths == [str(len(content))]
