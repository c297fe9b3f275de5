"""Sphinx configuration; `make docs` builds the pages with warnings as errors."""

import importlib.metadata
import sys
from pathlib import Path

from sphinx.errors import ConfigError

HERE = Path(__file__).resolve().parent
ROOT = HERE.parent
EXAMPLES = ROOT / "examples"
# The package, what the tests know of it, and the directives of these pages.
sys.path[:0] = [str(ROOT / "src"), str(ROOT), str(HERE / "_ext")]

project = "manykernels"
author = "The manykernels developers"
copyright = f"2026, {author}"
try:
    release = importlib.metadata.version("manykernels")
except importlib.metadata.PackageNotFoundError:
    from manykernels import __version__ as release
version = ".".join(release.split(".")[:2])

extensions = [
    "myst_parser",
    "sphinx.ext.autodoc",
    "sphinx.ext.autosummary",
    "sphinx.ext.viewcode",
    "numpydoc",
    "manykernels_pages",
]
root_doc = "index"
source_suffix = {".rst": "restructuredtext", ".md": "markdown"}
exclude_patterns = ["_build", "_templates", "_ext", "Thumbs.db", ".DS_Store"]
templates_path = ["_templates"]

# -- Markdown ------------------------------------------------------------------
myst_enable_extensions = ["amsmath", "colon_fence", "deflist", "dollarmath"]
myst_heading_anchors = 3

# -- The reference: public names only, from each module's __all__ -----------------
autosummary_generate = True
autosummary_imported_members = True
autosummary_ignore_module_all = False
autodoc_typehints = "none"
autodoc_member_order = "bysource"
numpydoc_show_class_members = False
numpydoc_class_members_toctree = False


# scikit-learn's own methods are documented there, and refer to pages that only exist there.
def skip_inherited(app, what, name, obj, skip, options):
    """Leave out what a class merely inherits from scikit-learn."""
    if name.startswith("set_") and name.endswith("_request"):
        return True
    module = getattr(obj, "__module__", None) or ""
    return True if module.startswith("sklearn.") else None


def setup(app):
    """Connect the handlers above."""
    app.connect("autodoc-skip-member", skip_inherited)


# -- The gallery: every script in examples/ is executed ----------------------------
scripts = sorted(EXAMPLES.rglob("*.py")) if EXAMPLES.is_dir() else []
if scripts:
    headers = [
        EXAMPLES / f"{stem}.{end}"
        for stem in ("GALLERY_HEADER", "README")
        for end in ("rst", "txt")
    ]
    if not any(path.is_file() for path in headers):
        raise ConfigError(
            "examples/ has scripts but no GALLERY_HEADER.rst to introduce them; add it."
        )
    extensions.append("sphinx_gallery.gen_gallery")
    sphinx_gallery_conf = {
        "examples_dirs": [str(EXAMPLES)],
        "gallery_dirs": ["gallery"],
        "filename_pattern": r"\.py$",
        "ignore_pattern": r"(__init__|/_[^/]*)\.py$",
        "within_subsection_order": "FileNameSortKey",
        "doc_module": ("manykernels",),
        "reference_url": {"manykernels": None},
        "backreferences_dir": "generated/backreferences",
        "download_all_examples": False,
        "remove_config_comments": True,
        "show_memory": False,
        "show_signature": False,
        "write_computation_times": False,
        "capture_repr": ("_repr_html_", "__repr__"),
        "ignore_repr_types": r"Display'>$",  # the figure says it
    }
else:
    # The table of contents names the gallery, so it must exist.
    page = HERE / "gallery" / "index.rst"
    page.parent.mkdir(exist_ok=True)
    page.write_text("Examples\n========\n\nThere are no examples yet.\n")

# -- Pages -----------------------------------------------------------------------
html_theme = "pydata_sphinx_theme"
html_math_renderer = "mathml"
html_title = f"manykernels {release}"
html_static_path = ["_static"]
html_css_files = ["manykernels.css"]
html_theme_options = {
    "logo": {"text": f"manykernels {version}"},
    "header_links_before_dropdown": 6,
    "navbar_align": "left",
    "navigation_with_keys": False,
    "show_prev_next": True,
    "show_toc_level": 2,
    # Wide tables have the whole width.
    "secondary_sidebar_items": {"**": ["page-toc"], "reproduction": []},
    "footer_start": ["copyright"],
    "footer_end": ["sphinx-version"],
}
html_sidebars = {"index": []}
# In the contents of a page: fit(), not MKLClassifier.fit().
toc_object_entries_show_parents = "hide"
html_show_sourcelink = False
html_copy_source = False
