"""Code that only this book needs, in rooms named after its parts, beside one for pages and one for runs."""

from statmech_attention.installed import need

need("book", "attention_book")
