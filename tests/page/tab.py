"""A tab of the browser, with a record of what went wrong in it."""

from __future__ import annotations

from typing import Any, Final, Self

from tests.support.pages import ROOT

AXE: Final = ROOT / "page/node_modules/axe-core/axe.min.js"

RULES: Final = ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "wcag22aa", "best-practice"]

WATCH: Final = """
window.violations = [];
document.addEventListener("securitypolicyviolation", (event) =>
  violations.push(`${event.violatedDirective} ${event.blockedURI}`));
"""

WIDE: Final = {"width": 1280, "height": 800}
NARROW: Final = {"width": 320, "height": 640}


class Tab:
    """A tab at the page of a service.

    Args:
        context: Playwright's context, which only this tab is in.
        url: address of the service.

    Attributes:
        page: Playwright's page.
        requests: the addresses that the page requested.
        statuses: the statuses of their responses.
        errors: errors of scripts that no code handled.
    """

    def __init__(self, context: Any, url: str) -> None:
        self.url = url
        self.requests: list[str] = []
        self.statuses: list[int] = []
        self.errors: list[str] = []
        self._context = context
        self.page = context.new_page()
        self.page.set_default_timeout(15_000)
        self.page.add_init_script(WATCH)
        self.page.on("request", lambda request: self.requests.append(request.url))
        self.page.on("response", lambda response: self.statuses.append(response.status))
        self.page.on("pageerror", lambda error: self.errors.append(str(error)))

    @classmethod
    def open(cls, browser: Any, url: str, path: str = "", *, page: str = "ui/", **options: Any) -> Self:
        """Open a tab.

        Args:
            url: address of the service.
            path: address below the page, such as `#/health`.
            page: path of the page.
            options: further options of the context.
        """
        tab = cls(browser.new_context(**{"viewport": WIDE, **options}), url)
        tab.page.goto(f"{url}/{page}{path}")
        return tab

    def close(self) -> None:
        """Close the tab."""
        self._context.close()

    def check(self) -> None:
        """Check that nothing went wrong, and that no request left the service."""
        assert not self.errors, self.errors
        assert not self.page.evaluate("window.violations ?? []")
        assert not [each for each in self.requests if not each.startswith((self.url + "/", "blob:", "data:"))]

    def see(self, text: str) -> None:
        """Wait until a text is shown."""
        # A narrow window has the list hidden behind the panel, with the same texts.
        self.page.get_by_text(text).filter(visible=True).first.wait_for()

    def text(self) -> str:
        """The text of the page, as it is shown."""
        return str(self.page.evaluate("document.body.innerText"))

    def address(self) -> str:
        """The address of the page.

        Playwright's `page.url` changes only while another of its calls waits for the browser.
        """
        return str(self.page.evaluate("location.href"))

    def show(self, path: str) -> None:
        """Go to another address of the page, as a link does."""
        self.page.evaluate("path => { location.hash = path; }", path.removeprefix("#"))

    def faults(self) -> list[str]:
        """The faults of accessibility that axe finds."""
        self.page.evaluate(AXE.read_text())
        found = self.page.evaluate("rules => axe.run(document, {runOnly: rules})", RULES)
        return [f"{each['id']}: {each['nodes'][0]['html'][:200]}" for each in found["violations"]]

    def overflows(self) -> bool:
        """Whether the page scrolls sideways."""
        return bool(
            self.page.evaluate("document.documentElement.scrollWidth > document.documentElement.clientWidth + 1")
        )
