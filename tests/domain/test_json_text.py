"""JSON text: its lists and objects are counted before anything is made of it."""

import pytest

from service.domain.json_text import has_more_containers


@pytest.mark.parametrize("text", [b"[]" * 3, b"{}" * 3, b'["[[[", {}, []]', b'["\\"", [], {}]'])
def test_lists_and_objects_are_counted(text: bytes) -> None:
    assert has_more_containers(text, 2)
    assert not has_more_containers(text, 3)


def test_what_stands_in_strings_is_none() -> None:
    assert not has_more_containers(b'["[[[", "{\\"{{", "\\\\"]', 1)


@pytest.mark.parametrize("end", [b"", b"\\"])
def test_a_string_without_an_end_is_gone_through_once(end: bytes) -> None:
    """Each of its quotes tried as its start, this would take hours."""
    assert not has_more_containers(b'"' + b'\\"[' * 2**20 + end, 10)
