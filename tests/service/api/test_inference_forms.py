"""`POST /infer/{model}` with tensors as bytes, both ways, on real runners.

Whatever the form of the request and of the reply, the answer is that to JSON, bit by bit.
"""

import json
import struct
from collections.abc import Callable, Iterator
from io import BytesIO
from typing import Any

import httpx
import numpy as np
import pytest
import safetensors.torch
import torch

from service.sandbox.zygote import Zygote
from service.storage.database import Store
from tests.conftest import PATIENCE_S, NewStore
from tests.service.api.conftest import (
    REQUEST_MAX_BYTES,
    UPLOAD_MAX_BYTES,
    Register,
    assert_problem,
    serving_runners,
)
from tracehouse.artifact.manifest import Artifact
from tracehouse.byte_units import MIB
from tracehouse.contract.contract import Contract, MethodClaim
from tracehouse.contract.memory import Memory, SizeProduct
from tracehouse.contract.regions import Region, Span
from tracehouse.tensors.tensor import Datatype, TensorSpec, array
from tracehouse.torch_values.tensors import DTYPES

Arrays = dict[str, np.ndarray]

JSON, NPY, NPZ, BYTES = "application/json", "application/x-npy", "application/x-npz", "application/octet-stream"
SAFETENSORS = "application/vnd.safetensors"
X = np.array([[1.5, -0.0], [np.inf, 1e-42]], np.float32)
IDS = np.array([1, -2, 2**62])
MASK = np.array([False, True])


@pytest.fixture(scope="module")
def store(new_store: NewStore, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Store]:
    store = new_store(tmp_path_factory.mktemp("forms"))
    yield store
    store.close()


@pytest.fixture(scope="module")
def http(
    store: Store, torch_zygote: Zygote, tmp_path_factory: pytest.TempPathFactory, models: None
) -> Iterator[httpx.Client]:
    """A client of a service that listens, with the fast path."""
    state_dir = tmp_path_factory.mktemp("state")
    with (
        serving_runners(store, torch_zygote, state_dir, answerer="fast path", memory_max_bytes=MIB) as address,
        httpx.Client(base_url=f"http://{address}", timeout=PATIENCE_S) as client,
    ):
        yield client


class Many(torch.nn.Module):
    """Inputs of several datatypes, and outputs that nest."""

    def forward(self, x, ids, mask):
        return (x.sum(1), ids * 2), mask.any(), x.half(), x.double()


class Nested(torch.nn.Module):
    """Inputs that nest, and one that is no tensor."""

    def forward(self, x, pair, options, mode):
        ids, (mask,) = pair
        return {"y": x * options["scale"], "ids": ids + mask.sum()}


class Brain(torch.nn.Module):
    """bfloat16, which numpy does not have."""

    def forward(self, x, y):
        return x + y, y


class Spectrum(torch.nn.Module):
    def forward(self, x):
        return torch.fft.rfft(x)


class Draws(torch.nn.Module):
    def forward(self, x):
        return x + torch.randn_like(x)


class Shifts(torch.nn.Module):
    def forward(self, x):
        return x + 1


def with_claim(artifact: Artifact, claim: MethodClaim) -> Artifact:
    answers = [
        ({"batch": rows}, [TensorSpec(name="output", datatype=Datatype.FP32, shape=(rows, 2))]) for rows in (3, 5)
    ]
    method = artifact.contract.method("forward").with_claim(claim, answers)
    return artifact.model_copy(update={"contract": Contract(methods={"forward": method})})


@pytest.fixture(scope="module")
def models(store: Store, trace: Any, register: Register) -> None:
    def rows(low: int, high: int, **beyond: Any) -> MethodClaim:
        region = Region(spans={"batch": [Span(low=low, high=high)]}, basis="proven", beyond=beyond.pop("beyond", {}))
        return MethodClaim(shapes={"input": ("batch", 2)}, fixed={"input": {"1": "model"}}, regions=[region], **beyond)

    relu = trace(store.blobs, torch.nn.ReLU(), torch.zeros(2, 2))
    register("relu", with_claim(relu, rows(0, 40_000)))
    small = [SizeProduct(times=1, powers={"batch": 1})]
    register(
        "beyond", with_claim(relu, rows(1, 4, beyond={"batch": 10**6}, memory=Memory(bytes=small, elements=small)))
    )
    register(
        "either",
        with_claim(
            relu, rows(1, 64, datatypes={"input": [Datatype.FP32, Datatype.FP64]}, datatype_of={"output": "input"})
        ),
    )
    register(
        "many", trace(store.blobs, Many(), torch.zeros(2, 2), torch.zeros(3, dtype=torch.int64), torch.ones(2) > 0)
    )
    register(
        "nested",
        trace(
            store.blobs, Nested(), torch.zeros(2, 2), (torch.zeros(3, dtype=torch.int64), [torch.ones(2) > 0]),
            {"scale": torch.ones(())}, "fast",
        ),
    )  # fmt: skip
    register("brain", trace(store.blobs, Brain(), torch.ones(2, dtype=torch.bfloat16), torch.ones(2)))
    register("spectrum", trace(store.blobs, Spectrum(), torch.zeros(4)))
    register("draws", trace(store.blobs, Draws(), torch.zeros(2, 2), seed=1))
    for datatype in (Datatype.BOOL, Datatype.UINT8, Datatype.INT16, Datatype.FP16, Datatype.FP64):
        register(f"shifts-{datatype}", trace(store.blobs, Shifts(), torch.zeros(3).to(DTYPES[datatype])))


def npy(array: np.ndarray, **options: Any) -> bytes:
    file = BytesIO()
    np.save(file, array, **options)
    return file.getvalue()


def npz(arrays: Arrays, write: Callable[..., None] = np.savez) -> bytes:
    file = BytesIO()
    write(file, **arrays)
    return file.getvalue()


def tensor_file(arrays: Arrays) -> bytes:
    return safetensors.torch.save({name: torch.from_numpy(one.copy()) for name, one in arrays.items()})


def as_json(arrays: Arrays) -> bytes:
    kinds = {"float32": "FP32", "float64": "FP64", "float16": "FP16", "int64": "INT64", "int16": "INT16",
             "uint8": "UINT8", "bool": "BOOL"}  # fmt: skip
    inputs = [
        {"name": name, "datatype": kinds[str(one.dtype)], "shape": one.shape,
         "data": [{np.inf: "Infinity"}.get(value, value) for value in one.reshape(-1).tolist()]}
        for name, one in arrays.items()
    ]  # fmt: skip
    return json.dumps({"inputs": inputs}).encode()


REQUESTS: dict[str, tuple[str, Callable[[Arrays], bytes]]] = {
    "json": (JSON, as_json),
    "npz": (NPZ, npz),
    "packed npz": (NPZ, lambda arrays: npz(arrays, np.savez_compressed)),
    "safetensors": (SAFETENSORS, tensor_file),
    "safetensors by its other name": ("application/x-safetensors", tensor_file),
}
OF_ONE: dict[str, tuple[str, Callable[[Arrays], bytes]]] = {
    "npy": (NPY, lambda arrays: npy(*arrays.values())),
    "npy by columns": (NPY, lambda arrays: npy(np.asfortranarray(*arrays.values()))),
    "npy big-endian": (NPY, lambda arrays: npy(*(one.astype(one.dtype.newbyteorder(">")) for one in arrays.values()))),
    "bytes": (BYTES, lambda arrays: b"".join(one.tobytes() for one in arrays.values())),
    "bytes of a type with a parameter": (
        f"{BYTES}; charset=binary", lambda arrays: b"".join(one.tobytes() for one in arrays.values())
    ),
}  # fmt: skip


def read_json(reply: httpx.Response) -> Arrays:
    found = {}
    for one in reply.json()["outputs"]:
        dtype = array(Datatype(one["datatype"]), b"").dtype
        if one["datatype"] == "BF16":
            dtype = np.dtype("float32")
        numbers = [float(value) if isinstance(value, str) else value for value in one["data"]]
        found[one["name"]] = np.array(numbers, dtype).reshape(one["shape"])
    return found


def read_bytes(reply: httpx.Response) -> Arrays:
    shape = [int(dim) for dim in reply.headers["inference-shape"].split(",") if dim]
    flat = array(Datatype(reply.headers["inference-datatype"]), reply.content)
    return {reply.headers["inference-output"]: flat.reshape(shape)}


def read_tensor_file(reply: httpx.Response) -> Arrays:
    loaded = safetensors.torch.load(reply.content)
    return {name: (one.float() if one.dtype is torch.bfloat16 else one).numpy() for name, one in loaded.items()}


def read_npz(reply: httpx.Response) -> Arrays:
    loaded = np.load(BytesIO(reply.content))
    return {name: loaded[name] for name in loaded.files}


REPLIES: dict[str, Callable[[httpx.Response], Arrays]] = {
    JSON: read_json,
    NPZ: read_npz,
    SAFETENSORS: read_tensor_file,
    "application/x-safetensors": read_tensor_file,
}
REPLIES_OF_ONE: dict[str, Callable[[httpx.Response], Arrays]] = {
    NPY: lambda reply: {"output": np.load(BytesIO(reply.content))},
    BYTES: read_bytes,
}


def bits(arrays: Arrays) -> dict[str, tuple[str, tuple[int, ...], bytes]]:
    return {name: (str(one.dtype), one.shape, one.tobytes()) for name, one in arrays.items()}


def ask(http: httpx.Client, model: str, kind: str, body: bytes, accept: str | None = None, **query: Any) -> Any:
    headers = {"content-type": kind} | ({} if accept is None else {"accept": accept})
    return http.post(f"/infer/{model}", content=body, headers=headers, params=query)


CALLS: dict[str, Arrays] = {
    "relu": {"input": X},
    "many": {"x": X, "ids": IDS, "mask": MASK},
    "nested": {"x": X, "pair.0": IDS, "pair.1.0": MASK, "options.scale": np.array(0.1, np.float32)},
    "shifts-BOOL": {"x": np.array([True, False, True])},
    "shifts-UINT8": {"x": np.array([0, 1, 255], np.uint8)},
    "shifts-INT16": {"x": np.array([-1, 0, 300], np.int16)},
    "shifts-FP16": {"x": np.array([0.1, -0.0, 6e4], np.float16)},
    "shifts-FP64": {"x": np.array([0.1, 1e-300, np.inf])},
}


@pytest.mark.parametrize("model", CALLS)
def test_every_form_of_request_and_reply_gives_the_answer_to_json(http: httpx.Client, model: str) -> None:
    arrays = CALLS[model]
    plain = ask(http, model, *[REQUESTS["json"][0], as_json(arrays)])
    assert plain.status_code == 200, plain.text
    wanted = bits(read_json(plain))
    is_single = len(arrays) == 1

    for form, (kind, write) in (REQUESTS | (OF_ONE if is_single else {})).items():
        for accept, read in (REPLIES | (REPLIES_OF_ONE if len(wanted) == 1 else {})).items():
            reply = ask(http, model, kind, write(arrays), accept)
            assert reply.status_code == 200, (form, accept, reply.text)
            assert reply.headers["content-type"] == accept
            assert bits(read(reply)) == wanted, (form, accept)


def test_the_reply_is_json_unless_another_form_is_asked_for(http: httpx.Client) -> None:
    first = ask(http, "relu", NPY, npy(X))
    for accept in (
        None,
        "*/*",
        "text/html,application/xhtml+xml,*/*;q=0.8",
        "application/x-npy;q=0.5,application/json",
    ):
        assert ask(http, "relu", NPY, npy(X), accept).json() == first.json()
    assert first.headers["content-type"] == JSON
    assert "inference-model" not in first.headers


def test_bfloat16_comes_and_goes_as_safetensors(http: httpx.Client) -> None:
    x, y = torch.tensor([1.5, 2**100], dtype=torch.bfloat16), torch.tensor([0.1, -1.0])
    body = safetensors.torch.save({"x": x, "y": y})

    found = safetensors.torch.load(ask(http, "brain", SAFETENSORS, body, SAFETENSORS).content)

    assert {name: one.dtype for name, one in found.items()} == {"output.0": torch.float32, "output.1": torch.float32}
    assert torch.equal(found["output.0"], x + y)


def test_an_output_that_numpy_lacks_is_no_npz(http: httpx.Client, store: Store, trace: Any, register: Register) -> None:
    class Rounds(torch.nn.Module):
        def forward(self, x):
            return x.bfloat16(), x

    register("rounds", trace(store.blobs, Rounds(), torch.zeros(2, 2)))

    problem = assert_problem(ask(http, "rounds", NPY, npy(X), NPZ), 406, "not-acceptable")
    assert "BF16" in problem["detail"]
    assert "output.0" in problem["detail"]

    as_file = ask(http, "rounds", NPY, npy(X), SAFETENSORS)
    assert safetensors.torch.load(as_file.content)["output.0"].dtype is torch.bfloat16
    either = ask(http, "rounds", NPY, npy(X), f"{NPZ}, {SAFETENSORS};q=0.1")
    assert either.headers["content-type"] == SAFETENSORS
    only_float = ask(http, "rounds", NPY, npy(X), NPY, output="output.1")
    assert np.load(BytesIO(only_float.content)).tobytes() == X.tobytes()
    raw = ask(http, "rounds", NPY, npy(X), BYTES, output="output.0")
    assert (raw.headers["inference-datatype"], len(raw.content)) == ("BF16", 8)


def test_complex_numbers_are_complex_in_numpy_and_refused_where_they_cannot_be_told_from_floats(
    http: httpx.Client,
) -> None:
    x = np.array([1, 2, 3, 5], np.float32)
    wanted = torch.fft.rfft(torch.from_numpy(x)).numpy()

    found = np.load(BytesIO(ask(http, "spectrum", NPY, npy(x), NPY).content))
    assert (found.dtype, found.tobytes()) == (wanted.dtype, wanted.tobytes())
    in_archive = read_npz(ask(http, "spectrum", NPY, npy(x), NPZ))["output"]
    assert in_archive.tobytes() == wanted.tobytes()
    for kind in (SAFETENSORS, BYTES):
        problem = assert_problem(ask(http, "spectrum", NPY, npy(x), kind), 406, "not-acceptable")
        assert "complex" in problem["detail"]


def test_a_form_of_one_tensor_needs_one_output(http: httpx.Client) -> None:
    body = npz(CALLS["many"])

    for kind in (NPY, BYTES):
        problem = assert_problem(ask(http, "many", NPZ, body, kind), 406, "not-acceptable")
        assert "`output`" in problem["remedy"]
        assert len(problem["outputs"]) == 5
        assert ask(http, "many", NPZ, body, f"{kind}, */*;q=0.1").headers["content-type"] == JSON

    one = ask(http, "many", NPZ, body, NPY, output="output.0.1")
    assert np.array_equal(np.load(BytesIO(one.content)), IDS * 2)
    assert one.headers["inference-output"] == "output.0.1"


def test_json_has_the_reply_in_another_form_too(http: httpx.Client) -> None:
    body = json.dumps({"inputs": {"x": [[1, 2], [3, 4]], "ids": [1, 2, 3], "mask": [True, False]}, "id": "säven/1",
                       "outputs": [{"name": "output.0.1"}]}).encode()  # fmt: skip

    for path, sent in (("/infer/many", body), ("/infer", json.dumps(json.loads(body) | {"model": "many"}).encode())):
        reply = http.post(path, content=sent, headers={"content-type": JSON, "accept": NPY})
        assert np.load(BytesIO(reply.content)).tolist() == [2, 4, 6]
        assert reply.headers["inference-id"] == "s%C3%A4ven%2F1"
        assert (reply.headers["inference-model"], reply.headers["inference-model-version"]) == ("many", "1")


def test_a_seed_and_an_id_are_said_in_the_query(http: httpx.Client) -> None:
    first = ask(http, "draws", NPY, npy(X), NPY)
    seed = first.headers["inference-seed"]

    again = ask(http, "draws", BYTES, X.tobytes(), NPY, seed=seed)
    assert again.content == first.content
    assert ask(http, "draws", NPY, npy(X), NPY).content != first.content
    plain = ask(http, "draws", NPY, npy(X), seed=7, id="seven").json()
    assert (plain["id"], plain["parameters"]) == ("seven", {"seed": 7})


def test_a_method_is_named_in_the_query(http: httpx.Client) -> None:
    assert ask(http, "relu", NPY, npy(X), method="forward").status_code == 200
    assert_problem(ask(http, "relu", NPY, npy(X), method="encode"), 404, "method-not-found")


@pytest.mark.parametrize(
    "query",
    [{"seed": "-1"}, {"seed": "x"}, {"output": "y"}, {"id": "n" * 1001}, {"shape": "1,x"}, {"shape": "2,2"},
     {"datatype": "FP32"}, {"datatype": "float32"}],
)  # fmt: skip
def test_a_query_that_does_not_fit_is_refused_by_its_name(http: httpx.Client, query: dict[str, str]) -> None:
    problem = assert_problem(ask(http, "relu", NPY, npy(X), **query), 422, "invalid-request")

    assert [one["parameter"] for one in problem["errors"]] == [*query]


@pytest.mark.parametrize("query", [{"seed": "1"}, {"output": "output"}, {"id": "seven"}, {"shape": "2,2"}])
def test_json_says_in_its_body_what_else_stands_in_the_query(http: httpx.Client, query: dict[str, str]) -> None:
    problem = assert_problem(ask(http, "relu", JSON, as_json({"input": X}), **query), 422, "invalid-request")

    assert [one["parameter"] for one in problem["errors"]] == [*query]


# --- what the bytes do not tell


def test_bytes_have_the_shape_that_the_contract_leaves_open(http: httpx.Client) -> None:
    rows = np.arange(6, dtype=np.float32).reshape(3, 2)

    assert read_json(ask(http, "relu", BYTES, rows.tobytes()))["output"].shape == (3, 2)
    assert read_json(ask(http, "relu", BYTES, b""))["output"].shape == (0, 2)
    assert read_json(ask(http, "relu", BYTES, rows.tobytes(), shape="3,2", datatype="FP32"))["output"].shape == (3, 2)
    assert_problem(ask(http, "relu", BYTES, rows.tobytes(), shape="2,3"), 422, "shape-mismatch")
    assert_problem(ask(http, "relu", BYTES, rows.tobytes(), shape="2,2"), 422, "invalid-tensor")
    assert_problem(ask(http, "relu", BYTES, rows.tobytes()[:-1]), 422, "invalid-tensor")
    assert_problem(ask(http, "relu", BYTES, rows.tobytes()[:-4]), 422, "invalid-tensor")
    assert_problem(ask(http, "relu", BYTES, rows.tobytes(), datatype="FP64"), 422, "invalid-tensor")
    assert_problem(ask(http, "relu", BYTES, rows.tobytes(), shape="3,2", datatype="INT32"), 422, "datatype-mismatch")


def test_bytes_of_one_of_several_datatypes_must_say_which(http: httpx.Client) -> None:
    """Eight bytes of FP64 are a row of FP32 too."""
    rows = np.array([[0.1, 0.2]])

    problem = assert_problem(ask(http, "either", BYTES, rows.tobytes()), 422, "invalid-request")
    assert problem["errors"][0]["parameter"] == "datatype"
    headers = {"inference-header-content-length": "0"}
    protocol = http.post("/v2/models/either/infer", content=rows.tobytes(), headers=headers)
    assert_problem(protocol, 422, "invalid-tensor")

    assert read_json(ask(http, "either", BYTES, rows.tobytes(), datatype="FP64"))["output"].tolist() == [[0.1, 0.2]]
    assert read_json(ask(http, "either", NPY, npy(rows)))["output"].dtype == np.float64
    assert read_json(ask(http, "either", NPY, npy(rows.astype(np.float32))))["output"].dtype == np.float32


# --- nothing is converted


@pytest.mark.parametrize("dtype", [np.float64, np.float16, np.int32, np.int64, np.bool_, np.uint8])
@pytest.mark.parametrize("form", ["npy", "npz", "safetensors"])
def test_another_datatype_than_the_contracts_is_refused(http: httpx.Client, dtype: type, form: str) -> None:
    kind, write = (REQUESTS | OF_ONE)[form]

    problem = assert_problem(
        ask(http, "relu", kind, write({"input": np.ones((2, 2), dtype)})), 422, "datatype-mismatch"
    )

    assert (problem["input"], problem["expected"]) == ("input", "FP32")
    assert problem["remedy"]


@pytest.mark.parametrize("form", ["npz", "safetensors"])
def test_tensors_have_the_names_of_the_contract(http: httpx.Client, form: str) -> None:
    kind, write = REQUESTS[form]
    whole = CALLS["many"]

    missing = ask(http, "many", kind, write({name: whole[name] for name in ("x", "ids")}))
    assert assert_problem(missing, 422, "missing-input")["input"] == "mask"
    unknown = ask(http, "many", kind, write(whole | {"more": X}))
    assert assert_problem(unknown, 422, "unexpected-input")["inputs"] == ["ids", "mask", "x"]
    assert_problem(ask(http, "relu", kind, write({"arr_0": X})), 422, "unexpected-input")
    assert_problem(ask(http, "nested", kind, write({"pair": X})), 422, "unexpected-input")


@pytest.mark.parametrize(("kind", "body"), [(NPY, npy(X)), (BYTES, X.tobytes())])
def test_one_tensor_without_a_name_is_for_a_method_with_one_input(http: httpx.Client, kind: str, body: bytes) -> None:
    problem = assert_problem(ask(http, "many", kind, body), 422, "invalid-tensor")

    assert problem["inputs"] == ["ids", "mask", "x"]


def test_a_name_that_stands_twice_is_refused(http: httpx.Client) -> None:
    archive = npz({"input": X, "inpux": X}).replace(b"inpux.npy", b"input.npy")

    assert assert_problem(ask(http, "relu", NPZ, archive), 422, "unexpected-input")["input"] == "input"


def test_sizes_outside_of_the_contract_are_refused_in_every_form(http: httpx.Client) -> None:
    for kind, write in (REQUESTS | OF_ONE).values():
        reply = ask(http, "shifts-FP64", kind, write({"x": np.zeros(4)}))
        assert reply.status_code == 422, kind
        assert reply.json()["code"] in ("shape-mismatch", "invalid-tensor")


# --- what cannot be taken


@pytest.mark.parametrize(
    "kind", ["application/x-www-form-urlencoded", "application/x-npy-2", "text/plain", "image/gif"]
)
def test_another_content_type_is_refused_with_those_that_are_taken(http: httpx.Client, kind: str) -> None:
    problem = assert_problem(ask(http, "relu", kind, npy(X)), 415, "unsupported-media-type")

    assert {JSON, NPY, NPZ, BYTES, SAFETENSORS} <= {*problem["supported"]}


@pytest.mark.parametrize("accept", ["text/html", "application/xml, image/*", "application/json;q=0"])
def test_a_reply_that_nobody_would_take_is_not_computed(http: httpx.Client, accept: str) -> None:
    for kind, body in ((NPY, npy(X)), (JSON, as_json({"input": X}))):
        problem = assert_problem(ask(http, "relu", kind, body, accept), 406, "not-acceptable")
        assert {JSON, NPY, NPZ, BYTES, SAFETENSORS} <= {*problem["supported"]}
        assert "Accept" in problem["remedy"]


def test_a_body_that_names_its_model_is_json(http: httpx.Client) -> None:
    reply = http.post("/infer", content=npy(X), headers={"content-type": NPY})

    assert "/infer/{model}" in assert_problem(reply, 415, "unsupported-media-type")["remedy"]


class Harmful:
    def __reduce__(self) -> Any:
        return exec, ("raise SystemExit",)


def objects(write: Callable[[BytesIO], None]) -> bytes:
    file = BytesIO()
    write(file)
    return file.getvalue()


HARMFUL = np.array([Harmful()], object)


@pytest.mark.parametrize(
    ("kind", "body"),
    [
        (NPY, b""),
        (NPY, npy(X)[:-1]),
        (NPY, npy(X) + b"\0"),
        (NPY, npy(X)[:50]),
        (NPY, npz({"input": X})),
        (NPY, npy(HARMFUL, allow_pickle=True)),
        (NPY, b"\x93NUMPY\x02\x00\xff\xff\xff\xff" + bytes(100)),
        (NPZ, b""),
        (NPZ, npy(X)),
        (NPZ, npz({"input": X})[:-1]),
        (NPZ, npz({"input": X})[:-200]),
        (NPZ, objects(lambda file: np.savez(file, input=HARMFUL))),
        (SAFETENSORS, b""),
        (SAFETENSORS, npy(X)),
        (SAFETENSORS, tensor_file({"input": X})[:-1]),
        (SAFETENSORS, tensor_file({"input": X}) + b"\0"),
        (SAFETENSORS, (2**63).to_bytes(8, "little")),
    ],
)
def test_a_damaged_or_hostile_body_is_refused_and_the_next_one_answered(
    http: httpx.Client, kind: str, body: bytes
) -> None:
    reply = ask(http, "relu", kind, body)

    assert reply.status_code == 422, reply.text
    assert reply.json()["code"] in ("malformed-tensors", "invalid-tensor")
    assert reply.json()["remedy"]
    assert len(reply.content) < 2000
    assert ask(http, "relu", NPY, npy(X)).status_code == 200


def test_overlapping_tensors_are_refused(http: httpx.Client) -> None:
    place = {"dtype": "F32", "shape": [2, 2], "data_offsets": [0, 16]}
    text = json.dumps({"input": place, "other": place}).encode()

    reply = ask(http, "relu", SAFETENSORS, struct.pack("<Q", len(text)) + text + X.tobytes())

    assert_problem(reply, 422, "malformed-tensors")


def test_a_bomb_is_refused_before_it_is_unpacked(http: httpx.Client) -> None:
    bomb = npz({"input": np.zeros((5_000_000, 2), np.float32)}, np.savez_compressed)
    assert len(bomb) < REQUEST_MAX_BYTES

    assert_problem(ask(http, "relu", NPZ, bomb), 413, "payload-too-large")


@pytest.mark.parametrize("form", ["npz", "packed npz", "safetensors", "npy", "npy by columns", "bytes"])
def test_the_largest_batch_of_the_contract_can_be_sent_and_nothing_much_larger(http: httpx.Client, form: str) -> None:
    kind, write = (REQUESTS | OF_ONE)[form]
    rows = np.random.default_rng(0).standard_normal((40_000, 2)).astype(np.float32)
    assert rows.nbytes > REQUEST_MAX_BYTES

    reply = ask(http, "relu", kind, write({"input": rows}), SAFETENSORS)
    assert read_tensor_file(reply)["output"].tobytes() == np.maximum(rows, 0).tobytes()

    too_large = ask(http, "relu", kind, write({"input": np.resize(rows, (80_000, 2))}))
    assert_problem(too_large, 413, "payload-too-large")


def test_sizes_that_are_proven_beyond_all_calls_can_be_sent_too(http: httpx.Client) -> None:
    rows = np.random.default_rng(0).standard_normal((100_000, 2)).astype(np.float32)
    assert REQUEST_MAX_BYTES * 2 < rows.nbytes < UPLOAD_MAX_BYTES

    reply = ask(http, "beyond", NPY, npy(rows), BYTES)

    assert reply.content == np.maximum(rows, 0).tobytes()
    header = json.dumps({"inputs": [{"name": "input", "datatype": "FP32", "shape": rows.shape,
                                     "parameters": {"binary_data_size": rows.nbytes}}]}).encode()  # fmt: skip
    protocol = http.post(
        "/v2/models/beyond/infer", content=header + rows.tobytes(),
        headers={"inference-header-content-length": str(len(header))},
    )  # fmt: skip
    assert protocol.status_code == 200
    assert_problem(ask(http, "beyond", BYTES, bytes(UPLOAD_MAX_BYTES + 8)), 413, "payload-too-large")


def test_a_body_with_a_content_encoding_is_refused(http: httpx.Client) -> None:
    headers = {"content-type": NPY, "content-encoding": "gzip"}

    assert_problem(http.post("/infer/relu", content=npy(X), headers=headers), 415, "unsupported-media-type")
