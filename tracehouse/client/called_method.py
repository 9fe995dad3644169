"""A called method: its contracts in all buckets of a version, one of which answers.

The tensors of a reply do not say which bucket they come from, and each may have other constants beside them.
"""

from collections.abc import Mapping, Sequence
from typing import Any

from tracehouse.client.call_tensors import flatten_call
from tracehouse.client.errors import NotSendable
from tracehouse.contract.buckets import BucketContract, choose
from tracehouse.contract.contract import Contract, MethodContract
from tracehouse.contract.dims import format_sizes
from tracehouse.contract.structure import Structure
from tracehouse.tensors.tensor import Tensor


class CalledMethod:
    """One method of a version, in each of its buckets; a version without buckets has one contract."""

    def __init__(self, buckets: Sequence[BucketContract], *, is_open: bool) -> None:
        self._buckets = buckets
        self._is_open = is_open
        self._readers = _each_reader([bucket.method for bucket in buckets])
        # As text: Python takes True, 1 and 1.0 for the same.
        self._returned = [bucket.method.returns.model_dump_json() for bucket in buckets]

    def flatten(self, args: Sequence[Any], kwargs: Mapping[str, Any]) -> list[Tensor]:
        """Return the tensors of a call, whose arguments and orders of keys all buckets take.

        Raises a ContractViolation or NotSendable.
        """
        tensors, *_ = [flatten_call(reader, args, kwargs) for reader in self._readers]
        return tensors

    def choose_returns(self, tensors: Sequence[Tensor]) -> Structure:
        """Return how the answer to these tensors nests, with the constants of the bucket that answers.

        Raises a ContractViolation if no bucket takes them, and NotSendable if the constants cannot be known.
        """
        place = choose(tensors, self._buckets, is_open=self._is_open)
        specs = [tensor.spec for tensor in tensors]
        # The first that takes them answers; but where the service answers called sizes only, a later one may.
        for other, bucket in enumerate(self._buckets):
            if self._returned[other] != self._returned[place] and bucket.method.takes(specs):
                raise NotSendable(
                    f"the buckets of {format_sizes(self._buckets[place].sizes)} and of {format_sizes(bucket.sizes)} "
                    "both take these inputs and return different constants, so that the answer's cannot be known here: "
                    "ask POST /infer, whose reply has them in `returns`"
                )
        return self._buckets[place].method.returns


class VersionContracts:
    """The contracts of a version's artifacts for one device, each with the sizes of its bucket, in their order."""

    def __init__(self, contracts: Sequence[tuple[Mapping[str, int], Contract]]) -> None:
        self._contracts = contracts
        self._called: dict[str, CalledMethod] = {}

    @property
    def methods(self) -> list[str]:
        """The names of the methods."""
        return [*self._contracts[0][1].methods]

    def method(self, name: str) -> CalledMethod:
        """Return what is known of a method that there is."""
        if name not in self._called:
            buckets = [BucketContract(sizes, contract.methods[name]) for sizes, contract in self._contracts]
            self._called[name] = CalledMethod(buckets, is_open=self._contracts[0][1].open)
        return self._called[name]


def _each_reader(methods: Sequence[MethodContract]) -> list[MethodContract]:
    """Return one of all contracts that read arguments in the same way."""
    readers: dict[str, MethodContract] = {}
    for method in methods:
        readers.setdefault(method.model_dump_json(include={"arguments", "key_orders"}), method)
    return [*readers.values()]
