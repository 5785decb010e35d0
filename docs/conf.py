"""How is the manual built? `make docs`, or: python -m sphinx -W -b html docs docs/_build/html"""

import sys
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.path[:0] = [str(HERE), str(HERE.parent / "src")]

import dynident  # noqa: E402

project = "dynident"
author = "The dynident developers"
copyright = "the dynident developers"
version = release = dynident.__version__

extensions = ["myst_parser", "sphinx.ext.autodoc", "sphinx.ext.napoleon", "extensions.mathml", "extensions.registries"]
myst_enable_extensions = ["dollarmath", "colon_fence", "deflist"]
myst_heading_anchors = 3
exclude_patterns = ["_build", "README.md"]
nitpicky = False  # signatures speak of numpy's and CasADi's types, which have no page here

html_theme = "pydata_sphinx_theme"
html_math_renderer = "mathml"
html_title = "dynident"
html_static_path = ["_static"]
html_css_files = ["manual.css"]
html_show_sourcelink = False
html_copy_source = False
html_sidebars = {page: [] for page in ("index", "start", "choose", "examples", "papers", "changes")}  # no pages below
html_theme_options = {
    "logo": {"text": "dynident"},
    "navbar_align": "left",
    "header_links_before_dropdown": 8,
    "navigation_with_keys": False,
    "show_toc_level": 2,
    "secondary_sidebar_items": ["page-toc"],
    "footer_start": ["copyright"],
    "footer_end": [],
    "pygments_light_style": "default",
}

default_role = "code"  # single backticks in docstrings
napoleon_google_docstring = False
napoleon_use_rtype = False
napoleon_custom_sections = [("Attributes", "params_style")]
smartquotes_action = "D"  # dashes; what stands in quotes is often code
toc_object_entries = False  # each has a heading
autodoc_member_order = "bysource"
autodoc_typehints = "signature"
autodoc_class_signature = "mixed"
autodoc_preserve_defaults = True
python_use_unqualified_type_names = True
python_maximum_signature_line_length = 100
