"""The documentation's site: the project's own Markdown files, read where they are, so that their links work everywhere.

`make docs` builds it. What `index.md` links is what the site's navigation shows, in its order and under its headings.
"""

import re

from sphinx.application import Sphinx

from ragstore import __version__

project = "ragstore"
author = "the ragstore contributors"
copyright = author
release = __version__

extensions = ["myst_parser", "sphinx_copybutton"]
root_doc = "docs/index"
include_patterns = ["*.md", "docs/**", "clients/*/README.md", "examples/README.md"]
exclude_patterns = ["**/node_modules", "build", "data", "**/.*", "clients/*/build", "clients/*/dist"]

myst_heading_anchors = 3

html_theme = "furo"
html_title = f"ragstore {release}"
html_extra_path = ["site"]
html_copy_source = False
html_show_copyright = False


def with_navigation(app: Sphinx, docname: str, source: list[str]) -> None:
    """Make a navigation of the index's lists of links. A directive in the page would show where Markdown is shown."""
    if docname == root_doc:
        _, *sections = re.split(r"^## (.+)\n", source[0], flags=re.M)
        for caption, links in zip(sections[::2], sections[1::2], strict=True):
            pages = re.findall(r"^- \[.+?\]\((.+?)\.md\)", links, flags=re.M)
            source[0] += "\n".join(["\n```{toctree}", ":hidden:", f":caption: {caption}", "", *pages, "```", ""])


def setup(app: Sphinx) -> None:
    """Called by Sphinx."""
    app.connect("source-read", with_navigation)
