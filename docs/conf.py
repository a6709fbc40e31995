"""How Sphinx makes the site. ``python -m scripts.make_site`` calls it on a copy of docs, notebooks and package.

The site has the layout of the checkout, so that a link that works on a code-hosting page works here too; links to files
of the package lead to their highlighted source (:func:`to_sources`).
"""

import posixpath
from typing import Any

import tinysched

project = "tinysched"
author = "tinysched authors"
project_copyright = "tinysched authors, MIT licence"
version = release = tinysched.__version__
root_doc = "docs/index"
include_patterns = ["docs/**", "notebooks/**", "CHANGELOG.md"]
exclude_patterns = ["docs/conf.py", "notebooks/README.md"]

extensions = ["myst_nb", "sphinx.ext.autodoc", "sphinx.ext.viewcode"]
myst_enable_extensions = ["colon_fence", "deflist"]
myst_heading_anchors = 3

# Notebooks are shown as they are stored; what MyST would load for widgets lies outside of the site.
nb_execution_mode = "off"
nb_ipywidgets_js = {}  # type: ignore[var-annotated]
nb_merge_streams = True

autodoc_member_order = "bysource"
viewcode_follow_imported_members = False  # a method's source is where its function is described
autodoc_typehints = "signature"
# A name is described where it is defined; of a built-in method nobody can tell where that was.
autodoc_default_options = {"ignore-module-all": True, "exclude-members": "current_observer"}
toc_object_entries = False  # a thousand names on each page
# Types that are imported for type checkers only are short names, and two classes may share one.
suppress_warnings = ["ref.python"]

html_theme = "furo"
html_title = "tinysched"
html_show_sphinx = False
html_copy_source = False
html_show_sourcelink = False
html_theme_options = {"navigation_with_keys": False}  # the arrow keys are the explorer's
html_extra_path = ["../extra"]
html_static_path = ["_static"]
html_css_files = ["site.css"]


def to_sources(app: Any, doctree: Any, docname: str) -> None:
    """Links to files of the package, which MyST takes for downloads, become links to viewcode's pages."""
    from docutils import nodes
    from sphinx import addnodes

    here = posixpath.dirname(docname)
    for link in list(doctree.findall(addnodes.download_reference)):
        target = posixpath.normpath(posixpath.join(here, link["reftarget"]))
        if not target.startswith("tinysched/") or not target.endswith(".py"):
            continue
        module = target.removesuffix(".py").removesuffix("/__init__")
        if not app.env._viewcode_modules.get(module.replace("/", ".")):  # nothing in it is public: the file itself
            continue
        page = posixpath.relpath(f"_modules/{module}.html", here or ".")
        link.replace_self(nodes.reference("", "", *link.children, internal=True, refuri=page))


def setup(app: Any) -> dict[str, Any]:
    """Sphinx's hook."""
    app.connect("doctree-resolved", to_sources)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
