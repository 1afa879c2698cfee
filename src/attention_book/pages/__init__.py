"""What all pages share: style, numbers of the text, tables; and rooms for panels and for the calculator."""

from attention_book.pages.claims import claims
from attention_book.pages.notebook import FACTS, begin, facts, glue
from attention_book.pages.tables import rows, table, versions
