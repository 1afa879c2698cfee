"""Code of the pages: one module per page, by the same names."""
