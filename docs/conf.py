"""The handbook's settings for Sphinx. Everything the pages show that could rot is made here, at build time, from the code."""

import os
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
sys.path[:0] = [str(ROOT / "docs"), str(ROOT)]

import mixflow  # noqa: E402 (the path comes first)

project = "mixflow"
author = "the mixflow authors"
copyright = author
version = release = mixflow.__version__

extensions = ["myst_nb", "sphinx.ext.autodoc", "_handbook"]
exclude_patterns = ["_handbook", "images"]
nitpicky = True

myst_enable_extensions = ["dollarmath"]
myst_heading_anchors = 3

nb_execution_mode = "force"  # notebooks are kept without their outputs
nb_execution_timeout = 300
nb_ipywidgets_js = {}  # nothing is loaded from elsewhere
nb_execution_raise_on_error = True
os.environ["PYTHONPATH"] = str(ROOT)  # their kernels use this source tree

html_theme = "furo"
html_title = f"mixflow {release}"
html_static_path = ["_static"]
html_css_files = ["handbook.css"]
html_show_sourcelink = False
html_math_renderer = "mathml"
html_copy_source = False
html_theme_options = {"navigation_with_keys": True}

default_role = "code"
smartquotes = False  # "c1" is a name, not a quotation
autodoc_member_order = "bysource"
autodoc_typehints = "none"
