"""JSON data as bytes and back."""

import math
import struct
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tracehouse.errors import InvalidTensor
from tracehouse.tensors.tensor import (
    Datatype,
    Tensor,
    TensorSpec,
    array,
    array_bytes,
    cast,
    infer_shape,
    json_number,
    pack,
    split,
    unpack,
)

INTEGERS = [datatype for datatype in Datatype if datatype.is_integer]


def bounds(datatype: Datatype) -> tuple[int, int]:
    info = np.iinfo(datatype.value.lower())
    return int(info.min), int(info.max)


@pytest.mark.parametrize("datatype", INTEGERS)
def test_the_ends_of_an_integer_range_fit_and_what_is_beyond_does_not(datatype: Datatype) -> None:
    low, high = bounds(datatype)
    assert unpack(datatype, pack(datatype, [2], [low, high])) == [low, high]
    for beyond in (low - 1, high + 1):
        with pytest.raises(InvalidTensor):
            pack(datatype, [1], [beyond])


@given(st.lists(st.floats(width=32), max_size=20))
def test_float32_comes_back_as_it_was(values: list[float]) -> None:
    names = [
        v if math.isfinite(v) else "NaN" if math.isnan(v) else "Infinity" if v > 0 else "-Infinity" for v in values
    ]
    assert unpack(Datatype.FP32, pack(Datatype.FP32, [len(values)], names)) == names


def test_nested_data_is_row_major() -> None:
    assert pack(Datatype.INT8, [2, 3], [[1, 2, 3], [4, 5, 6]]) == bytes([1, 2, 3, 4, 5, 6])
    assert pack(Datatype.INT8, [2, 3], [1, 2, 3, 4, 5, 6]) == bytes([1, 2, 3, 4, 5, 6])


@pytest.mark.parametrize(
    ("shape", "data"),
    [([], 7), ([], [7]), ([0], []), ([0, 3], []), ([2, 0], [[], []]), ([1, 1, 1], [[[7]]]), ([1], [7])],
)
def test_scalars_and_empty_tensors_fit(shape: list[int], data: object) -> None:
    packed = pack(Datatype.INT8, shape, data)  # type: ignore[arg-type]
    assert len(packed) == math.prod(shape)


@pytest.mark.parametrize(
    ("shape", "data"),
    [
        ([2], [1]),
        ([2, 2], [[1, 2], [3]]),
        ([2, 2], [[1, 2, 3, 4]]),
        ([2, 2], [[1, 2], 3]),
        ([2, 2], [1, [2, 3], 4]),
        ([4], [[1, 2], [3, 4]]),
        ([2, 2], [[1, 2], [3, [4]]]),
        ([], [1, 2]),
        ([1], []),
        ([], [[]]),
        ([1], {"a": 1}),
        ([1], None),
    ],
)
def test_data_that_does_not_spell_the_shape_is_refused(shape: list[int], data: object) -> None:
    with pytest.raises(InvalidTensor):
        pack(Datatype.INT64, shape, data)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("datatype", "value"),
    [
        (Datatype.INT64, 1.5),
        (Datatype.INT64, True),
        (Datatype.INT64, "1"),
        (Datatype.BOOL, 1),
        (Datatype.FP32, True),
        (Datatype.FP32, "1.5"),
        (Datatype.FP32, None),
        (Datatype.FP32, 1e300),
        (Datatype.FP16, 70000.0),
        (Datatype.BF16, 3.4e38),
        (Datatype.BF16, -3.4e38),
        (Datatype.FP64, 10**400),
    ],
)
def test_a_value_that_the_datatype_cannot_hold_is_refused_and_never_converted(
    datatype: Datatype, value: object
) -> None:
    with pytest.raises(InvalidTensor) as refused:
        pack(datatype, [2], [value, value])  # type: ignore[list-item]
    assert refused.value.facts["datatype"] == datatype


@pytest.mark.parametrize("value", [1.0, -2.5, 3.140625, 1e38, 1.00390625, 1.01171875, 0.0])
def test_bfloat16_rounds_to_nearest_even_as_torch_does(value: float) -> None:
    import torch

    expected = torch.tensor([value], dtype=torch.float32).to(torch.bfloat16).view(torch.int16).item() & 0xFFFF
    assert struct.unpack("<H", pack(Datatype.BF16, [1], [value]))[0] == expected


@pytest.mark.parametrize("given", [Datatype.FP64, Datatype.FP32, Datatype.FP16, Datatype.BF16])
@pytest.mark.parametrize("wanted", [Datatype.FP64, Datatype.FP32, Datatype.FP16, Datatype.BF16])
def test_a_tensor_is_cast_as_torch_casts_it(given: Datatype, wanted: Datatype) -> None:
    import torch

    from tracehouse.torch_values.tensors import DTYPES

    values = torch.tensor([[0.1, -2.5, 1.01171875], [40000.0, float("inf"), float("nan")]]).to(DTYPES[given])
    tensor = Tensor("x", given, (2, 3), bytes(values.view(torch.uint8).numpy()))
    expected = values.to(DTYPES[wanted])

    found = cast(tensor, wanted)

    assert found.spec == TensorSpec(name="x", datatype=wanted, shape=(2, 3))
    result = torch.frombuffer(bytearray(found.data), dtype=DTYPES[wanted]).reshape(2, 3)
    assert torch.equal(result.nan_to_num(7, 8, 9), expected.nan_to_num(7, 8, 9))


def test_bfloat16_not_a_number_stays_one() -> None:
    assert unpack(Datatype.BF16, pack(Datatype.BF16, [2], ["NaN", "-Infinity"])) == ["NaN", "-Infinity"]


@pytest.mark.parametrize(("data", "shape"), [(1, ()), ([], (0,)), ([[1, 2], [3, 4]], (2, 2)), ([[], []], (2, 0))])
def test_nested_lists_spell_a_shape(data: object, shape: tuple[int, ...]) -> None:
    assert infer_shape(data) == shape  # type: ignore[arg-type]


@pytest.mark.parametrize("datatype", Datatype)
def test_bytes_become_an_array_and_are_the_same_again(datatype: Datatype) -> None:
    values = [True, False] if datatype is Datatype.BOOL else [0, 1]
    data = pack(datatype, [2], values)

    assert array(datatype, data).tolist() == values
    assert array_bytes(datatype, array(datatype, data)) == data


def test_tensors_that_stand_one_after_the_other_are_split() -> None:
    specs = [
        TensorSpec(name="a", datatype=Datatype.INT8, shape=(2,)),
        TensorSpec(name="b", datatype=Datatype.FP32, shape=(0, 3)),
        TensorSpec(name="c", datatype=Datatype.INT16, shape=()),
    ]

    assert [(one.spec, bytes(one.data)) for one in split(specs, b"\1\2\3\4")] == list(
        zip(specs, [b"\1\2", b"", b"\3\4"], strict=True)
    )


@given(
    values=st.lists(st.one_of(st.floats(), st.integers(-(2**63), 2**64 - 1)), max_size=8),
    datatype=st.sampled_from([Datatype.FP32, Datatype.FP64]),
)
def test_few_values_are_packed_as_many_are(values: list[Any], datatype: Datatype) -> None:
    def packed(data: list[Any]) -> object:
        try:
            return pack(datatype, (len(data),), data)[: len(values) * datatype.item_bytes]
        except InvalidTensor as error:
            return error.detail

    named = [json_number(value) if isinstance(value, float) else value for value in values]

    assert packed(named) == packed([*named, *[0.0] * 2000])


@pytest.mark.parametrize("datatype", [datatype for datatype in Datatype if datatype is not Datatype.BF16])
def test_a_dtype_has_the_name_by_which_numpy_reads_the_bytes(datatype: Datatype) -> None:
    assert array(datatype, bytes(datatype.item_bytes)).dtype == np.dtype(datatype.dtype_name)
