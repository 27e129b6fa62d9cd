"""Configure the documentation site, which is built from the Markdown files in place, so their links work everywhere.

`make docs` builds it. The navigation of the site contains the links of `index.md`, in the same order and under the same
headings.
"""

import importlib
import re

from sphinx.application import Sphinx

from ragstore import __version__

project = "ragstore"
author = "the ragstore contributors"
copyright = author
release = __version__

# autodoc imports a module with `TYPE_CHECKING` set, and LlamaIndex cannot be imported so. Once loaded, it stays.
importlib.import_module("ragstore_client.integrations.llamaindex")

extensions = ["myst_parser", "sphinx_copybutton", "sphinx.ext.autodoc", "sphinx.ext.napoleon"]
root_doc = "docs/index"
include_patterns = ["*.md", "docs/**", "clients/*/README.md", "gateway/README.md", "examples/README.md"]
exclude_patterns = ["**/node_modules", "build", "data", "**/.*", "clients/*/build", "clients/*/dist"]

myst_heading_anchors = 3

# The API reference. Docstrings mark code as Markdown does, and name types that have no page of their own.
autodoc_typehints = "none"
autodoc_member_order = "groupwise"
default_role = "code"
nitpick_ignore_regex = [(r"py:.*", r".*")]

html_theme = "furo"
html_title = f"ragstore {release}"
html_extra_path = ["site"]
html_copy_source = False
html_show_copyright = False


def with_navigation(app: Sphinx, docname: str, source: list[str]) -> None:
    """Generate the navigation from the link lists of the index. A directive in the page would be visible as text."""
    if docname == root_doc:
        _, *sections = re.split(r"^## (.+)\n", source[0], flags=re.M)
        for caption, links in zip(sections[::2], sections[1::2], strict=True):
            pages = re.findall(r"^- \[.+?\]\((.+?)\.md\)", links, flags=re.M)
            source[0] += "\n".join(["\n```{toctree}", ":hidden:", f":caption: {caption}", "", *pages, "```", ""])


PICTURE = re.compile(
    r'<picture>\s*<source [^>]*srcset="(?P<dark>\S+)">\s*<img alt="(?P<text>.+?)" src="(?P<light>\S+)">\s*</picture>'
)


def with_pictures(_app: Sphinx, _docname: str, source: list[str]) -> None:
    """Make images of a picture in HTML: Sphinx copies the files, and the theme shows the image of its colour scheme."""
    source[0] = PICTURE.sub(
        lambda found: "".join(image(found[scheme], found["text"], scheme) for scheme in ("light", "dark")), source[0]
    )


def image(path: str, text: str, scheme: str) -> str:
    """An image that one colour scheme has."""
    return f"```{{image}} {path}\n:alt: {text}\n:class: only-{scheme}\n```\n"


def setup(app: Sphinx) -> None:
    """Connect the extension; called by Sphinx."""
    app.connect("source-read", with_pictures)
    app.connect("source-read", with_navigation)
