"""Printable text: what it escapes, and what it leaves as it is."""

import unicodedata

from tracehouse.printable_text import printable, printable_line

ALL = "".join(map(chr, range(0x110000)))


def test_what_acts_on_a_terminal_or_turns_text_is_escaped_and_all_else_kept() -> None:
    turning = {*"\u061c\u200e\u200f\u202a\u202b\u202c\u202d\u202e\u2066\u2067\u2068\u2069"}
    escaped = {char for char in ALL if unicodedata.category(char) == "Cc"} - {*"\t\n"} | turning

    assert {char for char in ALL if printable(char) != char} == escaped
    assert printable(ALL) == "".join(ascii(char)[1:-1] if char in escaped else char for char in ALL)


def test_a_line_stays_one() -> None:
    assert printable_line("a\tb\r\nc\u2028d") == "a\\tb\\r\\nc\\u2028d"
