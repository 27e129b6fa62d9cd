"""The area Compare in a tab."""

from __future__ import annotations

from typing import Any

from tests.page.tab import Tab


def compare(tab: Tab, question: str) -> None:
    """Put a question to both sides, without a mouse."""
    field = tab.page.get_by_label("Question", exact=True)
    field.fill(question)
    field.press("Enter")


def side(tab: Tab, name: str, role: str = "region") -> Any:
    """The outcome of a side; with the role `group`, its form."""
    return tab.page.get_by_role(role, name=f"Side {name}" if role == "region" else name, exact=True)


def passages(tab: Tab, name: str) -> list[tuple[str, str]]:
    """The fate and the text of each passage of a side."""
    found = side(tab, name).get_by_role("list", name="Passages")
    found.wait_for()
    rows = found.get_by_role("listitem")
    return [
        (rows.nth(number).locator("strong").inner_text(), rows.nth(number).locator(".passage").inner_text())
        for number in range(rows.count())
    ]
