"""`ragstore-gateway evaluate` against a running gateway."""

from __future__ import annotations

import json
from pathlib import Path
from uuid import uuid4

import pytest
from click.testing import CliRunner, Result

from ragstore_gateway.commands.cli import main
from tests.gateway.test_kb import done
from tests.support.servers import Served

pytestmark = pytest.mark.process

DOCUMENTS = {
    "kettle.txt": "The warranty of the kettle lasts three years.",
    "trains.txt": "Trains to the airport leave at noon.",
    "museum.txt": "The museum of modern art is closed on Mondays.",
}


@pytest.fixture(scope="module")
def base(gateway: Served, tmp_path_factory: pytest.TempPathFactory) -> str:
    """A base with three documents."""
    name = f"evaluated-{uuid4().hex[:8]}"
    folder = tmp_path_factory.mktemp("evaluated")
    for document, text in DOCUMENTS.items():
        (folder / document).write_text(text)
    done(gateway.url, "create", name)
    done(gateway.url, "ingest", name, *(str(folder / document) for document in DOCUMENTS))
    return name


def run(gateway: Served, *words: str) -> Result:
    """Run the command."""
    return CliRunner().invoke(main, ["evaluate", *words], env={"RAGSTORE_GATEWAY_URL": gateway.url})


def questions(folder: Path, *lines: object) -> str:
    """A file of questions."""
    file = folder / "questions.jsonl"
    file.write_text("\n".join(json.dumps(line) for line in lines) + "\n\n")
    return str(file)


GOOD = {"text": "How long is the warranty of the kettle?", "relevant": [next(iter(DOCUMENTS))]}
BAD = {"text": "How long is the warranty of the kettle?", "relevant": ["absent.txt"]}


def test_the_figures_of_a_base_are_printed(gateway: Served, base: str, tmp_path: Path) -> None:
    result = run(gateway, questions(tmp_path, GOOD, BAD), base)
    assert result.exit_code == 0, result.output
    assert f"{base}: 2 questions, MRR 0.500" in result.output
    assert "| 10 | 0.500 | 0.500 |" in result.output


def test_each_base_has_its_figures_and_those_of_each_question(gateway: Served, base: str, tmp_path: Path) -> None:
    result = run(gateway, questions(tmp_path, {**GOOD, "id": "q"}), base, base, "--json")
    first, second = [json.loads(line) for line in result.output.splitlines()]
    assert first == second
    assert (first["base"], first["ndcg@10"], first["recall@5"], first["mrr"]) == (base, 1.0, 1.0, 1.0)
    assert [(each["id"], each["rank"]) for each in first["questions"]] == [("q", 1)]


@pytest.mark.parametrize(
    ("option", "minimum", "code"), [("--min-ndcg", 0.4, 0), ("--min-ndcg", 0.6, 1), ("--min-recall", 0.6, 1)]
)
def test_a_figure_below_its_minimum_is_exit_code_1(
    gateway: Served, base: str, tmp_path: Path, option: str, minimum: float, code: int
) -> None:
    assert run(gateway, questions(tmp_path, GOOD, BAD), base, option, str(minimum)).exit_code == code


def test_a_follow_up_is_searched_for_with_the_messages_before_it(gateway: Served, base: str, tmp_path: Path) -> None:
    follow_up = {
        "text": "And on which day is it closed?",
        "relevant": ["museum.txt"],
        "earlier": ["Where is modern art?"],
    }
    assert run(gateway, questions(tmp_path, follow_up), base, "--min-ndcg", "1").exit_code == 0


def test_a_file_may_have_tabs(gateway: Served, base: str, tmp_path: Path) -> None:
    file = tmp_path / "questions.tsv"
    file.write_text("When do trains leave?\ttrains.txt, kettle.txt\n")
    result = run(gateway, str(file), base, "--json")
    assert result.exit_code == 0, result.output
    assert json.loads(result.output)["recall@5"] == 1.0


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("a.jsonl", '{"text": "a", "relevant": ["b"]}\n{"text": "a"}', "a.jsonl, line 2"),
        ("a.jsonl", '{"text": "a", "relevant": ["b"], "relevnt": 1}', "relevnt"),
        ("a.tsv", "a question without documents", "a.tsv, line 1: Must be a question, a tab"),
        ("a.jsonl", '{"text": "a", "relevant": []}', "needs relevant passages"),
        ("a.jsonl", "", "there must be questions"),
    ],
)
def test_a_file_that_is_wrong_is_wrong_usage(
    gateway: Served, base: str, tmp_path: Path, name: str, content: str, message: str
) -> None:
    (tmp_path / name).write_text(content)
    result = run(gateway, str(tmp_path / name), base)
    assert result.exit_code == 2
    assert message in result.output


def test_a_base_that_does_not_exist_is_named(gateway: Served, tmp_path: Path) -> None:
    result = run(gateway, questions(tmp_path, GOOD), "no-such-base")
    assert result.exit_code == 1
    assert "no-such-base" in result.output
