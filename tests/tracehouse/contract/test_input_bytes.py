"""How large a call can be that a contract accepts."""

from tests.contracts import contract, method, span
from tracehouse.contract.contract import OtherRanks
from tracehouse.contract.input_bytes import is_bounded, largest_inputs_bytes
from tracehouse.contract.memory import Memory, SizeProduct
from tracehouse.contract.regions import Region


def test_the_largest_region_counts() -> None:
    net = contract({"ids": ("batch", "seq")}, {"batch": "1..8", "seq": "4..64"}, {"batch": "100", "seq": "4"})

    assert largest_inputs_bytes(net.method("forward")) == 8 * 64 * 8


def test_a_call_of_other_ranks_may_be_larger() -> None:
    other = OtherRanks.of(method({"ids": ("batch", "seq")}, {"batch": "1..8", "seq": "4..64"}))
    net = contract({"ids": ("batch",)}, {"batch": "1..8"}, other_ranks=[other])

    assert largest_inputs_bytes(net.method("forward")) == 8 * 64 * 8


def test_fixed_shapes_have_the_size_of_the_example() -> None:
    assert largest_inputs_bytes(contract({"a": (2, 3), "b": ()}).method("forward")) == 7 * 8


def test_sizes_beyond_all_calls_have_no_largest() -> None:
    small = [SizeProduct(times=1, powers={"batch": 1})]
    region = Region(spans={"batch": [span("1..8")]}, basis="proven", beyond={"batch": 10**6})
    net = method({"ids": ("batch",)}, {"batch": "1..8"}, memory=Memory(bytes=small, elements=small), regions=[region])

    assert not is_bounded(net)
    assert is_bounded(method({"ids": ("batch",)}, {"batch": "1..8"}))
