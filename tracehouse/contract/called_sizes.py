"""Called sizes: the part of a contract that does not rest on the process that traced.

That process ran the submitted code, which can forge what it finds: what is proven, and that rows are independent. The
service called the model and the artifact at some sizes itself, each in a process of its own.
"""

from tracehouse.contract.contract import Contract, MethodContract, OtherRanks
from tracehouse.contract.regions import Region, Span


def only_called(contract: Contract) -> Contract:
    """Return the contract that accepts the sizes and datatypes of the service's own calls, one request at a time."""
    methods = {name: _only_called(method) for name, method in contract.methods.items()}
    return contract.model_copy(update={"methods": methods, "open": False})


def _only_called(method: MethodContract) -> MethodContract:
    own, *others = (_narrow(one) for one in method.by_ranks)
    return own.model_copy(update={"other_ranks": [OtherRanks.of(one) for one in others]})


def _narrow(method: MethodContract) -> MethodContract:
    example = method.example_sizes
    called = [sizes for sizes in (example, *method.called) if sizes]  # of no symbols there is nothing to narrow
    return method.model_copy(
        update={
            "inputs": [spec.model_copy(update={"datatypes": []}) for spec in method.inputs],
            "outputs": [spec.model_copy(update={"datatype_of": None}) for spec in method.outputs],
            "regions": [
                Region(spans={symbol: [Span(low=size, high=size)] for symbol, size in sizes.items()}, basis="tested")
                for sizes in called
            ],
            "memory": None,
            "batch": None,
        }
    )
