"""Tables are Markdown with right-aligned numbers; a value has the two digits of its error."""

from attention_book.notebooks import tables


def test_a_value_and_its_error_have_two_digits_of_the_error():
    assert tables.with_error(-0.18444, 0.0329) == "−0.184 ± 0.033"
    assert tables.with_error(123.4, 12.0, sign=True) == "+123 ± 12"
    assert tables.with_error(1.0, 0.0) == "1.00 ± 0.00"
    assert (tables.signed(-0.04), tables.signed(0.06)) == ("0.0", "+0.1")


def test_a_table_aligns_numbers_to_the_right():
    assert tables.table(["$N$", "a"], [["10", 0.5]]).data == "| $N$ | a |\n|:---|---:|\n| 10 | 0.5 |"
