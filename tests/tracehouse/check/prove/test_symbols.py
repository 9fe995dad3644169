"""Symbols: tensors without values share memory as the real ones do, and symbols stand for their bounds alone."""

from collections.abc import Callable

import pytest
import torch

from tracehouse.check.prove.symbols import Symbols, expression_of
from tracehouse.check.prove.tensor_memory import storage_of
from tracehouse.check.prove.unprovable import Unprovable


@pytest.fixture
def symbols() -> Symbols:
    return Symbols({"batch": 3, "length": 8}, {"batch": 64, "length": 32})


HELD: dict[str, Callable[[], torch.Tensor]] = {
    "a parameter": lambda: torch.nn.Parameter(torch.randn(4, 5)),
    "a buffer": lambda: torch.arange(6).reshape(2, 3),
    "no dims": lambda: torch.tensor(2.5),
    "no elements": lambda: torch.empty(0, 4),
    "transposed": lambda: torch.randn(4, 5).t(),
    "a kernel of one pixel, channel by channel": lambda: torch.empty_strided((4, 8, 1, 1), (8, 1, 8, 8)).zero_(),
    "a part of a tensor": lambda: torch.randn(4, 5)[1:, 2:],
    "expanded": lambda: torch.randn(4, 1).expand(4, 5),
    "complex, conjugated": lambda: torch.randn(3, dtype=torch.complex64).conj(),
    "sparse": lambda: torch.eye(3).to_sparse(),
}


@pytest.mark.parametrize("name", HELD)
def test_a_tensor_without_values_is_laid_out_as_the_real_one(symbols: Symbols, name: str) -> None:
    real = HELD[name]()
    fake = symbols.fake_of(real)

    assert fake is symbols.fake_of(real)
    assert (fake.shape, fake.dtype, fake.device, fake.layout) == (real.shape, real.dtype, real.device, real.layout)
    assert (fake.requires_grad, fake.is_conj()) == (real.requires_grad, real.is_conj())
    if real.layout is torch.strided:
        assert (fake.stride(), fake.storage_offset()) == (real.stride(), real.storage_offset())


@pytest.mark.parametrize("whole_first", [True, False])
@pytest.mark.parametrize("is_made_later", [True, False])
def test_tensors_without_values_share_memory_as_the_real_ones_do(
    symbols: Symbols, whole_first: bool, is_made_later: bool
) -> None:
    whole = torch.randn(4, 5)
    parts = [] if is_made_later else [whole[1:]]
    if whole_first:
        symbols.fake_of(whole)
    part = whole[1:] if is_made_later else parts[0]
    fakes = [symbols.fake_of(one) for one in (part, whole, torch.randn(4, 5))]

    assert storage_of(fakes[0]) == storage_of(fakes[1])
    assert storage_of(fakes[2]) != storage_of(fakes[1])
    assert (fakes[0].shape, fakes[0].storage_offset()) == (part.shape, 5)


def test_memory_that_is_looked_at_in_another_datatype_later_is_not_taken_for_two_memories(symbols: Symbols) -> None:
    pairs = torch.randn(4, 2)
    symbols.fake_of(pairs)

    with pytest.raises(Unprovable):
        symbols.fake_of(torch.view_as_complex(pairs))


def test_bounds_are_conditions(symbols: Symbols) -> None:
    written = {symbols.write_names(str(one.expression)) for one in symbols.conditions()}

    assert written == {"batch >= 1", "batch <= 64", "length >= 1", "length <= 32"}


def test_an_operation_is_worked_out_once_and_gives_what_it_gave(symbols: Symbols) -> None:
    batch, length = symbols.empty(("batch", "length"), torch.empty(0)).shape
    operations: list[Callable[[], torch.SymInt]] = [
        lambda: batch + length, lambda: batch - 1, lambda: length * batch, lambda: length // 3,
        lambda: torch.sym_max(batch, length), lambda: torch.sym_min(batch, 4), lambda: length % 3,
    ]  # fmt: skip
    expected = [(expression_of(run()), run().node.hint) for run in operations]
    with symbols.activate():
        for _ in range(2):
            assert [(expression_of(run()), run().node.hint) for run in operations] == expected
        assert (batch * length).node is (batch * length).node

    assert (batch * length).node is not (batch * length).node
