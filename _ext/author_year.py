"""Sphinx extension: entries of the bibliography are labelled as the text cites them, "Li et al., 2021"."""

from pybtex.plugin import register_plugin
from pybtex.style.formatting.unsrt import Style as Unsorted
from pybtex.style.labels import BaseLabelStyle


class Labels(BaseLabelStyle):
    """Names and the year."""

    def format_labels(self, sorted_entries):
        """Yield the label of each entry."""
        for entry in sorted_entries:
            names = [" ".join([*one.prelast_names, *one.last_names]) for one in entry.persons["author"]]
            some = " and ".join(names) if len(names) < 3 else f"{names[0]} et al."
            yield f"{some}, {entry.fields['year']}".translate(str.maketrans("", "", "{}"))


class Style(Unsorted):
    """Entries by author and year."""

    default_sorting_style = "author_year_title"
    default_label_style = "author_year"


def setup(app):
    """Register with Sphinx; pages may be read in parallel."""
    register_plugin("pybtex.style.labels", "author_year", Labels)
    register_plugin("pybtex.style.formatting", "author_year", Style)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
