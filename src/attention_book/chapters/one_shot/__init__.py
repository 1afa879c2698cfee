"""Code of the pages on one-shot classification."""
