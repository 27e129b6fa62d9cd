"""The layout of the map, run by Node on maps of the service: what it keeps of the neighbours."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final

import httpx
import numpy as np
import pytest

from tests.page.maps import CLUSTERS, PER_TOPIC, topics
from tests.support.pages import ROOT
from tests.support.servers import Served

NEIGHBOURS: Final = 15

RUN: Final = """
import { placed, refined } from "./layout.mjs";
import { readFileSync } from "node:fs";
const { x, y, neighbours, distances } = JSON.parse(readFileSync(0, "utf8"));
const at = placed(x, y);
const before = [...at];
for (const _ of refined(at, neighbours, distances));
console.log(JSON.stringify({ before, after: [...at] }));
"""


@pytest.fixture(scope="module")
def program(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A program of Node that refines the map that it reads."""
    folder = tmp_path_factory.mktemp("layout")
    esbuild = ROOT / "page/node_modules/.bin/esbuild"
    source = ROOT / "page/src/collections/map/layout.ts"
    subprocess.run([esbuild, source, "--format=esm", f"--outfile={folder / 'layout.mjs'}"], check=True, timeout=60)
    (folder / "run.mjs").write_text(RUN)
    return folder / "run.mjs"


def refine(program: Path, map_: dict[str, Any]) -> dict[str, list[list[float]]]:
    """The positions of a map before and after its refinement."""
    ran = subprocess.run(
        ["node", program], input=json.dumps(map_), capture_output=True, text=True, check=True, timeout=120
    )
    return {name: np.reshape(numbers, (-1, 2)).tolist() for name, numbers in json.loads(ran.stdout).items()}


def kept(positions: Sequence[Sequence[float]]) -> float:
    """The share of the nearest points on a map that have the same topic."""
    at, of = np.array(positions), np.array(topics())
    distances = np.linalg.norm(at[:, None] - at[None], axis=2)
    np.fill_diagonal(distances, np.inf)
    nearest = np.argsort(distances, axis=1)[:, :NEIGHBOURS]
    return float((of[nearest] == of[:, None]).mean())


@pytest.fixture(scope="module")
def clustered(clusters: Served) -> dict[str, Any]:
    """The map of a collection of clusters."""
    response = httpx.post(f"{clusters.url}/collections/{CLUSTERS}/map", json={}, timeout=60).raise_for_status()
    found: dict[str, Any] = response.json()
    assert found["ids"] == [f"d{index}" for index in range(len(topics()))]
    return found


def test_a_refined_map_keeps_the_neighbours_that_a_projection_loses(program: Path, clustered: dict[str, Any]) -> None:
    positions = refine(program, clustered)
    shares = {name: round(kept(each), 2) for name, each in positions.items()}
    print(shares)  # noqa: T201

    assert shares["before"] < 0.5
    assert shares["after"] > 0.95


def test_the_positions_do_not_depend_on_the_run(program: Path, clustered: dict[str, Any]) -> None:
    assert refine(program, clustered) == refine(program, clustered)


@pytest.mark.parametrize("points", [0, 1, 2, PER_TOPIC])
def test_equal_documents_and_few_of_them_have_finite_positions(program: Path, points: int) -> None:
    near = [[other for other in range(points) if other != point][:NEIGHBOURS] for point in range(points)]
    map_ = {
        "x": [0.0] * points,
        "y": [0.0] * points,
        "neighbours": near,
        "distances": [[0.0] * len(row) for row in near],
    }
    after = np.array(refine(program, map_)["after"])

    assert len(after) == points
    assert np.isfinite(after).all()
    assert len(np.unique(after, axis=0)) == points
