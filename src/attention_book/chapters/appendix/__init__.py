"""Code of the appendix."""
