"""Sphinx extension: what pages load, and what a reader can take with them.

Thebe, which runs cells on a server, is left out: Jupyter Book declares its constants twice on every
page, an error in the console.
Every page with cells offers its notebook, which `tools/page_notebooks.py` writes.
"""

EARLY, LATE = 400, 900  # before and after the theme makes its buttons of what is known about the page


def setup(app):
    """Register with Sphinx.

    Args:
        app: the running Sphinx.

    Returns:
        That pages may be read in parallel.
    """
    app.connect("html-page-context", _offer, priority=EARLY)
    for function in (_leave_out, _open_notebooks):
        app.connect("html-page-context", function, priority=LATE)
    return {"parallel_read_safe": True, "parallel_write_safe": True}


def _offer(app, pagename, templatename, context, doctree):
    if "kernelspec" in app.env.metadata.get(pagename, {}):
        context["ipynb_source"] = f"{pagename}.ipynb"


def _leave_out(app, pagename, templatename, context, doctree):
    for name in ("script_files", "css_files"):
        context[name] = [
            file for file in context[name] if "thebe" not in f"{file} {getattr(file, 'attributes', '')}".lower()
        ]


def _open_notebooks(app, pagename, templatename, context, doctree):
    # The theme names a page's source, unless a notebook lies beside it; here they are made by the build.
    for group in context.get("header_buttons", []):
        if group.get("label") == "launch-buttons":
            for button in group["buttons"]:
                button["url"] = button["url"].removesuffix(".md") + ".ipynb"
