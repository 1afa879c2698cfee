"""Code of the pages on 1-bit self-attention."""
