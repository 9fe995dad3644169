"""The child's program from its first message to its last, in this process."""

import io
from collections.abc import Callable
from typing import Any

import pytest
import torch

from tests.submissions import EVERY_DATATYPE, spec, tensor
from tests.workers.conftest import Told
from tracehouse.contract.structure import (
    BakedLeaf,
    ComplexLeaf,
    DataclassNode,
    DictNode,
    ListNode,
    NamedTupleNode,
    Structure,
    TensorLeaf,
    TupleNode,
)
from tracehouse.findings.verdict import Verdict

Run = Callable[..., Told]
X = tensor([[1.0, 2.0, 3.0, 4.0], [-1.0, 0.5, 0.0, 2.0]])
# Without the layers of the check: what is shown is what is traced, and what the contract has of it.
OFF = {"probes": "off"}


def test_a_linear_layer_is_traced_checked_and_sent(run: Run) -> None:
    told = run(spec("linear", example_inputs=[X]))

    assert told.stages == ["loading", "tracing", "checking", "printing"]
    assert told.verdict is Verdict.VERIFIED
    assert [*told.findings] == ["weights-not-sent"]
    assert told.traced.check.torch.passed
    assert {spec.name: spec.shape for spec in told.traced.parameters} == {"layer.weight": (3, 4), "layer.bias": (3,)}
    assert [(part.name, part.type, part.methods) for part in told.traced.submodules] == [
        ("layer", "Linear", ["forward"])
    ]
    assert told.traced.versions.torch == torch.__version__


def test_plain_torch_loads_the_archive_and_its_schema_has_the_arguments_names(run: Run) -> None:
    told = run(spec("linear", example_inputs=[X]))

    archive = torch.jit.load(io.BytesIO(told.files["archive"]))

    assert [argument.name for argument in archive.forward.schema.arguments] == ["self", "x"]
    assert archive(torch.zeros(2, 4)).shape == (2, 3)


def test_all_methods_are_traced_into_one_archive(run: Run) -> None:
    told = run(
        spec(
            "two_methods",
            methods={
                "forward": {"example_inputs": [X]},
                "encode": {"example_inputs": [X], "example_kwarg_inputs": {"scale": 3.0}},
                "decode": {"example_kwarg_inputs": {"code": tensor([[1.0, 2.0]])}},
            },
        )
    )

    archive = torch.jit.load(io.BytesIO(told.files["archive"]))
    x, code = torch.ones(2, 4), torch.ones(1, 2)
    assert told.verdict is Verdict.VERIFIED
    assert torch.equal(archive.encode(x), archive.encoder(x) * 3.0)
    assert torch.equal(archive.forward(x), archive.decode(archive.encoder(x) * 2.0))
    assert archive.decode(code).shape == (1, 4)


def test_methods_that_call_each_other_are_traced_as_each_call_is_written(run: Run) -> None:
    image = {"datatype": "FP32", "shape": [1, 1, 5, 5], "random": {}}
    kernel = {"datatype": "FP32", "shape": [1, 1, 3, 3], "random": {"seed": 1}}
    told = run(
        spec(
            "methods_call_each_other",
            methods={
                "forward": {"example_inputs": [image]},
                "weighted_kernel_sum": {"example_inputs": [kernel], "example_kwarg_inputs": {"scale": 2.0}},
                "both": {"example_kwarg_inputs": {"weight": kernel, "x": image}},
            },
            check=OFF,
        )
    )

    archive = torch.jit.load(io.BytesIO(told.files["archive"]))
    x, weight = torch.ones(1, 1, 5, 5), torch.ones(1, 1, 3, 3)
    _, alone = archive.both(x, weight)
    assert told.verdict is Verdict.VERIFIED
    assert {one.method for one in told.traced.check.comparisons} == {"forward", "weighted_kernel_sum", "both"}
    assert torch.equal(archive.weighted_kernel_sum(weight), alone * 2.0)


def test_a_method_that_is_not_there_is_answered_with_those_that_are(run: Run) -> None:
    failure = run(spec("methods_call_each_other", methods={"kernel": {"example_inputs": [X]}})).failure

    assert (failure.slug, failure.facts["methods"]) == (
        "trace-method-not-found",
        ["forward", "both", "weighted_kernel_sum"],
    )
    assert "weighted_kernel_sum" in failure.detail


def test_forward_stands_for_a_bound_method(run: Run) -> None:
    told = run(spec("two_methods", "encode", example_inputs=[X]))

    archive = torch.jit.load(io.BytesIO(told.files["archive"]))
    assert archive(torch.zeros(2, 4)).shape == (2, 2)
    assert [argument.name for argument in archive.forward.schema.arguments] == ["self", "x"]


@pytest.mark.parametrize(
    ("entrypoint", "inputs", "names"),
    [
        ("add", {"example_inputs": [X, X]}, ["x", "y"]),
        ("scaled", {"example_inputs": [X]}, None),
        ("total", {"example_inputs": [X, X, X], "example_kwarg_inputs": {"weight": 0.5}}, None),
        ("keywords", {"example_inputs": [X], "example_kwarg_inputs": {"extra": X, "bias": X}}, ["x", "bias", "extra"]),
        ("instance", {"example_inputs": [X]}, ["x"]),
    ],
)
def test_functions_of_every_signature_are_traced(
    run: Run, entrypoint: str, inputs: dict[str, Any], names: list[str] | None
) -> None:
    told = run(spec("functions", entrypoint, check=OFF, **inputs))

    assert told.verdict is Verdict.VERIFIED
    archive = torch.jit.load(io.BytesIO(told.files["archive"]))
    taken = [argument.name for argument in archive.forward.schema.arguments][1:]
    contract = told.traced.contract.methods["forward"]
    assert taken == (names or taken)
    assert taken == [argument.name for argument in contract.arguments if "baked" not in argument.structure.model_dump()]


def test_what_nests_comes_back_nested(run: Run) -> None:
    told = run(spec("nested_output", example_inputs=[X]))

    contract = told.traced.contract.methods["forward"]
    leaf = TensorLeaf
    assert told.verdict is Verdict.VERIFIED
    assert contract.returns == TupleNode(
        tuple=[
            leaf(tensor="output.0"),
            TupleNode(
                tuple=[
                    leaf(tensor="output.1.0"),
                    NamedTupleNode(
                        namedtuple={"left": leaf(tensor="output.1.1.0"), "right": leaf(tensor="output.1.1.1")}
                    ),
                ]
            ),
        ]
    )
    assert [(output.name, output.datatype, output.shape) for output in contract.outputs] == [
        ("output.0", "FP32", (2, 4)),
        ("output.1.0", "FP32", ()),
        ("output.1.1.0", "BOOL", (2, 4)),
        ("output.1.1.1", "INT64", (2, 4)),
    ]


def test_nested_and_baked_arguments_are_in_the_contract(run: Run) -> None:
    told = run(
        spec(
            "nested_input",
            example_inputs=[{"tuple": [X, X]}, {"scale": X, "note": "kept"}, 2.0],
            example_kwarg_inputs={"mask": tensor([[True, False, False, True]], "BOOL")},
            check=OFF,
        )
    )

    contract = told.traced.contract.methods["forward"]
    archive = torch.jit.load(io.BytesIO(told.files["archive"]))
    x, mask = torch.ones(2, 4), torch.tensor([[True, False, False, True]])
    assert told.verdict is Verdict.VERIFIED
    assert {argument.name: argument.structure.model_dump() for argument in contract.arguments} == {
        "pair": {"tuple": [{"tensor": "pair.0"}, {"tensor": "pair.1"}]},
        "batch": {"mapping": {"scale": {"tensor": "batch.scale"}, "note": {"baked": "kept"}}},
        "factor": {"baked": 2.0},
        "names": {"baked": ["a"]},
        "mask": {"tensor": "mask"},
    }
    assert [one.name for one in contract.inputs] == ["pair.0", "pair.1", "batch.scale", "mask"]
    assert torch.equal(archive((x, x), {"scale": x}, mask), torch.tensor([[0.0, 3.0, 3.0, 0.0]] * 2))


def test_arguments_left_out_are_in_the_contract_and_not_given_to_eager(run: Run) -> None:
    told = run(spec("leaves_arguments_out", example_inputs=[X]))

    arguments = told.traced.contract.methods["forward"].arguments
    assert told.verdict is Verdict.VERIFIED
    assert {argument.name: argument.structure.model_dump() for argument in arguments} == {
        "x": {"tensor": "x"},
        "scale": {"baked": 2.0},
        "bias": {"baked": "<torch.float32 of shape [4]>"},
        "odd": {"baked": "<object>"},
        "names": {"baked": ["a", "b"]},
        "limit": {"baked": "inf"},
        "mask": {"baked": None},
    }


def test_arguments_stand_where_python_has_them_whatever_is_left_out(run: Run) -> None:
    told = run(spec("leaves_arguments_out", "between", example_inputs=[X], example_kwarg_inputs={"y": X}, check=OFF))

    arguments = told.traced.contract.methods["forward"].arguments
    assert told.verdict is Verdict.VERIFIED
    assert {argument.name: argument.structure.model_dump() for argument in arguments} == {
        "x": {"tensor": "x"},
        "scale": {"baked": 2.0},
        "y": {"tensor": "y"},
        "flag": {"baked": True},
        "words": {"baked": "<tuple of 1000>"},
    }
    archive = torch.jit.load(io.BytesIO(told.files["archive"]))
    assert torch.equal(archive(torch.ones(1, 4), torch.ones(1, 4)), torch.full((1, 4), 3.0))


def test_a_check_input_that_gives_a_default_is_inside_the_contract(run: Run) -> None:
    """And one that gives another value is told what was baked in."""
    checks = [[X, 2.0], [X, 3.0]]
    told = run(spec("functions", "scaled", example_inputs=[X], check={"check_inputs": checks}))

    same, other = told.comparisons["check_inputs[0]"], told.comparisons["check_inputs[1]"]
    assert (same.agrees, same.in_contract) == (True, True)
    assert (other.agrees, other.in_contract) == (False, False)
    assert "the trace was made with 2.0, and this call has 3.0" in str(other.difference)


def test_a_dict_is_returned_where_strict_is_off(run: Run) -> None:
    told = run(spec("dict_output", example_inputs=[X], options={"strict": False}))

    assert told.verdict is Verdict.VERIFIED
    returns = told.traced.contract.methods["forward"].returns
    assert returns == DictNode(
        mapping={"doubled": TensorLeaf(tensor="output.doubled"), "halved": TensorLeaf(tensor="output.halved")}
    )


OF_TWO_TENSORS = {"doubled": TensorLeaf(tensor="output.doubled"), "halved": TensorLeaf(tensor="output.halved")}


@pytest.mark.parametrize(
    ("name", "returns"),
    [
        ("dict_output", DictNode(mapping=OF_TWO_TENSORS)),
        ("returns_text", TupleNode(tuple=[TensorLeaf(tensor="output.0"), BakedLeaf(baked="text")])),
        (
            "returns_a_dataclass",
            DataclassNode(
                dataclass={
                    "doubled": TensorLeaf(tensor="output.doubled"),
                    "hidden": ListNode(list=[TensorLeaf(tensor="output.hidden.0"), BakedLeaf(baked=None)]),
                    "scale": BakedLeaf(baked=2.0),
                }
            ),
        ),
        ("returns_complex_numbers", TupleNode(tuple=[TensorLeaf(tensor="output.0"), ComplexLeaf(complex="output.1")])),
    ],
)
def test_the_contract_has_all_that_is_returned(run: Run, name: str, returns: Structure) -> None:
    told = run(spec(name, example_inputs=[X], check=OFF))

    assert told.verdict is Verdict.VERIFIED
    assert told.traced.contract.methods["forward"].returns == returns


@pytest.mark.parametrize(
    ("name", "returns"),
    [
        ("dict_output", DictNode(mapping=OF_TWO_TENSORS)),
        ("returns_text", TupleNode(tuple=[TensorLeaf(tensor="output.0"), BakedLeaf(baked="text")])),
    ],
)
def test_the_contract_of_a_script_has_all_that_is_returned(run: Run, name: str, returns: Structure) -> None:
    told = run(spec(name, example_inputs=[X], mode="script"))

    assert told.verdict is Verdict.VERIFIED
    assert told.traced.contract.methods["forward"].returns == returns


def test_a_complex_tensor_is_in_the_contract_as_pairs_of_reals(run: Run) -> None:
    told = run(spec("returns_complex_numbers", example_inputs=[X], check=OFF))

    outputs = told.traced.contract.methods["forward"].outputs
    assert [(one.datatype, one.shape) for one in outputs] == [("FP32", (2, 4)), ("FP32", (2, 3, 2))]


@pytest.mark.parametrize("returned", ["x, x.dtype", "x, x.numpy()", "x, [object()]", "'text'"])
def test_what_is_neither_tensor_nor_constant_is_refused_with_a_remedy(run: Run, returned: str) -> None:
    files = {"net.py": f"def net(x):\n    return {returned}\n"}
    failure = run({**spec("linear", example_inputs=[X]), "source": {"files": files, "entrypoint": "net:net"}}).failure

    assert failure.slug == "output-not-tensor"
    assert failure.facts["remedy"]
    assert (failure.facts["file"], failure.facts["line"]) == ("net.py", 1)


def test_constants_that_are_too_long_for_every_reply_are_refused(run: Run) -> None:
    files = {"net.py": "def net(x):\n    return x, 'a' * 100_000\n"}
    failure = run({**spec("linear", example_inputs=[X]), "source": {"files": files, "entrypoint": "net:net"}}).failure

    assert failure.slug == "unsupported-output"
    assert failure.facts["limit_bytes"] == 64 * 1024


@pytest.mark.parametrize(
    ("name", "inputs", "slug"),
    [
        ("nested_input", [{"tuple": [X, X]}, {"scale": X, "a.b": X, "a": {"b": X}}, 2.0], "argument-mismatch"),
        ("two_outputs_of_one_name", [X], "unsupported-output"),
    ],
)
def test_two_leaves_of_one_name_are_refused(run: Run, name: str, inputs: list[Any], slug: str) -> None:
    assert run(spec(name, example_inputs=inputs, options={"strict": False})).failure.slug == slug


def test_every_datatype_goes_in_and_comes_out(run: Run) -> None:
    told = run(spec("every_datatype", example_inputs=EVERY_DATATYPE, check=OFF))

    contract = told.traced.contract.methods["forward"]
    assert told.verdict is Verdict.VERIFIED
    assert [(one.datatype, one.shape) for one in contract.outputs] == [
        ("FP16", (1,)),
        ("BF16", (2,)),
        ("FP64", (1, 1)),
        ("INT64", ()),
        ("UINT8", (0, 2)),
        ("BOOL", (2,)),
    ]


def test_the_seed_decides_random_weights(run: Run) -> None:
    submitted = spec("initialised_at_random", example_inputs=[X], check=OFF)
    first, again = run(submitted), run(submitted)
    other = run({**submitted, "options": {"seed": 1}})

    x = torch.ones(1, 4)
    answers = [torch.jit.load(io.BytesIO(told.files["archive"]))(x)[0].tolist() for told in (first, again, other)]
    assert answers[0] == answers[1]
    assert answers[0] != answers[2]


def test_model_code_that_exits_is_told_so(run: Run) -> None:
    failure = run(spec("exits", example_inputs=[X])).failure

    assert failure.slug == "model-exited"
    assert (failure.facts["file"], failure.facts["line"]) == ("exits.py", 8)


def test_memory_that_cannot_be_had_is_a_limit(run: Run) -> None:
    failure = run(spec("eats_memory", example_inputs=[X])).failure

    assert (failure.slug, failure.facts["limit"]) == ("limit-exceeded", "memory")


def test_a_model_that_raises_on_its_example_shows_the_users_lines(run: Run) -> None:
    failure = run(spec("raises_in_forward", example_inputs=[X])).failure

    assert failure.slug == "model-raised"
    assert [(frame["file"], frame["line"]) for frame in failure.facts["traceback"]] == [
        ("raises_in_forward.py", 6),
        ("raises_in_forward.py", 9),
    ]
    assert (failure.facts["line"], failure.facts["source"]) == (9, "return x @ x")


def test_an_argument_that_nests_too_deeply_for_a_contract_is_a_limit(run: Run) -> None:
    deep: Any = 1.0
    for _ in range(97):
        deep = [deep]
    others = {"bias": 1.0, "extra": 2.0, "deep": deep}
    told = run(spec("functions", "keywords", example_inputs=[X], example_kwarg_inputs=others))

    assert told.failure.facts["limit"] == "result"
