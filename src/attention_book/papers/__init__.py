"""Both papers: their authors' own numbers, and a table of theirs beside ours."""
