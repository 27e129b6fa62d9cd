"""Orders passages: by similarity, or by maximal marginal relevance."""

from __future__ import annotations

import math
from array import array
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, cast

from ragstore_client._exceptions import InvalidConfiguration, InvalidInput
from ragstore_client._types import FloatArray
from ragstore_client._vectors import to_float32
from ragstore_client.context._passages import Passage, Vector

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    Floats = NDArray[np.float32]


def by_similarity(passages: Iterable[Passage]) -> list[Passage]:
    """Order passages by similarity.

    Args:
        passages: the passages, in any order.

    Returns:
        The most similar passage first, equal ones in the given order, and passages without a similarity last.
    """
    return sorted(passages, key=_dissimilarity)


def maximal_marginal_relevance(
    query_embedding: Vector | None, passages: Sequence[Passage], *, k: int, diversity: float
) -> list[Passage]:
    """Choose passages that are similar to the query and unlike each other (MMR).

    The first passage is the most similar one. Each further one has the highest score

        (1 - diversity) * sim(query, d) + diversity * (1 - max(sim(d, chosen)))

    where `sim` is the cosine similarity. `diversity` is the `MMR_LAMBDA` of other projects; LangChain's `lambda_mult`
    is 1 - diversity.

    Args:
        query_embedding: the query's vector, of the dimension of the passages' vectors; None when it is not known, and
            each passage has its cosine similarity to the query.
        passages: the candidates, each with an embedding. Three times `k` are a common number.
        k: maximum number of passages to choose.
        diversity: 0 to 1; 0 orders by similarity alone, 1 by diversity alone after the first passage.

    Returns:
        The chosen passages, in the order of the choice.

    Raises:
        InvalidConfiguration: `diversity` is out of range, or numpy is not installed (extra `context`).
        InvalidInput: a passage has no embedding, or one of another dimension, or neither it nor the query says how
            similar they are.
    """
    if not 0.0 <= diversity <= 1.0:
        raise InvalidConfiguration(f"diversity must be between 0 and 1, not {diversity:g}")
    if k <= 0 or not passages:
        return []
    if query_embedding is None:
        vectors = [_vector(passage, None) for passage in passages]
        if len({len(vector) for vector in vectors}) > 1 or any(passage.similarity is None for passage in passages):
            raise InvalidInput("MMR without a query's vector needs similarities, and embeddings of one dimension")
        known = array("f", [passage.similarity or 0.0 for passage in passages])
        chosen = choose(None, vectors, k=k, diversity=diversity, similarities=known)
    else:
        query = to_float32(query_embedding)
        chosen = choose(query, [_vector(passage, len(query)) for passage in passages], k=k, diversity=diversity)
    return [passages[index] for index in chosen]


def choose(
    query: FloatArray | None,
    vectors: Sequence[FloatArray],
    *,
    k: int,
    diversity: float,
    similarities: FloatArray | None = None,
) -> list[int]:
    """Choose vectors by maximal marginal relevance.

    Args:
        query: the query's vector: float32, shape (d,); None with `similarities`.
        vectors: the candidates: float32, n of shape (d,).
        k: maximum number of vectors to choose.
        diversity: 0 to 1, as for `maximal_marginal_relevance`.
        similarities: the candidates' similarities to the query: float32, shape (n,); None with `query`.

    Returns:
        The indexes of the chosen vectors, in the order of the choice.

    Raises:
        InvalidConfiguration: numpy is not installed.
    """
    try:
        import numpy as np
    except ImportError:
        raise InvalidConfiguration("MMR needs numpy: install ragstore-client[context]") from None
    matrix = np.frombuffer(b"".join(vectors), np.float32).reshape(len(vectors), len(vectors[0]))
    matrix = _normalize_rows(matrix, np.linalg.norm(matrix, axis=1))
    if query is None:
        similarity = np.nan_to_num(np.array(similarities, np.float32), nan=-1.0)
    else:
        # einsum runs in this thread. With `@`, BLAS waits for threads of its own: on two busy cores, 40 of 1,000
        # vectors of 768 dimensions took 316 ms at the 90th percentile, and take 11 ms with einsum (numpy 2.4).
        unit = _normalize_rows(np.frombuffer(query, np.float32), np.linalg.norm(query))
        similarity = np.einsum("ij,j->i", matrix, unit)
    relevance = np.float32(1.0 - diversity) * similarity
    best = int(np.argmax(similarity))
    chosen = [best]
    closest = np.full(len(vectors), -np.inf, np.float32)
    while len(chosen) < min(k, len(vectors)):
        # `closest` is the highest similarity to a chosen vector so far, so each step is one product of shape (n, d).
        np.maximum(closest, np.einsum("ij,j->i", matrix, matrix[best]), out=closest)
        score = relevance - np.float32(diversity) * closest
        score[chosen] = -np.inf
        best = int(np.argmax(score))
        chosen.append(best)
    return chosen


def _normalize_rows(matrix: Floats, norms: Floats | np.floating) -> Floats:
    """Divide vectors by their norms. A vector that is zero, or not finite, becomes zero: similar to nothing."""
    import numpy as np

    with np.errstate(divide="ignore", invalid="ignore"):
        scaled = matrix / np.asarray(norms)[..., np.newaxis]
    return cast("Floats", np.nan_to_num(scaled, copy=False, nan=0.0, posinf=0.0, neginf=0.0))


def _vector(passage: Passage, dimension: int | None) -> FloatArray:
    if passage.embedding is None:
        raise InvalidInput("MMR needs an embedding of every passage")
    vector = to_float32(passage.embedding)
    if dimension is not None and len(vector) != dimension:
        raise InvalidInput(f"an embedding has {len(vector)} dimensions, the query has {dimension}")
    return vector


def _dissimilarity(passage: Passage) -> float:
    similarity = passage.similarity
    return math.inf if similarity is None or math.isnan(similarity) else -similarity
