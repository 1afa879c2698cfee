"""Code of the book's pages: one module per page, under the page's name."""
