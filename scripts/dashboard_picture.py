"""Draw the dashboard from a Prometheus: `python scripts/dashboard_picture.py ADDRESS SECONDS PICTURE [END]`.

The script runs the queries of each panel of dashboard.json against Prometheus, for the SECONDS before END (a Unix time;
default: now), arranges the panels in the dashboard's layout, and renders a PNG with Chromium (Debian's package).
Grafana is not needed.
"""

import html
import json
import math
import subprocess
import sys
import tempfile
import time
import urllib.parse
import urllib.request
from pathlib import Path
from typing import Any

DASHBOARD = Path(__file__).resolve().parents[1] / "k8s/monitoring/dashboard.json"
COLUMN, ROW, GAP = 62, 26, 8
COLORS = ["#73bf69", "#f2cc0c", "#5794f2", "#ff9830", "#f2495c", "#b877d9", "#6ed0e0", "#e0b400", "#96d98d", "#ff7383"]
COLORS += ["#8ab8ff", "#ca95e5", "#fade2a"]
STAT_COLORS = {"green": "#73bf69", "orange": "#ff9830", "red": "#f2495c"}
INTERVAL = "15s"
"""Replaces Grafana's $__rate_interval; Prometheus scrapes every second."""

Series = tuple[str, list[tuple[float, float]]]


class Prometheus:
    """Evaluates expressions over a time range.

    Args:
        address: the URL of Prometheus.
        seconds: the length of the range.
        end: the end of the range, as Unix time.
    """

    def __init__(self, address: str, seconds: float, end: float) -> None:
        self._address = address
        self.end = end
        self.begin = self.end - seconds
        self.step = max(1, seconds / 300)

    def query(self, target: dict[str, str]) -> list[Series]:
        """The series of one target of a panel: the legend, and the points in time."""
        expression = target["expr"].replace("$__rate_interval", INTERVAL)
        expression = expression.replace("$job", ".*").replace("$instance", ".*")
        parameters = {"query": expression, "start": self.begin, "end": self.end, "step": self.step}
        with urllib.request.urlopen(
            f"{self._address}/api/v1/query_range?{urllib.parse.urlencode(parameters)}"
        ) as response:
            found = json.load(response)["data"]["result"]
        return [
            (_legend(target["legendFormat"], series["metric"]), [(at, float(value)) for at, value in series["values"]])
            for series in found
        ]


def _legend(template: str, labels: dict[str, str]) -> str:
    for name, value in labels.items():
        template = template.replace(f"{{{{{name}}}}}", value)
    return template


def shown(value: float, unit: str) -> str:
    """Format a number with its unit, in three significant digits."""
    if math.isnan(value):
        return "-"
    if unit == "s":
        return f"{value:.3g} s" if value >= 1 or value == 0 else f"{value * 1000:.3g} ms"
    if unit == "percentunit":
        return f"{value * 100:.3g} %"
    if unit == "bytes":
        for prefix in ("B", "KiB", "MiB"):
            if value < 1024:
                return f"{value:.3g} {prefix}"
            value /= 1024
        return f"{value:.3g} GiB"
    suffix = {"reqps": " req/s", "ops": " /s"}.get(unit, "")
    return (f"{value / 1000:.3g} k" if value >= 1000 else f"{value:.3g}") + suffix


def nice(top: float, unit: str = "") -> float:
    """The next round number, for the upper limit of an axis."""
    if top <= 0:
        return 1.0
    if unit == "bytes":
        return float(2 ** math.ceil(math.log2(top)))
    power = 10 ** math.floor(math.log10(top))
    return float(next(power * factor for factor in (1, 2, 4, 6, 8, 10) if power * factor >= top * 0.999))


def stacked(series: list[Series]) -> list[Series]:
    """Add to each series the sum of those before it."""
    below: dict[float, float] = {}
    result = []
    for legend, points in series:
        risen = [(at, below.get(at, 0.0) + (0 if math.isnan(value) else value)) for at, value in points]
        below.update(risen)
        result.append((legend, risen))
    return result


def graph(panel: dict[str, Any], series: list[Series], source: Prometheus, width: int, height: int) -> str:
    """Draw a time series as SVG, with its legend below."""
    unit, custom = panel["fieldConfig"]["defaults"]["unit"], panel["fieldConfig"]["defaults"]["custom"]
    stack = custom["stacking"]["mode"] == "normal"
    series = [one for one in series if any(value for _, value in one[1] if not math.isnan(value))] or series[:1]
    drawn = stacked(series) if stack else series
    lines = max(1, sum(len(legend) * 6.2 + 26 for legend, _ in series) / (width - 20))
    plot = height - 58 - 15 * min(8, math.ceil(lines * 1.3))
    left, right = 62, width - 10
    top = nice(max((value for _, points in drawn for _, value in points if not math.isnan(value)), default=0.0), unit)

    def x(at: float) -> float:
        return left + (at - source.begin) / (source.end - source.begin) * (right - left)

    def y(value: float) -> float:
        return 8 + (1 - value / top) * (plot - 8)

    parts = []
    for number in range(5):
        level = top * number / 4
        parts.append(f'<line x1="{left}" x2="{right}" y1="{y(level):.1f}" y2="{y(level):.1f}" class="grid"/>')
        label = shown(level, unit)
        parts.append(f'<text x="{left - 6}" y="{y(level) + 4:.1f}" class="axis" text-anchor="end">{label}</text>')
    for number in range(1, 5):
        at = source.begin + (source.end - source.begin) * number / 5
        clock = time.strftime("%H:%M:%S", time.gmtime(at))
        parts.append(f'<text x="{x(at):.1f}" y="{plot + 16}" class="axis" text-anchor="middle">{clock}</text>')
    layers = list(enumerate(drawn))
    for index, (_, points) in reversed(layers) if stack else layers:
        color = COLORS[index % len(COLORS)]
        for run in runs(points, source.step):
            path = " L".join(f"{x(at):.1f},{y(value):.1f}" for at, value in run)
            area = f"M{x(run[0][0]):.1f},{y(0):.1f} L{path} L{x(run[-1][0]):.1f},{y(0):.1f} Z"
            opacity = 1 if stack else custom["fillOpacity"] / 100
            fill = f"color-mix(in srgb, {color} 45%, #181b1f)" if stack else color
            parts.append(f'<path d="{area}" fill="{fill}" fill-opacity="{opacity}"/>')
            parts.append(f'<path d="M{path}" fill="none" stroke="{color}" stroke-width="1.4"/>')
    keys = "".join(
        f'<span><i style="background:{COLORS[index % len(COLORS)]}"></i>{html.escape(legend)}</span>'
        for index, (legend, _) in enumerate(series)
    )
    return f'<svg width="{width}" height="{plot + 22}">{"".join(parts)}</svg><div class="keys">{keys}</div>'


def runs(points: list[tuple[float, float]], step: float) -> list[list[tuple[float, float]]]:
    """Split points into runs without a gap."""
    found: list[list[tuple[float, float]]] = []
    last = -math.inf
    for at, value in points:
        if math.isnan(value):
            continue
        if at - last > step * 1.5:
            found.append([])
        found[-1].append((at, value))
        last = at
    return found


def stat(panel: dict[str, Any], series: list[Series], source: Prometheus, width: int, height: int) -> str:
    """Draw the last value in large type, over its history."""
    defaults = panel["fieldConfig"]["defaults"]
    latest = [value for _, points in series for _, value in points[-1:]]
    color = "green"
    for level in defaults["thresholds"]["steps"]:
        if level["value"] is None or (latest and latest[0] >= level["value"]):
            color = level["color"]
    text = shown(latest[0], defaults["unit"]) if latest else "-"
    legend = series[0][0] if series else ""
    parts = []
    top = nice(max((value for _, points in series for _, value in points if not math.isnan(value)), default=0.0))
    for _, points in series[:1]:
        for run in runs(points, source.step):
            spots = [
                f"{(at - source.begin) / (source.end - source.begin) * width:.1f},{height - 26 - value / top * 28:.1f}"
                for at, value in run
            ]
            first, last = spots[0].split(",")[0], spots[-1].split(",")[0]
            outline = f"M{first},{height - 26} L{' L'.join(spots)} L{last},{height - 26} Z"
            parts.append(f'<path d="{outline}" fill="{STAT_COLORS[color]}" fill-opacity="0.25"/>')
    return (
        f'<svg class="spark" width="{width}" height="{height - 26}">{"".join(parts)}</svg>'
        f'<div class="stat" style="color:{STAT_COLORS[color]}">{text}<small>{html.escape(legend)}</small></div>'
    )


STYLE = """
body { margin: 0; background: #111217; font: 12px "DejaVu Sans", sans-serif; color: #ccccdc; }
h1 { font-size: 18px; font-weight: 500; margin: 0; position: absolute; left: 12px; top: 10px; }
.panel, .row { position: absolute; box-sizing: border-box; overflow: hidden; }
.panel { background: #181b1f; border: 1px solid #2c2f36; border-radius: 3px; }
.panel b, .row b { font-weight: 600; display: block; padding: 6px 8px 2px; white-space: nowrap; }
.row b { font-size: 14px; }
.grid { stroke: #2c3038; } .axis { fill: #9a9aa5; font-size: 10px; }
.keys { padding: 0 8px; line-height: 15px; font-size: 10.5px; } .keys span { margin-right: 10px; white-space: nowrap; }
.keys i { display: inline-block; width: 12px; height: 3px; margin-right: 5px; vertical-align: middle; }
.stat { position: absolute; inset: 26px 0 0 0; font-size: 28px; text-align: center; }
.stat small { display: block; font-size: 11px; color: #9a9aa5; }
.spark { position: absolute; left: 0; bottom: 0; }
"""


def page(source: Prometheus) -> tuple[str, int, int]:
    """Build the dashboard as an HTML page.

    Returns:
        The page, and its width and height in pixels.
    """
    dashboard = json.loads(DASHBOARD.read_text())
    head = 40
    begin, end = (time.strftime("%Y-%m-%d %H:%M:%S", time.gmtime(at)) for at in (source.begin, source.end))
    parts = [f"<h1>{dashboard['title']} <small>{begin} to {end} UTC</small></h1>"]
    bottom = 0
    for panel in dashboard["panels"]:
        grid = panel["gridPos"]
        width, height = grid["w"] * COLUMN - GAP, grid["h"] * (ROW + GAP) - GAP
        left, top = grid["x"] * COLUMN + GAP, head + grid["y"] * (ROW + GAP)
        bottom = max(bottom, top + height)
        title = html.escape(panel["title"])
        if panel["type"] == "row":
            body, kind = f"<b>▾ {title}</b>", "row"
        else:
            series = [one for target in panel["targets"] for one in source.query(target)]
            draw = graph if panel["type"] == "timeseries" else stat
            body, kind = f"<b>{title}</b>{draw(panel, series, source, width, height)}", "panel"
        box = f"left:{left}px;top:{top}px;width:{width}px;height:{height}px"
        parts.append(f'<div class="{kind}" style="{box}">{body}</div>')
    text = f"<!doctype html><meta charset=utf-8><style>{STYLE}</style>{''.join(parts)}"
    return text, 24 * COLUMN + GAP, bottom + GAP


def main() -> None:
    """Draw the dashboard."""
    address, seconds, picture = sys.argv[1], float(sys.argv[2]), Path(sys.argv[3]).resolve()
    end = float(sys.argv[4]) if len(sys.argv) > 4 else time.time()
    text, width, height = page(Prometheus(address.rstrip("/"), seconds, end))
    with tempfile.TemporaryDirectory() as folder:
        (Path(folder) / "page.html").write_text(text)
        command = ["chromium", "--headless", "--no-sandbox", "--disable-gpu", "--hide-scrollbars"]
        command += [f"--window-size={width},{height}", f"--screenshot={picture}", f"--user-data-dir={folder}/profile"]
        subprocess.run([*command, f"file://{folder}/page.html"], check=True, capture_output=True, timeout=120)


main()
