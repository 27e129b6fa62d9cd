"""The figures of a retriever: against their definitions, and over the handbook in the real service."""

from __future__ import annotations

import json
import math
import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ragstore_client import AsyncClient, Base64, Client, InvalidInput
from ragstore_client.evaluate import Options, parse, run
from ragstore_client.evaluation import Question, evaluate, ndcg, read_questions, recall
from tests.support.nested import NESTED
from tests.support.servers import Served

ROOT = Path(__file__).resolve().parents[2]
HANDBOOK = ROOT / "examples/handbook"

ids = st.sampled_from("abcdefgh")
rankings = st.lists(ids, unique=True, max_size=8)
gains = st.dictionaries(ids, st.floats(0.1, 5), min_size=1)


def question(**relevant: float) -> Question:
    return Question(id="1", text="What?", relevant=relevant)


def test_the_figures_are_those_of_a_hand_made_example() -> None:
    questions = [question(a=1, b=1), question(c=1), question(d=3, e=1)]
    found = evaluate(questions, [["x", "a", "b"], ["x", "y"], ["e", "d"]], cutoffs=(1, 2, 3))
    assert [result.rank for result in found.results] == [2, None, 1]
    assert found.mrr == pytest.approx((1 / 2 + 0 + 1) / 3)
    assert [found.recall(cutoff) for cutoff in (1, 2, 3)] == pytest.approx([1 / 6, 1 / 2, 2 / 3])
    third = (1 + 3 / math.log2(3)) / (3 + 1 / math.log2(3))
    second = (1 / math.log2(3)) / (1 + 1 / math.log2(3))
    assert found.ndcg(2) == pytest.approx((second + third) / 3)


@given(rankings, gains, st.integers(1, 9))
def test_recall_and_ndcg_are_within_0_and_1_and_recall_never_falls(
    ranking: list[str], relevant: dict[str, float], cutoff: int
) -> None:
    assert 0 <= recall(ranking, relevant, cutoff) <= recall(ranking, relevant, cutoff + 1) <= 1
    assert 0 <= ndcg(ranking, relevant, cutoff) <= 1 + 1e-9


@given(gains, st.integers(1, 9))
def test_the_best_ranking_has_an_ndcg_of_1(relevant: dict[str, float], cutoff: int) -> None:
    best = sorted(relevant, key=lambda name: -relevant[name])
    assert ndcg(best, relevant, cutoff) == pytest.approx(1)


def test_a_repeated_id_counts_once() -> None:
    assert evaluate([question(a=1, b=1)], [["a", "a", "b"]], cutoffs=(2,)).recall(2) == 1


@pytest.mark.parametrize("relevant", [{}, {"a": 0.0}, {"a": -1.0}, {"a": math.inf}])
def test_a_question_without_positive_gains_is_an_error(relevant: dict[str, float]) -> None:
    with pytest.raises(InvalidInput, match="question '1'"):
        evaluate([question(**relevant)], [["a"]])


def test_questions_are_read_with_ids_or_gains(tmp_path: Path) -> None:
    file = tmp_path / "questions.jsonl"
    file.write_text('{"text": "A?", "relevant": ["x"], "more": 1}\n\n{"id": "q", "text": "B?", "relevant": {"y": 2}}\n')
    assert [(found.id, found.gains) for found in read_questions(file)] == [("1", {"x": 1.0}), ("q", {"y": 2.0})]


def test_a_line_that_is_no_question_is_named(tmp_path: Path) -> None:
    file = tmp_path / "questions.jsonl"
    file.write_text('{"text": "A?"}\n{"relevant": []}\n')
    with pytest.raises(InvalidInput, match="line 2"):
        read_questions(file)
    file.write_bytes(b'{"text": "A?"}\n{"text": "B?", "more": ' + NESTED.strip() + b"}\n")
    with pytest.raises(InvalidInput, match="line 2"):
        read_questions(file)


@pytest.fixture
def handbook_collection(store: Client, client_collection: str) -> str:
    """The passages of the handbook example."""
    lines = (HANDBOOK / "passages.jsonl").read_text().splitlines()
    store.upsert_documents(
        client_collection, [{**row, "embedding": Base64(row["embedding"])} for row in map(json.loads, lines)]
    )
    return client_collection


def command(service: Served, collection: str, *more: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [
            *(sys.executable, "-m", "ragstore_client.evaluate", HANDBOOK / "questions.jsonl"),
            *("--url", service.url, "--collection", collection, *more),
        ],
        capture_output=True,
        text=True,
    )


def test_the_command_prints_the_table_of_the_handbook(client_service: Served, handbook_collection: str) -> None:
    done = command(
        client_service, handbook_collection, "--where", '{"layer": "chunk"}', "--match", "section_heading=answer_in"
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith("12 questions, MRR 0.9")
    assert done.stdout.strip() in (ROOT / "examples/README.md").read_text()


@pytest.mark.parametrize("where", ["5", "[]", "null", "{", '{"a": NaN}', '"x"'])
def test_a_filter_that_is_no_json_object_is_an_error_of_the_command(
    where: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit):
        parse([str(HANDBOOK / "questions.jsonl"), "--collection", "c", "--where", where])
    assert "--where: must be a JSON object" in capsys.readouterr().err


async def test_a_question_may_contain_any_white_space_of_json(
    client_service: Served, store: Client, client_collection: str, tmp_path: Path
) -> None:
    store.upsert_documents(
        client_collection, [{"id": "a", "text": "x", "embedding": [1, 0], "metadata": {"topic": "t"}}]
    )
    file = tmp_path / "questions.jsonl"
    file.write_bytes(b'{\r"text": "x",\r"embedding": [1, 0], "about": "t"}\n')
    options = Options(file=file, collection=client_collection, match=("topic", "about"))
    async with AsyncClient(client_service.url) as client:
        assert (await run(client, options)).mrr == 1


def test_the_command_says_what_is_wrong(client_service: Served, handbook_collection: str, archive_name: str) -> None:
    without = command(client_service, handbook_collection)
    assert without.returncode == 1
    assert "needs relevant passages" in without.stderr
    missing = command(client_service, f"{archive_name}-missing", "--match", "section_heading=answer_in")
    assert "Traceback" not in missing.stderr
    assert "not found" in missing.stderr
