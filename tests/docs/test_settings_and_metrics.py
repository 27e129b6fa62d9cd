"""Each setting and each metric has its row in one page, as the code describes it."""

from __future__ import annotations

import re
from collections import Counter

import msgspec
import pytest

from ragstore.kit.settings import variable
from scripts import metrics_table, settings_table
from tests.support.pages import PAGES, ROOT, text_of

SETTINGS_PAGE = str(settings_table.PAGE.relative_to(ROOT))
METRICS_PAGE = str(metrics_table.PAGE.relative_to(ROOT))


def rows_of(names: list[str]) -> Counter[tuple[str, str]]:
    """The pages that have a row for one of the names, each with the name."""
    row = re.compile(rf"^\| `({'|'.join(names)})` \|", flags=re.M)
    return Counter((page, found) for page in PAGES for found in row.findall(text_of(page)))


def test_each_setting_has_one_row_which_is_in_the_page_of_settings() -> None:
    declared = [
        variable(prefix, field) for _, kind, prefix in settings_table.TABLES for field in kind.__struct_fields__
    ]
    assert rows_of(declared) == Counter((SETTINGS_PAGE, name) for name in declared)


def test_each_metric_has_one_row_which_is_in_the_page_of_metrics() -> None:
    declared = [metric.name for service in metrics_table.SERVICES for metric in metrics_table.exported(service)]
    assert rows_of(declared) == Counter((METRICS_PAGE, name) for name in declared)


@pytest.mark.parametrize(("heading", "kind", "prefix"), settings_table.TABLES)
def test_a_table_of_settings_is_current(heading: str, kind: type[msgspec.Struct], prefix: str) -> None:
    section = text_of(SETTINGS_PAGE).partition(f"\n## {heading}\n")[2].partition("\n## ")[0]
    assert settings_table.table(kind, prefix) in section, "run: python -m scripts.settings_table"


@pytest.mark.parametrize(("service", "heading"), metrics_table.HEADINGS.items())
def test_a_table_of_metrics_is_current(service: str, heading: str) -> None:
    section = text_of(METRICS_PAGE).partition(f"\n## {heading}\n")[2].partition("\n## ")[0]
    assert metrics_table.table(service) in section, "run: python -m scripts.metrics_table"
