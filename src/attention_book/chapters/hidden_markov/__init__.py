"""Code of the pages on hidden Markov chains."""
