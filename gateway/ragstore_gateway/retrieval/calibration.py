"""`Calibrations`: how the scores of unrelated chunks are distributed, so that scores of several models compare."""

from __future__ import annotations

import time
from collections import OrderedDict
from collections.abc import Sequence
from dataclasses import dataclass, field
from math import sqrt
from typing import Final

from ragstore_gateway.engines.engine_collection import EngineCollection, Vector
from ragstore_gateway.keywords.keyword_index import KeywordIndex

SAMPLE: Final = 64
"""Number of chunks whose scores are read for a question."""

MIN_SAMPLE: Final = 8
"""Fewer chunks show no distribution."""

QUESTIONS: Final = 5
"""Number of questions whose samples are averaged."""

MAX_AGE_SECONDS: Final = 3600.0
MAX_COLLECTIONS: Final = 1000


@dataclass(frozen=True, slots=True)
class Calibration:
    """The mean and the standard deviation of the cosines of questions and chunks that are not related."""

    mean: float
    deviation: float


DEFAULT: Final = Calibration(0.15, 0.11)
"""For a collection with a few chunks. Six judged sets in English and German had deviations of 0.08 to 0.19 with
`builtin/wordllama` and with `builtin/minilm`."""

MIN_DEVIATION: Final = 0.02
"""Equal chunks have none."""


@dataclass(slots=True)
class _Samples:
    began: float
    found: list[Calibration] = field(default_factory=list)


class Calibrations:
    """Calibrates collections by their first questions, and again after an hour.

    Args:
        keywords: chooses chunks.
    """

    def __init__(self, keywords: KeywordIndex) -> None:
        self._keywords = keywords
        self._samples: OrderedDict[str, _Samples] = OrderedDict()

    async def of(self, collection_id: str, store: EngineCollection, vector: Vector) -> Calibration:
        """The calibration of a collection.

        Args:
            collection_id: the collection.
            store: the collection in its engine.
            vector: the vector of a question.

        Raises:
            ServiceError: the engine failed.
        """
        samples = self._samples.get(collection_id)
        if samples is None or time.monotonic() - samples.began > MAX_AGE_SECONDS:
            samples = self._samples[collection_id] = _Samples(time.monotonic())
        self._samples.move_to_end(collection_id)
        if len(self._samples) > MAX_COLLECTIONS:
            self._samples.popitem(last=False)
        if len(samples.found) < QUESTIONS:
            ids = await self._keywords.sample(collection_id, SAMPLE)
            if len(ids) >= MIN_SAMPLE:
                samples.found.append(_calibration([passage.cosine for passage in await store.compare(vector, ids)]))
        return _mean(samples.found)


def _calibration(cosines: Sequence[float]) -> Calibration:
    if len(cosines) < MIN_SAMPLE:
        return DEFAULT
    mean = sum(cosines) / len(cosines)
    variance = sum((cosine - mean) ** 2 for cosine in cosines) / len(cosines)
    return Calibration(mean, max(sqrt(variance), MIN_DEVIATION))


def _mean(found: Sequence[Calibration]) -> Calibration:
    if not found:
        return DEFAULT
    return Calibration(
        sum(each.mean for each in found) / len(found), sum(each.deviation for each in found) / len(found)
    )
