"""Measure the context library: token estimate, selection, MMR, citations, and the time of its steps.

    python -m benchmarks.context                             all tables, from the samples of the tests
    python -m benchmarks.context --corpus de=FILE ...        the estimate on larger texts as well

docs/context-figures.md has the results. The tests use the same tokenizers; their packages are in the group `dev`.
"""

from __future__ import annotations

import argparse
import random
import statistics
import time
from array import array
from collections.abc import Callable, Iterable
from functools import partial
from itertools import combinations
from pathlib import Path

import numpy as np

from ragstore_client.context import (
    STYLES,
    Budget,
    Passage,
    above_threshold,
    by_similarity,
    deduplicate,
    estimate_tokens,
    maximal_marginal_relevance,
    select,
)
from tests.client.context.citation_corpus import cases, score
from tests.client.context.tokenizers import LANGUAGES, TOKENIZERS, sample

WINDOWS = 2_000
SEED = 13


def print_row(*cells: object) -> None:
    """Print a row of a Markdown table."""
    print("|", " | ".join(map(str, cells)), "|")


def windows(text: str, count: int) -> list[str]:
    """Random parts of a text, of 20 to 4,000 characters; short ones are as frequent as long ones."""
    rng = random.Random(SEED)  # noqa: S311  # a made-up load
    parts: list[str] = []
    for _ in range(count):
        size = min(int(10 ** rng.uniform(1.3, 3.6)), len(text))
        start = rng.randrange(len(text) - size + 1)
        parts.append(text[start : start + size])
    return parts


def estimate(corpora: dict[str, str]) -> None:
    """The error of the estimate: of the whole, and the windows that are undercounted."""
    print_row("text", "characters", "tokenizer", "estimate / tokens", "windows undercounted", "worst window")
    print_row(*["---"] * 6)
    for name, text in corpora.items():
        parts = windows(text, WINDOWS)
        estimates = [estimate_tokens(part) for part in parts]
        # In pieces, as passages are: one text of a megabyte would hide the constant part of the estimate.
        passages = [text[start : start + 2_000] for start in range(0, len(text), 2_000)]
        for tokenizer, make in TOKENIZERS.items():
            count = make()
            whole = sum(map(estimate_tokens, passages)) / sum(map(count, passages))
            ratios = [guess / max(count(part), 1) for guess, part in zip(estimates, parts, strict=True)]
            under = sum(ratio < 1 for ratio in ratios)
            print_row(
                name, f"{len(text):,}", tokenizer, f"{whole:.2f}", f"{under} of {len(parts)}", f"{min(ratios):.2f}"
            )


def selection() -> None:
    """The loss of the greedy selection in summed similarity, compared with the best of all subsets."""
    rng = random.Random(SEED)  # noqa: S311  # a made-up load
    losses: list[float] = []
    for _ in range(1_000):
        passages = [
            Passage(id=str(i), text="x" * rng.randint(40, 2_000), similarity=rng.uniform(0.2, 0.9))
            for i in range(rng.randint(3, 10))
        ]
        style = STYLES["sections"]
        cost = {p.id: select([p], style=style)[0].tokens for p in passages}
        limit = rng.uniform(0.2, 0.9) * sum(cost.values())
        budget = Budget(token_budget=int(limit) + sum(map(estimate_tokens, style.frame)))
        chosen = select(by_similarity(passages), style=style, budget=budget)
        best = max(
            sum(p.similarity or 0.0 for p in subset)
            for size in range(len(passages) + 1)
            for subset in combinations(passages, size)
            if sum(cost[p.id] for p in subset) <= int(limit)
        )
        if best:
            losses.append(1 - sum(p.similarity or 0.0 for p in chosen) / best)
    print_row("inputs", "optimal", "mean loss", "p90", "p99", "maximum")
    print_row(*["---"] * 6)
    cuts = statistics.quantiles(losses, n=100)
    optimal = sum(loss < 1e-9 for loss in losses) / len(losses)
    figures = (statistics.mean(losses), cuts[89], cuts[98], max(losses))
    print_row(len(losses), f"{optimal:.0%}", *(f"{figure:.1%}" for figure in figures))


def timed(call: Callable[[], object], repeats: int) -> tuple[float, float]:
    """The median and the 99th percentile of a call's time, in milliseconds."""
    times: list[float] = []
    for _ in range(repeats):
        started = time.perf_counter()
        call()
        times.append((time.perf_counter() - started) * 1000)
    return statistics.median(times), statistics.quantiles(times, n=100)[98]


def steps() -> None:
    """The time of MMR, and of all steps without I/O for 40 passages of 500 tokens."""
    rng = np.random.default_rng(SEED)
    vectors = rng.normal(size=(1_000, 768)).astype(np.float32)
    query = vectors[0] + 0.1 * vectors[1]
    print_row("step", "median ms", "p99 ms")
    print_row(*["---"] * 3)
    forms: dict[str, list[Passage]] = {
        "float32 bytes": [Passage(id=str(i), text="", embedding=v.tobytes()) for i, v in enumerate(vectors)],
        "array('f')": [Passage(id=str(i), text="", embedding=array("f", v.tobytes())) for i, v in enumerate(vectors)],
        "lists of floats": [Passage(id=str(i), text="", embedding=v.tolist()) for i, v in enumerate(vectors)],
    }
    for form, passages in forms.items():
        figures = timed(partial(maximal_marginal_relevance, query, passages, k=40, diversity=0.7), 100)
        print_row(f"MMR, 1,000 to 40, 768 dimensions, {form}", *(f"{figure:.1f}" for figure in figures))
    text = sample("en") * 4
    of_500_tokens = 2_150
    candidates = [
        Passage(
            id=str(i),
            text=text[i * 37 : i * 37 + of_500_tokens],
            metadata={"file_name": "manual.pdf", "chunk_index": i},
            similarity=0.9 - i / 100,
        )
        for i in range(40)
    ]
    style = STYLES["sections"]

    def build(count: Callable[[str], int]) -> Callable[[], object]:
        def call() -> str:
            passages = by_similarity(deduplicate(above_threshold(candidates)))
            selected = select(passages, style=style, count_tokens=count)
            return style.text("How long is the warranty?", selected)

        return call

    for name, count in (("estimate", estimate_tokens), ("o200k_base", TOKENIZERS["o200k_base"]())):
        figures = timed(build(count), 200)
        print_row(f"threshold to format, 40 passages of 500 tokens, {name}", *(f"{figure:.1f}" for figure in figures))


def citations() -> None:
    """Precision and recall of `check_citations`."""
    print_row("kind", "answers", "right", "superfluous", "missing", "precision", "recall")
    print_row(*["---"] * 7)
    kinds = [case.kind for case in cases()]
    for kind, entry in score().items():
        number = len(kinds) if kind == "total" else kinds.count(kind)
        ratios = (f"{entry.precision:.3f}", f"{entry.recall:.3f}")
        print_row(kind, number, entry.right, entry.superfluous, entry.missing, *ratios)


def main() -> None:
    """Print the tables."""
    parser = argparse.ArgumentParser(description="Measure the context library.")
    parser.add_argument("--corpus", action="append", default=[], metavar="NAME=FILE", help="a further text to estimate")
    given: Iterable[str] = parser.parse_args().corpus
    corpora = {f"{language} (sample)": sample(language) for language in LANGUAGES}
    for each in given:
        name, _, path = each.partition("=")
        corpora[name] = Path(path).read_text(errors="replace").replace("\ufffd", "")[:2_000_000]
    print("\nestimate of tokens\n")
    estimate(corpora)
    print("\nselection\n")
    selection()
    print("\ntime\n")
    steps()
    print("\ncitations\n")
    citations()


if __name__ == "__main__":
    main()
