"""`scripts/check_style.py` reports pronouns for things in pages and docstrings."""

from __future__ import annotations

from pathlib import Path

import pytest

from scripts.check_style import PRONOUNS_LEFT, ROOT, findings


def reported(folder: Path, name: str, text: str) -> list[str]:
    """The constructions that are reported in a file of this name and text."""
    path = folder / Path(name).name
    path.write_text(text)
    return [found.text for found in findings(path, name)]


@pytest.mark.parametrize(
    ("sentence", "found"),
    [
        ("The charset is that of the header.", "that of"),
        ("Files and those of its sources.", "those of"),
        ("It reads those that match.", "those that"),
        ("It contains the hash of the one before it.", "the one"),
        ("Each chunk follows the one of its page.", "the one"),
    ],
)
def test_a_pronoun_for_a_thing_is_reported_in_pages_and_docstrings(sentence: str, found: str, tmp_path: Path) -> None:
    assert reported(tmp_path, "docs/tea.md", f"# Tea\n\n{sentence}\n") == [found]
    assert reported(tmp_path, "gateway/ragstore_gateway/tea.py", f'"""{sentence}"""\n') == [found]


@pytest.mark.parametrize("sentence", ["The one encoder of problems.", "A store that offers tea.", "Those files stay."])
def test_a_numeral_and_an_adjective_are_not_reported(sentence: str, tmp_path: Path) -> None:
    assert reported(tmp_path, "docs/tea.md", f"{sentence}\n") == []


def test_code_is_not_reported(tmp_path: Path) -> None:
    assert reported(tmp_path, "docs/tea.md", "Run `the one that of`.\n\n```sh\nthose of\n```\n") == []


def test_the_name_of_a_picture_is_not_reported(tmp_path: Path) -> None:
    page = '<source srcset="page/ask-dark.png">\n<img alt="{}" src="page/ask-light.png">\n'
    assert reported(tmp_path, "docs/tea.md", page.format("A reply")) == []
    assert reported(tmp_path, "docs/tea.md", page.format("those of")) == ["those of"]


@pytest.mark.parametrize("left", PRONOUNS_LEFT)
def test_a_path_whose_pronouns_are_left_exists(left: str) -> None:
    assert (ROOT / left).exists()
