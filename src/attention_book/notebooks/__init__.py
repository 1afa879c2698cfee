"""Code of the pages: their helpers, parameters and execution."""
