"""Long lists of numbers in JSON become arrays, and what is read so is what `parse_json` reads."""

import json
import math
from itertools import cycle, islice
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from service.api.http.body import VALUES_MAX, parse_json
from service.api.json_numbers import NotUsual, parse_numbers, read_with_numbers
from service.domain.errors import MalformedJson
from tracehouse.errors import InvalidTensor, ServiceError
from tracehouse.tensors.numbers import Numbers
from tracehouse.tensors.tensor import Datatype, pack

# More than 16 KiB, whatever the numbers are, and more than 64 KiB.
COUNT = 8400
LARGE = 34_000
SHAPES = [(COUNT,), (COUNT, 1), (1, COUNT), (2, 3, 1400), (7, 1200), (1, 1, 10, 840)]


def nested(numbers: list[str], shape: tuple[int, ...], space: str = "") -> str:
    """The numbers, over and over, in lists of this shape."""
    values = islice(cycle(numbers), math.prod(shape))

    def write(dims: tuple[int, ...]) -> str:
        if not dims:
            return next(values)
        return "[" + f",{space}".join(write(dims[1:]) for _ in range(dims[0])) + "]"

    return write(shape)


def thawed(value: Any) -> Any:
    """With a list in place of each array."""
    if isinstance(value, Numbers):
        return value.flat.reshape(value.shape).tolist()
    if isinstance(value, dict):
        return {name: thawed(each) for name, each in value.items()}
    return [*map(thawed, value)] if isinstance(value, list) else value


def read_usually(text: str) -> Any:
    try:
        return parse_json(text.encode())
    except MalformedJson:
        return MalformedJson


def packed(datatype: Datatype, shape: tuple[int, ...], data: Any) -> bytes | None:
    try:
        return pack(datatype, shape, data)
    except InvalidTensor:
        return None


@pytest.mark.parametrize("space", ["", " ", "\n"])
@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_a_list_that_nests_as_an_array_does_becomes_one(shape: tuple[int, ...], space: str) -> None:
    text = nested(["1.0", "-2.5", "325e-2"], shape, space)

    found = parse_numbers(f'{{"inputs": {{"x": {text}}}}}'.encode())["inputs"]["x"]

    assert isinstance(found, Numbers)
    assert found.shape == shape
    assert found.flat.reshape(shape).tolist() == json.loads(text)


@pytest.mark.parametrize(
    "body",
    [
        '{"inputs":[{"name":"x","datatype":"FP32","shape":[8400],"data":%s}]}',
        '{"inputs":[{"data":%s,"name":"x"},{"name":"y","data":%s}],"outputs":[]}',
        '{"inputs":{"x":%s,"y":%s}, "id": "7"}',
        '{"kwargs":{"x":%s}}',
        ' { "model" : "m" , "inputs" : { "x" : %s } } ',
    ],
)
def test_every_form_of_a_request_is_read_so(body: str) -> None:
    text = body.replace("%s", nested(["0.5", "-1"], (2, LARGE // 2)))
    seen: list[Any] = []

    def arrays_in(value: Any) -> int:
        if isinstance(value, dict):
            return sum(map(arrays_in, value.values()))
        return sum(map(arrays_in, value)) if isinstance(value, list) else isinstance(value, Numbers)

    read_with_numbers(text.encode(), seen.append)

    assert arrays_in(seen[0]) == body.count("%s")
    assert thawed(seen[0]) == json.loads(text)


def test_each_argument_is_an_array_of_its_own() -> None:
    found = parse_numbers(f'{{"args":{nested(["0.5"], (2, 4200))}}}'.encode())

    assert [each.shape for each in found["args"]] == [(4200,), (4200,)]


NUMBERS = st.one_of(
    st.floats(allow_nan=False, allow_infinity=False).map(repr),
    st.floats(allow_nan=False, allow_infinity=False, width=32).map(repr),
    st.floats(allow_nan=False, allow_infinity=False, width=16).map(repr),
    st.integers(-300, 300).map(str),
    st.integers(-(2**63) - 2, 2**64 + 2).map(str),
    st.tuples(st.floats(-10, 10), st.integers(0, 20)).map(lambda pair: f"{pair[0]:.{pair[1]}f}"),
    # halfway between two numbers of 32 bits, where a second rounding would show
    st.integers(0, 2**31 - 2**24 - 2).map(
        lambda bits: repr(float(np.array([bits, bits + 1], np.uint32).view(np.float32).astype(float).mean()))
    ),
    st.sampled_from(
        ["-0", "-0.0", "1e-46", "3.4028235677973366e38", "3.4028234e38", "65519.9", "65520", "5e-324", "1E400",
         "1e-400", "2.2250738585072011e-308", "9007199254740993", "9007199254740993.0",
         "123456789012345678901234567890",
         "2.4703282292062327208299439634110686182529901307162382212e-324", "0.1e1", "1e+5", "9223372036854775808",
         "true", "null", '"NaN"', "[]", "{}", "[1]", "NaN", "01", "1.", ".5", "--1", "", "1 2"]
    ),
)  # fmt: skip


@settings(max_examples=150)
@given(
    st.lists(NUMBERS, min_size=1, max_size=6),
    st.sampled_from(SHAPES),
    st.sampled_from(
        ['{"x":%s}', '{"a":"%s","x":%s}', '{"x":%s,"x":1}', '{"y":[{"data":%s},2],"x":%s}', '{"x":[%s,3]}']
    ),
    st.one_of(st.none(), st.tuples(st.integers(0, 10**6), st.sampled_from([*',[]{}":\\ 9.e-', ""]))),
)
def test_what_is_read_so_is_what_is_read_otherwise(
    numbers: list[str], shape: tuple[int, ...], body: str, change: tuple[int, str] | None
) -> None:
    text = body.replace("%s", nested(numbers, shape))
    if change is not None:
        place = change[0] % len(text)
        text = text[:place] + change[1] + text[place + 1 :]
    try:
        found = parse_numbers(text.encode())
    except (NotUsual, ServiceError):
        return
    usual = read_usually(text)

    assert repr(thawed(found)) == repr(floats_where(usual, found))
    for array, values in arrays(found, usual):
        for datatype in Datatype:
            for wanted in {array.shape, (len(array.flat),), (1, len(array.flat)), (3,)}:
                assert packed(datatype, wanted, array) == packed(datatype, wanted, values)


def floats_where(usual: Any, found: Any) -> Any:
    """What was read, with floats in place of whole numbers where an array has floats."""
    if isinstance(found, Numbers):
        return usual if found.are_whole else np.array(usual, np.float64).tolist()
    if isinstance(found, dict):
        return {name: floats_where(usual[name], each) for name, each in found.items()}
    return [floats_where(*pair) for pair in zip(usual, found, strict=True)] if isinstance(found, list) else usual


def arrays(found: Any, usual: Any) -> list[tuple[Numbers, Any]]:
    """Each array, beside what stands there otherwise."""
    if isinstance(found, Numbers):
        return [(found, usual)]
    if isinstance(found, dict):
        return [pair for name, each in found.items() for pair in arrays(each, usual[name])]
    return (
        [pair for both in zip(found, usual, strict=True) for pair in arrays(*both)] if isinstance(found, list) else []
    )


LONG = nested(["0.5"], (LARGE,))


@pytest.mark.parametrize(
    "text",
    [
        pytest.param(f'{{"x":{LONG},"x":1}}', id="a member that stands twice"),
        pytest.param(f'{{"x":{LONG},"y":{LONG},"x":{LONG}}}', id="a list that stands twice"),
        pytest.param(f'{{"x":{LONG}}}}}', id="too much behind it"),
        pytest.param(f'{{"x":{LONG}', id="no end"),
        pytest.param(f'{{"x":{LONG[:-1]},]}}', id="a comma too many"),
        pytest.param(f'{{"x":{LONG[:-1]},1e400]}}', id="a number that no float can be"),
        pytest.param(f'{{"x":{LONG[:-1]},0.5.5]}}', id="a number with two points"),
        pytest.param(f'{{"x":{LONG} 1}}', id="a number behind it"),
        pytest.param(f'{{"x"{LONG}}}', id="no colon"),
        pytest.param(f'{{"x":{{"y":{LONG}}}', id="an object without an end"),
        pytest.param('{"p":' + "[" * 98 + f'{{"x":{nested(["1"], (LARGE, 1))}}}' + "]" * 98 + "}", id="too deep"),
        pytest.param(f'{{"x":[{"0," * (VALUES_MAX + 1)}0]}}', id="too many values"),
        pytest.param('{"x":[' + "[]," * 500_001 + "[]]}", id="too many lists"),
        pytest.param('{"x":%s,"y":%s,"z":%s}' % ((nested(["1"], (200_000, 1)),) * 3), id="too many lists in all"),
    ],
)
def test_what_is_no_json_is_refused_as_without_arrays(text: str) -> None:
    with pytest.raises(MalformedJson) as usual:
        parse_json(text.encode())

    with pytest.raises(MalformedJson) as raised:
        read_with_numbers(text.encode(), lambda value: value)

    assert raised.value.failure() == usual.value.failure()


@pytest.mark.parametrize(
    "text",
    [
        pytest.param(f'{{"x":{nested(["9007199254740993.00000001"], (LARGE,))}}}', id="more digits than Python writes"),
        pytest.param(f'{{"x":{nested(["1.234567890123456789e99"], (LARGE,))}}}', id="many digits before an exponent"),
        pytest.param(f'{{"x":{LONG[:-1]}, 12345678901234567890E-3]}}', id="more before an exponent, once"),
        pytest.param(f'{{"x":{nested(["0.5"], (2, LARGE // 2))[:-1]},[1]]}}', id="a ragged list"),
        pytest.param(f'{{"x":{LONG[:-1]},[]]}}', id="an empty list in it"),
        pytest.param(f'{{"x":{LONG[:-1]},[0.5]]}}', id="a list beside numbers"),
        pytest.param(f'{{"x":{LONG[:-1]},true]}}', id="a boolean"),
        pytest.param(f'{{"x":{LONG[:-1]},"NaN"]}}', id="a string"),
        pytest.param(f'{{"x":{LONG},"y":"\\""}}', id="a backslash"),
        pytest.param(f'{{"x":{LONG},"y":900719925474090000}}', id="a number that stands for a list"),
        pytest.param('{"x":' + "[" * 40 + LONG + "]" * 40 + "}", id="more dims than a tensor has"),
        pytest.param('{"x":"' + LONG + '"}', id="no list, but text"),
    ],
)
def test_what_is_unusual_is_read_as_any_json_is(text: str) -> None:
    with pytest.raises(NotUsual):
        parse_numbers(text.encode())

    assert read_with_numbers(text.encode(), lambda value: value) == json.loads(text)


def test_where_arrays_do_not_fit_the_list_is_looked_at() -> None:
    """A reader that knows no arrays there gets the list, and its error says what stands there."""
    seen: list[Any] = []

    def read(value: Any) -> int:
        seen.append(value)
        if isinstance(value["x"], Numbers):
            raise InvalidTensor("an array")
        return len(value["x"])

    assert read_with_numbers(f'{{"x":{LONG}}}'.encode(), read) == LARGE
    assert len(seen) == 2


@pytest.mark.parametrize(
    ("datatype", "numbers", "fits"),
    [
        (Datatype.UINT8, ["0", "255"], True),
        (Datatype.UINT8, ["0", "256"], False),
        (Datatype.UINT8, ["0", "-1"], False),
        (Datatype.INT8, ["-128", "127"], True),
        (Datatype.INT8, ["-129", "127"], False),
        (Datatype.INT64, ["-9223372036854775808", "9223372036854775807"], True),
        (Datatype.UINT64, ["0", "9223372036854775807"], True),
        (Datatype.UINT64, ["0", "-1"], False),
        (Datatype.INT32, ["1", "1.0"], False),
        (Datatype.BOOL, ["1", "0"], False),
        (Datatype.FP16, ["65504", "-65519.9"], True),
        (Datatype.FP16, ["65520"], False),
        (Datatype.FP32, ["3.4028235677973366e38"], False),
        (Datatype.BF16, ["3.4e38"], False),
        (Datatype.FP64, ["1.7976931348623157e308"], True),
    ],
)
def test_an_array_holds_what_its_datatype_can(datatype: Datatype, numbers: list[str], fits: bool) -> None:
    array = parse_numbers(f'{{"x":{nested(numbers, (COUNT,))}}}'.encode())["x"]
    values = json.loads(nested(numbers, (COUNT,)))

    assert isinstance(array, Numbers)
    assert packed(datatype, (COUNT,), array) == packed(datatype, (COUNT,), values)
    assert (packed(datatype, (COUNT,), array) is not None) == fits
