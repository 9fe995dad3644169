"""What model code prints, as events carry it."""

import pytest

from workers import printed_log
from workers.printed_log import PrintedLog


def pieces(*chunks: bytes, max_bytes: int = 1000) -> list[str]:
    handed: list[str] = []
    log = PrintedLog(handed.append, max_bytes)
    for chunk in chunks:
        log.write(chunk)
    log.end()
    return handed


def test_the_first_piece_goes_at_once_and_the_rest_gathers() -> None:
    assert pieces(b"a\n", b"b\n", b"c\n") == ["a\n", "b\nc\n"]


def test_much_that_comes_at_once_is_few_pieces(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(printed_log, "PIECE_S", float("inf"))  # the first is due, and then what is enough

    printed = pieces(*[b"x" * 4096] * 256, max_bytes=2**20)

    assert len(printed) == 5
    assert "".join(printed) == "x" * 2**20


def test_control_characters_are_shown_and_line_ends_kept() -> None:
    assert pieces(b"\x1b[2J\x00one\r\ntwo\tthree\xff\n") == ["\\x1b[2J\\x00one\ntwo\tthree\\xff\n"]


def test_a_character_may_be_split_between_chunks() -> None:
    assert "".join(pieces("é".encode()[:1], "é".encode()[1:])) == "é"


def test_a_line_end_may_be_split_between_chunks() -> None:
    assert "".join(pieces(b"one\r", b"\ntwo\r", b"three\r")) == "one\ntwo\\rthree\\r"


def test_a_character_that_is_not_whole_at_the_end_is_shown() -> None:
    assert "".join(pieces(b"caf\xc3")) == "caf\\xc3"


def test_a_character_that_is_not_whole_at_the_limit_is_shown_before_the_line_that_says_so() -> None:
    assert "".join(pieces(b"caf\xc3\xa9\n", max_bytes=4)) == "caf\\xc3\n[the log is cut after 4 bytes]\n"


@pytest.mark.parametrize(("more", "end"), [([], ""), ([b"y"], "\n[the log is cut after 10 bytes]\n")])
def test_what_ends_at_the_limit_is_cut_if_more_comes(more: list[bytes], end: str) -> None:
    assert "".join(pieces(b"x" * 10, *more, max_bytes=10)) == "x" * 10 + end


def test_what_is_over_the_limit_is_cut_once_and_says_so() -> None:
    log = "".join(pieces(b"x" * 8, b"y" * 8, b"z" * 8, max_bytes=10))

    assert log == "xxxxxxxxyy\n[the log is cut after 10 bytes]\n"
