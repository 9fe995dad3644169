"""Bodies: what is read of them, and what is not even tried."""

import orjson
import pytest

from service.api.http.body import CONTAINERS_MAX, DEPTH_MAX, MEMBERS_MAX, parse_json
from service.domain.errors import MalformedJson


def test_json_may_nest_as_deep_as_it_says() -> None:
    assert parse_json(b"[" * DEPTH_MAX + b"]" * DEPTH_MAX)

    with pytest.raises(MalformedJson) as raised:
        parse_json(b"[" * (DEPTH_MAX + 1) + b"]" * (DEPTH_MAX + 1))

    assert raised.value.facts["limit"] == DEPTH_MAX


def test_json_may_have_as_many_members_as_it_says() -> None:
    half = b"{" + b",".join(b'"%d":0' % number for number in range(MEMBERS_MAX // 2)) + b"}"
    assert parse_json(b"[" + half + b"]")

    with pytest.raises(MalformedJson) as raised:
        parse_json(b"[" + half + b"," + half + b',{"one":"more"}]')

    assert raised.value.facts["limit"] == MEMBERS_MAX


def test_long_lists_of_numbers_are_no_members() -> None:
    assert len(parse_json(b"[" + b"0," * MEMBERS_MAX * 2 + b"0]")) == MEMBERS_MAX * 2 + 1  # type: ignore[arg-type]


def test_lists_are_counted_before_they_are_made() -> None:
    with pytest.raises(MalformedJson) as raised:
        parse_json(b"[" + b"[]," * CONTAINERS_MAX + b"[]]")

    assert raised.value.facts["limit"] == CONTAINERS_MAX


def test_brackets_in_a_text_are_no_lists() -> None:
    text = "[{" * CONTAINERS_MAX + '\\"'

    assert parse_json(orjson.dumps([text])) == [text]
