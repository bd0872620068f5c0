"""How the site is made of these pages: ``make site``.

Sphinx, not MkDocs: MkDocs 1.x has had no release since August 2024, and Material for MkDocs is at
the end of its maintenance; Sphinx, Furo and MyST are kept.

The pages are read where they are, the README and what lies beside it too, so that a link that works
in the repository works on the site and the other way round.
"""

from __future__ import annotations

import sys
from pathlib import Path

HERE = Path(__file__).parent
sys.path[:0] = [str(HERE.parent), str(HERE / "site")]

from celery_fair import __version__  # noqa: E402 - the one beside this page

project = "celery-fair"
author = "the authors of celery-fair"
release = version = __version__
language = "en"

extensions = ["myst_parser", "sphinx.ext.autodoc", "sphinx_copybutton", "generated"]
root_doc = "docs/index"
smartquotes = False  # they make – of --
default_role = "py:obj"
include_patterns = ["docs/*.md", "example_project/README.md", "*.md"]
exclude_patterns = [".*", "build", "dist", "tests", "celery_fair", "node_modules"]

# Anchors as the repository's own pages have them.
myst_heading_anchors = 4
myst_enable_extensions = ["deflist"]
suppress_warnings = [
    # An output starts where it starts: "```json" of one line and "…" is no JSON to a lexer.
    "misc.highlighting_failure",
]

autodoc_member_order = "bysource"
autodoc_typehints = "signature"
autodoc_typehints_format = "short"
autodoc_preserve_defaults = True
add_module_names = False
python_use_unqualified_type_names = True

html_theme = "furo"
html_title = "celery-fair"
html_static_path = ["site/static"]
html_css_files = ["site.css"]
html_copy_source = False
html_show_sphinx = False
html_theme_options = {
    "light_css_variables": {
        # Nothing is fetched from elsewhere, fonts neither.
        "font-stack": "system-ui, -apple-system, 'Segoe UI', Roboto, 'DejaVu Sans', sans-serif",
        "font-stack--monospace": "ui-monospace, Menlo, Consolas, 'DejaVu Sans Mono', monospace",
        "color-brand-primary": "#1c6b4a",
        "color-brand-content": "#1c6b4a",
    },
    "dark_css_variables": {
        "color-brand-primary": "#6fcf9f",
        "color-brand-content": "#6fcf9f",
    },
}
pygments_style = "friendly"
pygments_dark_style = "monokai"

copybutton_prompt_text = "$ "
copybutton_only_copy_prompt_lines = True
copybutton_remove_prompts = True

linkcheck_anchors = False  # some hosts make theirs by script
linkcheck_timeout = 20
linkcheck_ignore = [r"http://prometheus\.monitoring.*"]
