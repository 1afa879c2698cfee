"""Code of the pages on finite width."""
