"""Calls as named tensors, and answers as what the model returns."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import httpx
import numpy as np
import orjson
import pytest
import torch

from tracehouse import Client
from tracehouse.client import errors
from tracehouse.client.call_tensors import build_answer, flatten_call
from tracehouse.client.inference import UnsoundAnswer
from tracehouse.client.values import to_numpy, to_tensor, to_torch
from tracehouse.contract.contract import MethodContract
from tracehouse.contract.structure import DataclassNode, NamedTupleNode, TensorLeaf
from tracehouse.errors import (
    BakedArgument,
    ContractViolation,
    InvalidTensor,
    KeyOrderMismatch,
    MissingInput,
    StructureMismatch,
    UnexpectedInput,
)
from tracehouse.tensors.tensor import Datatype, Tensor

LEAF = {"tensor": "x"}


def method(*arguments: tuple[str, Any], returns: Any = None, **members: Any) -> MethodContract:
    names = [name for _, structure in arguments for name in tensors_in(structure)]
    inputs = [{"name": name, "datatype": "FP32", "shape": [2], "example": [2]} for name in names]
    return MethodContract.model_validate({
        "arguments": [{"name": name, "structure": structure} for name, structure in arguments],
        "inputs": inputs,
        "outputs": [{"name": "output", "datatype": "FP32", "shape": [2]}],
        "returns": returns or {"tensor": "output"},
        **members,
    })  # fmt: skip


def tensors_in(structure: Any) -> Iterator[str]:
    if isinstance(structure, dict) and "tensor" in structure:
        yield structure["tensor"]
    elif isinstance(structure, dict | list):
        for inner in structure.values() if isinstance(structure, dict) else structure:
            yield from tensors_in(inner)


def flat(contract: MethodContract, *args: Any, **kwargs: Any) -> dict[str, list[float]]:
    return {one.name: to_numpy(one).tolist() for one in flatten_call(contract, args, kwargs)}


ONES, TWOS = np.ones(2, np.float32), torch.full((2,), 2.0)


def test_nested_arguments_are_named_by_the_contract() -> None:
    contract = method(
        ("pair", {"tuple": [{"tensor": "pair.0"}, {"list": [{"tensor": "pair.1.0"}]}]}),
        ("batch", {"mapping": {"a": {"tensor": "batch.a"}, "b": {"baked": [1, None]}}}),
    )
    assert flat(contract, (ONES, [TWOS]), batch={"a": [3.0, 4.0], "b": (1, None)}) == {
        "pair.0": [1, 1], "pair.1.0": [2, 2], "batch.a": [3, 4],
    }  # fmt: skip


def test_numbers_get_the_contracts_datatype_and_arrays_keep_theirs() -> None:
    assert flatten_call(method(("x", LEAF)), [[1, 2]], {})[0].datatype is Datatype.FP32
    assert flatten_call(method(("x", LEAF)), [np.ones(2)], {})[0].datatype is Datatype.FP64


@pytest.mark.parametrize(
    ("arguments", "given", "kind"),
    [
        ([("x", LEAF)], ((ONES, ONES), {}), UnexpectedInput),
        ([("x", LEAF)], ((ONES,), {"x": ONES}), UnexpectedInput),
        ([("x", LEAF)], ((), {"y": ONES}), UnexpectedInput),
        ([("x", LEAF)], (([[1.0], [1.0, 2.0]],), {}), InvalidTensor),
        ([("x", {"tuple": [LEAF]})], ((ONES,), {}), StructureMismatch),
        ([("x", {"list": [LEAF]})], (([ONES, ONES],), {}), StructureMismatch),
        ([("x", {"mapping": {"a": LEAF}})], (({},), {}), MissingInput),
        ([("x", {"mapping": {"a": LEAF}})], (({"a": ONES, "b": ONES},), {}), StructureMismatch),
        ([("flag", {"baked": True})], ((1,), {}), BakedArgument),
        ([("scale", {"fixed": 2})], ((2.0,), {}), BakedArgument),
        ([("scale", {"baked": None})], ((ONES,), {}), BakedArgument),
    ],
    ids=str,
)
def test_a_call_to_which_there_is_no_answer_is_refused(
    arguments: list[tuple[str, Any]], given: tuple[Sequence[Any], Mapping[str, Any]], kind: type[ContractViolation]
) -> None:
    with pytest.raises(kind):
        flatten_call(method(*arguments), *given)


def test_keys_in_another_order_are_refused_where_the_model_reads_it() -> None:
    """The service gets tensors by name, so it would answer as for the contract's order."""
    structure = {"mapping": {"a": {"tensor": "x.a"}, "b": {"tensor": "x.b"}}}
    read = method(("x", structure), key_orders={"x": ["a", "b"]})

    assert flat(method(("x", structure)), {"b": ONES, "a": TWOS}) == {"x.a": [2, 2], "x.b": [1, 1]}
    assert flat(read, {"a": TWOS, "b": ONES}) == {"x.a": [2, 2], "x.b": [1, 1]}
    with pytest.raises(KeyOrderMismatch):
        flat(read, {"b": ONES, "a": TWOS})


def test_every_datatype_comes_back_as_it_went(every_datatype: list[Tensor]) -> None:
    for tensor in every_datatype:
        assert to_tensor(tensor.name, to_torch(tensor)) == tensor
        if tensor.datatype is not Datatype.BF16:  # NumPy lacks it
            assert to_tensor(tensor.name, to_numpy(tensor)) == tensor


def test_named_tuples_dataclasses_and_complex_tensors_are_built() -> None:
    one = Tensor("a", Datatype.FP32, (2,), np.array([1, 2], "<f4").tobytes())
    named = build_answer(NamedTupleNode(namedtuple={"left": TensorLeaf(tensor="a")}), {"a": one}, to_numpy)
    fields = build_answer(DataclassNode(dataclass={"left": TensorLeaf(tensor="a")}), {"a": one}, to_torch)

    assert (named.left.tolist(), named[0].tolist(), fields.left.tolist()) == ([1, 2], [1, 2], [1, 2])
    assert to_numpy(one, is_complex=True) == 1 + 2j
    assert to_torch(one, is_complex=True) == torch.tensor(1 + 2j)


class Registry:
    """A service whose versions add their number to `x`, and of which version 2 was traced with another flag."""

    def __init__(self) -> None:
        self.default = 1
        self.asked: list[str] = []
        self.parameters: dict[str, Any] = {}

    def answer(self, request: httpx.Request) -> httpx.Response:
        path = request.url.path
        self.asked.append(path)
        if path.startswith("/models"):
            versions = [{"version": one, "artifacts": {"cpu": f"{one}"}, "buckets": []} for one in (1, 2)]
            model = {"name": "net", "default_version": self.default, "versions": versions, "aliases": []}
            return httpx.Response(200, json=model)
        if path.startswith("/artifacts"):
            contract = method(("x", LEAF), ("flag", {"baked": path.endswith("2")}))
            return httpx.Response(200, json={"contract": {"methods": {"forward": contract.model_dump(mode="json")}}})
        length = int(request.headers["inference-header-content-length"])
        assert orjson.loads(request.content[:length])["inputs"][0]["name"] == "x"
        added = np.frombuffer(request.content[length:], "<f4") + np.float32(self.default)
        output = {"name": "output", "datatype": "FP32", "shape": [2], "parameters": {"binary_data_size": 8}}
        text = orjson.dumps({"model_version": f"{self.default}", "outputs": [output], "parameters": self.parameters})
        return httpx.Response(200, content=text + added.tobytes(),
                              headers={"inference-header-content-length": str(len(text))})  # fmt: skip


@pytest.fixture
def registry() -> Registry:
    return Registry()


@pytest.fixture
def client(registry: Registry) -> Client:
    return Client("http://service", transport=httpx.MockTransport(registry.answer))


def test_the_contract_is_asked_for_once(client: Client, registry: Registry) -> None:
    answers = [client.infer("net", ONES, flag=False).tolist() for _ in range(3)]

    assert answers == [[2, 2]] * 3
    assert len([path for path in registry.asked if not path.endswith("infer")]) == 3


def test_a_version_promoted_between_two_calls_never_answers_a_call_that_it_does_not_take(
    client: Client, registry: Registry
) -> None:
    """The new version has another value baked in, which the service does not see."""
    assert client.infer("net", ONES, flag=False).tolist() == [2, 2]
    registry.default = 2
    with pytest.raises(errors.OutsideContract, match="'flag' was True"):
        client.infer("net", ONES, flag=False)
    assert client.infer("net", ONES, flag=True).tolist() == [3, 3]
    registry.default = 1
    with pytest.raises(errors.OutsideContract):
        client.infer("net", ONES, flag=True)
    assert client.infer("net", TWOS, flag=False).tolist() == [3, 3]


def test_an_answer_that_is_not_to_be_trusted_says_so(client: Client, registry: Registry) -> None:
    registry.parameters = {"warning": "version 1 was rejected"}
    with pytest.warns(UnsoundAnswer, match="version 1 was rejected"):
        client.infer("net", ONES, flag=False)


@pytest.mark.parametrize(
    ("members", "length"),
    [
        ({"outputs": [{"name": "y", "datatype": "FP32", "shape": [2]}]}, "0"),
        ({"outputs": [{"name": "y", "datatype": "FP32", "shape": [10**9, 10**9]}]}, None),
        ({"outputs": [{"name": "y", "datatype": "FP32", "shape": [-2]}]}, None),
        ({"outputs": [{"name": "y", "datatype": "BYTES", "shape": [1]}]}, None),
        ({"outputs": [5]}, None),
        ({"outputs": 5}, None),
        ({}, None),
        ({"outputs": []}, "x"),
        ({"outputs": []}, "-3"),
    ],
)
def test_an_answer_that_cannot_be_read_is_no_answer(
    registry: Registry, members: dict[str, Any], length: str | None
) -> None:
    text = orjson.dumps({"model_version": "1", **members})

    def answer(request: httpx.Request) -> httpx.Response:
        if not request.url.path.endswith("infer"):
            return registry.answer(request)
        headers = {"inference-header-content-length": length or str(len(text))}
        return httpx.Response(200, content=text + b"\0" * 4, headers=headers)

    with pytest.raises(errors.UnexpectedReply):
        Client("http://service", transport=httpx.MockTransport(answer)).infer("net", ONES, flag=False)


@pytest.mark.parametrize(
    ("reference", "said"),
    [("net@prod", "no alias 'prod'"), ("net:7", "no version 7")],
)
def test_what_is_not_there_is_named(client: Client, reference: str, said: str) -> None:
    with pytest.raises(errors.NotFound, match=said):
        client.infer(reference, ONES, flag=False)


def test_a_method_that_is_not_there_is_named(client: Client) -> None:
    with pytest.raises(errors.NotFound, match="there is no method 'encode': there is forward"):
        client.infer("net", ONES, method="encode")


class Bucketed:
    """A service whose one version has these contracts in buckets, and answers each call with the tensor that came."""

    def __init__(self, *buckets: MethodContract, is_open: bool = False) -> None:
        self.buckets = buckets
        self.is_open = is_open

    def answer(self, request: httpx.Request) -> httpx.Response:
        path = request.url.path
        if path.startswith("/models"):
            # A device that no call asks for has other artifacts, and is the first that was traced for.
            buckets = [{"device": "cuda", "sizes": {"n": 2}, "digest": "none"}]
            buckets += [{"device": "cpu", "sizes": {"n": at}, "digest": f"{at}"} for at in range(len(self.buckets))]
            version = {"version": 1, "artifacts": {"cuda": "none", "cpu": "0"}, "buckets": buckets}
            model = {"name": "net", "default_version": 1, "versions": [version], "aliases": []}
            return httpx.Response(200, json=model)
        if path.startswith("/artifacts/0/printouts"):
            return httpx.Response(200, text="def forward(self, x): ...")
        if path.startswith("/artifacts"):
            contract = self.buckets[int(path.rpartition("/")[2])].model_dump(mode="json")
            contracts = {"methods": {"forward": contract}, "open": self.is_open}
            return httpx.Response(200, json={"digest": "0", "verdict_sentence": "right", "contract": contracts})
        if path.startswith("/trace"):
            request_document = {"id": "1", "state": "succeeded", "stage": "ended", "progress": 1.0, "verdict": None,
                                "findings": [], "artifacts": [{"digest": "0"}],
                                "model": {"name": "net", "version": 1}}  # fmt: skip
            return httpx.Response(200, json=request_document)
        length = int(request.headers["inference-header-content-length"])
        [sent] = orjson.loads(request.content[:length])["inputs"]
        output = {**sent, "name": "output"}
        text = orjson.dumps({"model_version": "1", "outputs": [output]})
        return httpx.Response(200, content=text + request.content[length:],
                              headers={"inference-header-content-length": str(len(text))})  # fmt: skip

    def client(self) -> Client:
        return Client("http://service", transport=httpx.MockTransport(self.answer))


def bucket(size: int, constant: Any, *, up_to: int | None = None, **members: Any) -> MethodContract:
    """The contract for this size, or for it and larger ones, which returns the tensor and a constant beside it."""
    shape: list[Any] = [size if up_to is None else "n"]
    regions = [] if up_to is None else [{"spans": {"n": [{"low": 1, "high": up_to}]}, "basis": "tested"}]
    return MethodContract.model_validate({
        "arguments": [{"name": "x", "structure": LEAF}],
        "inputs": [{"name": "x", "datatype": "FP32", "shape": shape, "example": [size]}],
        "outputs": [{"name": "output", "datatype": "FP32", "shape": shape}],
        "returns": {"tuple": [{"tensor": "output"}, {"baked": constant}]},
        "regions": regions,
        **members,
    })  # fmt: skip


def test_the_constants_are_those_of_the_bucket_that_answers() -> None:
    """A size that each bucket has baked in: the tensors of the reply do not say which bucket they come from."""
    client = Bucketed(bucket(2, 2), bucket(3, 3)).client()

    assert [client.infer("net", np.ones(size, np.float32))[1] for size in (3, 2)] == [3, 2]


def test_a_trace_answers_with_the_constants_of_the_bucket_too() -> None:
    trace = Bucketed(bucket(2, 2), bucket(3, 3)).client().get_trace("1")

    assert [trace.infer(np.ones(size, np.float32))[1] for size in (3, 2)] == [3, 2]


def test_an_open_version_answers_untried_sizes_with_the_constants_of_the_bucket_whose_sizes_came() -> None:
    buckets = (
        bucket(2, 2, inputs=[{"name": "x", "datatype": "FP32", "shape": [2, 5], "example": [2, 5]}]),
        bucket(3, 3, inputs=[{"name": "x", "datatype": "FP32", "shape": [3, 5], "example": [3, 5]}]),
    )
    client = Bucketed(*buckets, is_open=True).client()

    assert client.infer("net", np.ones((3, 7), np.float32))[1] == 3


def test_sizes_that_no_bucket_takes_are_refused() -> None:
    with pytest.raises(errors.OutsideContract) as refused:
        Bucketed(bucket(2, 2), bucket(3, 3)).client().infer("net", np.ones(4, np.float32))

    assert refused.value.code == "no-bucket"


@pytest.mark.parametrize("constants", [(2, 3), (1, True), (1, 1.0)])
def test_where_two_buckets_may_answer_with_other_constants_nothing_is_guessed(constants: tuple[Any, Any]) -> None:
    """A service that answers called sizes only takes the second, and others the first."""
    buckets = [bucket(size, constant, up_to=4) for size, constant in zip((2, 3), constants, strict=True)]
    client = Bucketed(*buckets).client()

    with pytest.raises(errors.NotSendable, match="return different constants"):
        client.infer("net", np.ones(3, np.float32))


def test_where_two_buckets_may_answer_with_one_constant_it_is_returned() -> None:
    client = Bucketed(bucket(2, 7, up_to=4), bucket(3, 7, up_to=4)).client()

    assert client.infer("net", np.ones(3, np.float32))[1] == 7


@pytest.mark.parametrize(
    ("differing", "given", "kind"),
    [
        ({"key_orders": {"**": ["x", "flag"]}}, {"flag": True, "x": ONES}, "key-order-mismatch"),
        ({"arguments": [{"name": "x", "structure": LEAF}, {"name": "flag", "structure": {"baked": False}}]},
         {"x": ONES, "flag": True}, "baked-argument"),
    ],
    ids=["key orders", "baked arguments"],
)  # fmt: skip
def test_a_call_has_to_fit_the_arguments_of_all_buckets(
    differing: dict[str, Any], given: dict[str, Any], kind: str
) -> None:
    arguments = [{"name": "x", "structure": LEAF}, {"name": "flag", "structure": {"baked": True}}]
    client = Bucketed(bucket(2, 2, arguments=arguments), bucket(3, 3, **{"arguments": arguments, **differing})).client()

    with pytest.raises(errors.OutsideContract) as refused:
        client.infer("net", **given)

    assert refused.value.code == kind
