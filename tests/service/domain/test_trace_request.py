"""What a person may submit, and what is refused where it enters."""

from typing import Any

import pytest
from pydantic import ValidationError

from service.domain import trace_request
from service.domain.idempotency import Idempotency
from service.domain.trace_request import TraceRequest, content_digest
from tracehouse.artifact.blob import BlobRef
from tracehouse.spec.trace_spec import TraceSpec

TENSOR = {"datatype": "FP32", "shape": [2, 2], "random": {"seed": 0}}
SPEC: dict[str, Any] = {
    "model": "net",
    "source": {"files": {"net.py": "..."}, "entrypoint": "net:Net"},
    "example_inputs": [TENSOR],
}


def spec(**changes: Any) -> TraceSpec:
    return TraceSpec.model_validate(SPEC | changes)


def test_inputs_at_the_top_stand_for_forward() -> None:
    assert spec().calls == spec(example_inputs=[], methods={"forward": {"example_inputs": [TENSOR]}}).calls


def test_a_single_tensor_stands_for_a_list_of_one() -> None:
    assert spec(example_inputs=TENSOR) == spec()


def test_a_bare_list_is_a_check_input_of_forward() -> None:
    [check] = spec(check={"check_inputs": [[TENSOR]]}).check.check_inputs
    assert (check.method, check.example_inputs) == ("forward", spec().example_inputs)


def test_inputs_nest() -> None:
    nested = {"pair": {"tuple": [TENSOR, [{"file": "x.npz", "key": "x"}]]}, "flag": None, "rate": 0.5}
    given = spec(example_kwarg_inputs=nested).example_kwarg_inputs
    assert (given["pair"].tuple[1][0].file, given["flag"], given["rate"]) == ("x.npz", None, 0.5)


def test_a_trace_request_survives_json() -> None:
    request = TraceRequest.new(spec(), {}, torch_version="2.13.0", tenant="ours")
    assert TraceRequest.model_validate_json(request.model_dump_json()) == request


@pytest.mark.parametrize("check", [{}, {"budget": "quick"}, {"budget_s": 9.0}, {"budget": None}])
def test_a_budget_survives_json(check: dict[str, Any]) -> None:
    given = spec(check=check)

    assert TraceSpec.model_validate_json(given.model_dump_json()) == given


def test_a_check_has_the_normal_budget_unless_another_is_named() -> None:
    budgets = [spec(check=check).check for check in ({}, {"budget": "deep"}, {"budget_s": 9.0})]

    assert [(one.budget, one.budget_s) for one in budgets] == [("normal", None), ("deep", None), (None, 9.0)]


def test_a_budget_by_name_and_in_seconds_is_refused_at_its_field() -> None:
    with pytest.raises(ValidationError, match="give budget or budget_s, and not both") as refused:
        spec(check={"budget": "quick", "budget_s": 9.0})

    assert refused.value.errors()[0]["loc"] == ("check", "budget")


@pytest.mark.parametrize(
    "changes",
    [
        {"model": "a/b"},
        {"model": "a@b"},
        {"model": "a:1"},
        {"model": ""},
        {"model": "x" * 65},
        {"model": ".hidden"},
        {"source": {"entrypoint": "net:Net"}},
        {"source": {"file": "a.py", "files": {"a.py": ""}, "entrypoint": "a:A"}},
        {"source": {"files": {"../net.py": ""}, "entrypoint": "net:Net"}},
        {"source": {"files": {"/net.py": ""}, "entrypoint": "net:Net"}},
        {"source": {"file": "up/net.py", "entrypoint": "net:Net"}},
        {"source": {"files": {"net.py": ""}, "entrypoint": "net"}},
        {"source": {"files": {"net.py": ""}, "entrypoint": "net:Net()"}},
        {"example_inputs": []},
        {"methods": {"forward": {"example_inputs": [TENSOR]}}},
        {"methods": {"not a name": {}}},
        {"check": {"check_inputs": [{"method": "other", "example_inputs": [TENSOR]}]}},
        {"check": {"check_tolerance": -1}},
        {"mode": "magic"},
        {"training": "sometimes"},
        {"training": True, "options": {"freeze": True}},
        {"training": "as-is", "options": {"optimize_for_inference": True}},
        {"check": {"gradients": True}, "options": {"freeze": True}},
        {"options": {"precision": "int8"}},
        {"devices": ["tpu"]},
        {"devices": []},
        {"devices": ["cpu", "cpu"]},
        {"devices": ["cpu", "cuda"], "mode": "eager"},
        {"mode": "eager", "check": {"gradients": True}},
        {"mode": "eager", "options": {"exportability": True}},
        {"mode": "eager", "accept_unsound": True},
        {"source": {"file": "net.py"}},
        {"source": {"archive": "net.pt", "entrypoint": "net:Net"}},
        {"source": {"archive": "net.pt", "file": "net.py", "entrypoint": "net:Net"}},
        {"source": {"archive": "net.pt", "init": {"args": [1]}}},
        {"source": {"archive": "net.pt"}, "weights": {"file": "w.pt"}},
        {"source": {"archive": "net.pt"}, "mode": "script"},
        {"source": {"archive": "net.pt"}, "options": {"precision": "float16"}},
        {"source": {"archive": "net.pt"}, "training": True},
        {"unknown": 1},
        {"example_inputs": [{"datatype": "FP32", "shape": [2**40], "random": {}}]},
        {"example_inputs": [{"datatype": "FP32", "shape": [2], "random": {"low": 1}}]},
        {"example_inputs": [{"datatype": "FP32", "shape": [2], "random": {"low": 1, "high": 1}}]},
        {"example_inputs": [{"datatype": "FP32", "shape": [2], "data": [1]}]},
        {"example_inputs": [{"datatype": "FLOAT", "shape": [1], "data": [1]}]},
    ],
    ids=str,
)
def test_what_cannot_be_done_is_refused(changes: dict[str, Any]) -> None:
    with pytest.raises(ValidationError):
        spec(**changes)


def test_buckets_are_of_a_declared_symbol() -> None:
    declared = spec(dynamic={"x": {"0": "2*seq"}}, buckets={"seq": [16, 32]})
    of_a_method = spec(
        methods={"encode": {"example_inputs": TENSOR, "dynamic": {"x": {"0": "seq"}}}}, buckets={"seq": [4]}
    )

    assert (declared.buckets, of_a_method.buckets) == ({"seq": [16, 32]}, {"seq": [4]})
    with pytest.raises(ValidationError) as refused:
        spec(dynamic={"x": {"0": "rows"}}, buckets={"seq": [16, 32]})
    [error] = refused.value.errors()
    assert (error["loc"], error["type"]) == (("buckets", "seq"), "bucket_symbol")
    assert 'as in {"ids": {"1": "seq"}}' in error["msg"]


@pytest.mark.parametrize(
    ("changes", "kind"),
    [
        ({"mode": "eager"}, "eager_option"),
        ({"source": {"archive": "net.pt"}}, "archive_buckets"),
        ({"buckets": {"seq": [16, 16]}}, "buckets"),
        ({"buckets": {"seq": []}}, "buckets"),
        ({"buckets": {"seq": [0]}}, "buckets"),
    ],
)
def test_buckets_that_nothing_could_be_made_for_are_refused(changes: dict[str, Any], kind: str) -> None:
    with pytest.raises(ValidationError) as refused:
        spec(**{"dynamic": {"x": {"0": "seq"}}, "buckets": {"seq": [16]}} | changes)
    assert [error["type"] for error in refused.value.errors()] == [kind]


@pytest.mark.parametrize("dim", ["-1", "seq", "", "100"])
def test_what_is_no_dim_is_refused_with_how_dims_are_counted(dim: str) -> None:
    with pytest.raises(ValidationError) as refused:
        spec(dynamic={"x": {dim: "seq"}})
    [error] = refused.value.errors()
    assert (error["type"], error["msg"]) == ("dim", 'a dim is counted from the left, from 0 on: "0", "1" and so on')


def test_sizes_are_of_declared_symbols_where_all_are_declared() -> None:
    found_by_the_check = spec(sizes={"batch": {"high": 8}})
    of_a_method = spec(
        dynamic={"x": {"0": "rows"}}, methods={"encode": {"example_inputs": TENSOR}}, sizes={"batch": {"high": 8}}
    )

    assert found_by_the_check.sizes == of_a_method.sizes
    with pytest.raises(ValidationError) as refused:
        spec(dynamic={"x": {"0": "rows"}}, sizes={"row": {"high": 8}})
    [error] = refused.value.errors()
    assert (error["loc"], error["type"]) == (("sizes", "row"), "size_symbol")
    assert error["msg"] == "dynamic has no row: it has rows"


def test_a_number_is_refused_as_the_symbol_of_a_dim() -> None:
    with pytest.raises(ValidationError, match="write a size as in `seq`"):
        spec(dynamic={"x": {"0": "7"}})


def test_an_eager_run_may_leave_out_torchs_check() -> None:
    assert spec(mode="eager", check={"check_trace": False}).mode == "eager"


def test_an_unknown_training_mode_is_refused_with_the_known_ones() -> None:
    with pytest.raises(ValidationError, match='true, false or "as-is"'):
        spec(training="eval")


@pytest.mark.parametrize(("devices", "pool"), [(["cpu"], "cpu"), (["cuda"], "gpu"), (["cpu", "cuda"], "gpu")])
def test_a_request_for_cuda_waits_in_the_gpu_pool(devices: list[str], pool: str) -> None:
    request = TraceRequest.new(spec(devices=devices), {}, torch_version="2.13.0", tenant="ours")
    assert request.pool == pool


def test_an_archive_may_stand_for_source() -> None:
    given = spec(source={"archive": "net.pt"}).source
    assert (given.archive, given.entrypoint) == ("net.pt", None)


def test_the_content_is_what_decides_the_outcome() -> None:
    file = {"w.pt": BlobRef(digest="sha256:" + "0" * 64, byte_size=1)}
    other_file = {"w.pt": BlobRef(digest="sha256:" + "1" * 64, byte_size=1)}
    same = content_digest(spec(), file, "2.13.0")
    assert content_digest(spec(force=True), file, "2.13.0") == same
    assert content_digest(spec(), other_file, "2.13.0") != same
    assert content_digest(spec(), file, "2.12.0") != same
    assert content_digest(spec(options={"seed": 1}), file, "2.13.0") != same


def test_another_check_or_release_has_another_outcome(monkeypatch: pytest.MonkeyPatch) -> None:
    before = content_digest(spec(), {}, "2.13.0")

    monkeypatch.setattr(trace_request, "CHECK_VERSION", trace_request.CHECK_VERSION + 1)
    of_other_check = content_digest(spec(), {}, "2.13.0")
    monkeypatch.setattr(trace_request, "version", lambda _: "999.0")

    assert len({before, of_other_check, content_digest(spec(), {}, "2.13.0")}) == 3


@pytest.mark.parametrize(
    ("changes", "others"),
    [
        ({"example_inputs": [{"b": TENSOR, "a": TENSOR}]}, {"example_inputs": [{"a": TENSOR, "b": TENSOR}]}),
        ({"example_kwarg_inputs": {"x": {"b": 1, "a": 2}}}, {"example_kwarg_inputs": {"x": {"a": 2, "b": 1}}}),
        (
            {"source": SPEC["source"] | {"init": {"kwargs": {"b": 1, "a": 2}}}},
            {"source": SPEC["source"] | {"init": {"kwargs": {"a": 2, "b": 1}}}},
        ),
        ({"example_inputs": [TENSOR, 1]}, {"example_inputs": [TENSOR, 1.0]}),
        ({"example_inputs": [TENSOR, 1]}, {"example_inputs": [TENSOR, True]}),
        ({"example_inputs": [TENSOR, 0.0]}, {"example_inputs": [TENSOR, -0.0]}),
    ],
    ids=str,
)
def test_what_a_model_can_tell_apart_is_other_content(changes: dict[str, Any], others: dict[str, Any]) -> None:
    first, second = (
        TraceRequest.new(spec(**members), {}, torch_version="2.13.0", tenant="ours") for members in (changes, others)
    )

    assert first.content != second.content
    assert Idempotency.of("key", first) != Idempotency.of("key", second)


def test_uploaded_files_have_no_order() -> None:
    files = {name: BlobRef(digest="sha256:" + name * 64, byte_size=1) for name in "ab"}
    reverse = dict(reversed(files.items()))
    assert content_digest(spec(), files, "2.13.0") == content_digest(spec(), reverse, "2.13.0")
