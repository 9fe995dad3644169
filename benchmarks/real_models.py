"""The check on models that nobody here wrote: architectures of timm and transformers, small and with random weights.

Each is submitted to the service with a batch and, for text, a length that may vary, and what comes back is held against
the truth: the artifact that is downloaded, against the model itself, on a grid of sizes. Printed are the verdict, the
sizes that the contract opens, how they are known, and the cost beside one eager call and a plain torch.jit.trace.

    .venv/bin/python benchmarks/real_models.py            all of them, some twenty minutes on two cores
    .venv/bin/python benchmarks/real_models.py --only bert
    .venv/bin/python benchmarks/real_models.py --only resnet18-224,BertBase    two of the usual size
"""

import argparse
import io
import itertools
import json
import statistics
import sys
import time
import warnings
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx

sys.path.insert(0, str(Path(__file__).parents[1]))
from benchmarks.service_process import MODELS, service

sys.path.insert(0, str(MODELS))
import preload  # noqa: F401  # it also lets torchvision be imported beside a build of torch that is not its own
import timm
import torch

BATCHES, LENGTHS = (1, 2, 3, 5, 8), (1, 2, 7, 8, 16, 33, 64)
EXAMPLE_LENGTH = 8
VOCABULARY = 99
TOLERANCE = 1e-3

# Of each family of timm's a small member, with the size of image that it takes.
IMAGES = {
    64: """resnet10t resnet18 resnet26 resnext26ts seresnext26ts skresnet18 resnest14d gernet_s ecaresnet26t
        densenet121 mobilenetv2_050 mobilenetv3_small_050 mobilenetv4_conv_small_050 mnasnet_small tinynet_e
        ghostnet_050 ghostnetv2_100 fbnetc_100 spnasnet_100 lcnet_035 hardcorenas_a mixnet_s rexnet_100 regnetx_002
        regnety_002 regnetz_b16 dla46_c hrnet_w18_small ese_vovnet19b_slim cspresnet50 darknetaa53 dpn48b selecsls42b
        repvgg_a0 mobileone_s0 repghostnet_050 repvit_m0_9 starnet_s1 edgenext_xx_small convnext_atto convnextv2_atto
        hgnetv2_b0 efficientnet_lite0 tf_efficientnetv2_b0 semnasnet_075 xception41 mambaout_femto focalnet_tiny_srf
        poolformer_s12 poolformerv2_s12 fastvit_t8 efficientvit_b0 shvit_s1 vovnet39a nfnet_l0""",
    224: """vit_tiny_patch16_224 deit_tiny_patch16_224 cait_xxs24_224 mixer_s32_224 resmlp_12_224 gmlp_s16_224
        pit_ti_224 levit_128s xcit_nano_12_p16_224 efficientvit_m0 visformer_tiny coat_lite_tiny swiftformer_xs
        tiny_vit_5m_224 convit_tiny""",
    256: "mobilevit_xxs mobilevitv2_050",
}  # fmt: skip
_SMALL = {
    "vocab_size": VOCABULARY, "hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 4,
    "intermediate_size": 37, "max_position_embeddings": 128,
}  # fmt: skip
_GPT2 = {"vocab_size": VOCABULARY, "n_embd": 32, "n_layer": 2, "n_head": 4, "n_positions": 128}
_LLAMA = {**_SMALL, "num_key_value_heads": 2, "head_dim": 8, "pad_token_id": 0}
_ENCODER_DECODER = {
    "vocab_size": VOCABULARY, "d_model": 32, "encoder_layers": 2, "decoder_layers": 2, "encoder_attention_heads": 4,
    "decoder_attention_heads": 4, "encoder_ffn_dim": 37, "decoder_ffn_dim": 37, "max_position_embeddings": 128,
}  # fmt: skip
# The class in transformers, and the arguments of its configuration.
TEXTS: dict[str, dict[str, Any]] = {
    **dict.fromkeys(
        "Bert Roberta Camembert XLMRoberta Electra Ernie MegatronBert RemBert RoFormer LayoutLM Splinter MPNet "
        "Nystromformer ConvBert DebertaV2 Data2VecText RobertaPreLayerNorm MobileBert IBert Yoso".split(),
        _SMALL,
    ),
    "Albert": {**_SMALL, "embedding_size": 16},
    "Deberta": {**_SMALL, "relative_attention": True, "pos_att_type": ["c2p", "p2c"]},
    "DistilBert": {"vocab_size": VOCABULARY, "dim": 32, "n_layers": 2, "n_heads": 4, "hidden_dim": 37},
    "SqueezeBert": {**_SMALL, "embedding_size": 32, "intermediate_size": 64},
    "FNet": _SMALL,
    "GPT2": _GPT2,
    "GPTNeo": {
        "vocab_size": VOCABULARY, "hidden_size": 32, "num_layers": 2, "num_heads": 4, "max_position_embeddings": 128,
        "attention_types": [[["global", "local"], 1]],
    },
    "GPTNeoX": _SMALL,
    "GPTJ": {**_GPT2, "rotary_dim": 4},
    "OPT": {**_SMALL, "ffn_dim": 37, "word_embed_proj_dim": 32},
    "Bloom": {"vocab_size": VOCABULARY, "hidden_size": 32, "n_layer": 2, "n_head": 4},
    "Falcon": {**_SMALL, "alibi": False},
    "Llama": _LLAMA,
    "Mistral": _LLAMA,
    "Qwen2": _LLAMA,
    "Gemma": _LLAMA,
    "Phi": _LLAMA,
    "Bart": _ENCODER_DECODER,
    "XLM": {"vocab_size": VOCABULARY, "emb_dim": 32, "n_layers": 2, "n_heads": 4, "max_position_embeddings": 128},
}  # fmt: skip

IMAGE_SOURCE = """\
import torchvision_operators
import timm


def make():
    return timm.create_model({name!r}, pretrained=False, num_classes=10)
"""
TEXT_SOURCE = """\
import torch
import torchvision_operators
from transformers import {name}Config, {name}Model


class Net(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.model = {name}Model({name}Config(**{config!r}))

    def forward(self, input_ids, attention_mask):
        return self.model(input_ids=input_ids, attention_mask=attention_mask, return_dict=False)[0]


def make():
    return Net()
"""
WITHOUT_MASK = """\
    def forward(self, input_ids):
        return self.model(input_ids=input_ids, return_dict=False)[0]
"""


@dataclass(frozen=True)
class Real:
    """A model, and its example inputs at a batch and a length."""

    name: str
    source: str
    image: int | None
    takes_mask: bool = True
    batch: int = 2  # of the example

    def inputs(self, batch: int, length: int) -> list[torch.Tensor]:
        draws = torch.Generator().manual_seed(batch * 1000 + length)
        if self.image is not None:
            return [torch.randn(batch, 3, self.image, self.image, generator=draws)]
        ids = torch.randint(3, VOCABULARY, (batch, length), generator=draws)
        if not self.takes_mask:
            return [ids]
        mask = torch.ones(batch, length, dtype=torch.int64)
        if batch > 1 and length > 2:
            mask[1, length - 1 :] = 0
        return [ids, mask]

    def sizes(self) -> Iterator[tuple[int, int]]:
        return itertools.product(BATCHES, [0] if self.image is not None else LENGTHS)

    def model(self) -> torch.nn.Module:
        torch.manual_seed(0)
        names: dict[str, Any] = {}
        exec(compile(self.source, self.name, "exec"), names)
        module: torch.nn.Module = names["make"]()
        return module.eval()


def models() -> Iterator[Real]:
    known = set(timm.list_models())
    for size, names in IMAGES.items():
        for name in names.split():
            if name in known:
                yield Real(name, IMAGE_SOURCE.format(name=name), size)
    for name, config in TEXTS.items():
        source = TEXT_SOURCE.format(name=name, config=config)
        if name == "FNet":
            head, _, tail = source.partition("    def forward")
            yield Real(name, head + WITHOUT_MASK + tail[tail.index("\n\n\ndef make") :], None, takes_mask=False)
        else:
            yield Real(name, source, None)


def large() -> Iterator[Real]:
    """Those that are asked for by name."""
    yield Real("resnet18-224", IMAGE_SOURCE.format(name="resnet18"), 224, batch=1)
    yield Real("BertBase", TEXT_SOURCE.format(name="Bert", config={}), None)


@dataclass
class Row:
    """What came of one model."""

    name: str
    verdict: str = "-"
    opened: str = ""
    proven: float = 0.0
    right: int = 0  # sizes at which the plain trace is right, of those that eager takes
    taken: int = 0
    served: int = 0  # and of those at which it is right, the ones that the contract takes
    false_alarm: bool = False
    wrong_inside: bool = False
    check_s: float = 0.0
    eager_s: float = 0.0
    trace_s: float = 0.0
    note: str = ""


def judged(client: httpx.Client, real: Real) -> Row:
    row = Row(real.name)
    model = real.model()
    example = real.inputs(real.batch, EXAMPLE_LENGTH)
    began = time.perf_counter()
    with torch.no_grad():
        model(*example)
    row.eager_s = time.perf_counter() - began
    began = time.perf_counter()
    with torch.no_grad():
        plain = torch.jit.trace(model, tuple(example), check_trace=False)
    row.trace_s = time.perf_counter() - began
    began = time.perf_counter()
    status = submitted(client, real, model, example)
    row.check_s = time.perf_counter() - began
    if status["state"] != "succeeded":
        row.note = str(status["problem"]["detail"])[:100]
        return row
    row.verdict = status["verdict"]
    digest = status["artifacts"][0]["digest"]
    contract = client.get(f"/artifacts/{digest}").raise_for_status().json()["contract"]["methods"]["forward"]
    row.opened, row.proven = opened(contract)
    archive = client.get(f"/artifacts/{digest}/archive").raise_for_status().content
    compare(row, real, model, plain, torch.jit.load(io.BytesIO(archive)), contract)
    kinds = {finding["kind"] for finding in status["findings"] if finding.get("effect") != "harmless"}
    row.note = " ".join(sorted(kinds - {"torch-check-failed"}))
    return row


def submitted(client: httpx.Client, real: Real, model: torch.nn.Module, example: list[torch.Tensor]) -> dict[str, Any]:
    kinds = {torch.int64: "INT64", torch.float32: "FP32"}
    tensors = [
        {"datatype": kinds[one.dtype], "shape": list(one.shape), "data": one.flatten().tolist()} for one in example
    ]
    spec = {
        "model": real.name,
        "source": {
            "files": {"real.py": real.source, "torchvision_operators.py": operators()},
            "entrypoint": "real:make",
        },
        "example_inputs": tensors,
        "weights": {"file": "weights.pt"},
        "options": {"strict": False},
        "force": True,
    }
    weights = io.BytesIO()
    torch.save(model.state_dict(), weights)
    files: dict[str, Any] = {
        "request": (None, json.dumps(spec), "application/json"),
        "files": ("weights.pt", weights),
    }
    status = client.post("/trace", files=files, headers={"prefer": "wait=60"}).raise_for_status().json()
    while status["state"] in ("queued", "running"):
        time.sleep(1)
        status = client.get(status["links"]["self"]).raise_for_status().json()
    return dict(status)


def operators() -> str:
    return (MODELS / "torchvision_operators.py").read_text()


def opened(contract: dict[str, Any]) -> tuple[str, float]:
    """The symbols' smallest and largest sizes, and the share of sizes that is proven, or of one way and sampled."""
    counts = {"proven": 0, "sampled": 0, "tested": 0, "observed": 0}
    for region in contract["regions"]:
        sizes = [sum((one["high"] - one["low"]) // one["step"] + 1 for one in spans)
                 for spans in region["spans"].values()]  # fmt: skip
        counts[region["basis"]] += int(torch.tensor(sizes).prod()) if sizes else 0
    ends: dict[str, list[int]] = {}
    for region in contract["regions"]:
        for name, found in region["spans"].items():
            ends.setdefault(name, []).extend(end for one in found for end in (one["low"], one["high"]))
    text = " ".join(f"{name}={min(found)}..{max(found)}" for name, found in ends.items())
    return text, (counts["proven"] + counts["sampled"]) / max(1, sum(counts.values()))


def compare(row: Row, real: Real, model: torch.nn.Module, plain: Any, artifact: Any, contract: dict[str, Any]) -> None:
    """The truth on each of the sizes: the plain trace against the model, and the artifact where it may be asked."""
    shapes = [one["shape"] for one in contract["inputs"]]
    for batch, length in real.sizes():
        inputs = real.inputs(batch, length)
        with torch.no_grad():
            try:
                expected = model(*inputs)
            except Exception:  # noqa: BLE001 - what eager refuses says nothing
                continue
            row.taken += 1
            is_right = agrees(plain, inputs, expected)
            row.right += is_right
            if takes(contract, shapes, inputs):
                row.served += is_right
                row.wrong_inside |= not agrees(artifact, inputs, expected)
    row.false_alarm = row.verdict != "verified" and row.right == row.taken


def agrees(module: Any, inputs: list[torch.Tensor], expected: torch.Tensor) -> bool:
    try:
        actual = module(*inputs)
    except Exception:  # noqa: BLE001 - it answers not at all
        return False
    if isinstance(actual, tuple):
        actual, expected = actual[0], expected[0]
    if actual.shape != expected.shape:
        return False
    scale = max(1.0, float(expected.abs().max()))
    return torch.allclose(actual, expected, rtol=TOLERANCE, atol=TOLERANCE * scale, equal_nan=True)


def takes(contract: dict[str, Any], shapes: list[list[int | str]], inputs: list[torch.Tensor]) -> bool:
    """Whether the contract says so, for shapes whose symbols stand alone."""
    sizes: dict[str, int] = {}
    for shape, tensor in zip(shapes, inputs, strict=True):
        for dim, size in zip(shape, tensor.shape, strict=True):
            if (sizes.setdefault(dim, size) if isinstance(dim, str) else dim) != size:
                return False
    if not sizes:
        return True
    return any(
        all(
            any(
                one["low"] <= sizes[name] <= one["high"] and (sizes[name] - one["low"]) % one["step"] == 0
                for one in spans
            )
            for name, spans in region["spans"].items()
        )
        for region in contract["regions"]
    )


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--only", default="", help="models whose name holds this, or one of these between commas")
    only = options.parse_args().only.lower().split(",")
    warnings.simplefilter("ignore")
    torch.set_num_threads(2)
    chosen = [real for real in models() if any(part in real.name.lower() for part in only)]
    chosen += [real for real in large() if real.name.lower() in only]
    with service() as address, httpx.Client(base_url=address, timeout=200) as client:
        rows = [told(judged(client, real)) for real in chosen]
    summarise(rows)


def told(row: Row) -> Row:
    flag = "FALSE ALARM" if row.false_alarm else "WRONG INSIDE" if row.wrong_inside else ""
    print(
        f"{row.name:<28} {row.verdict:<10} right {row.right:>2}/{row.taken:<2} served {row.served:>2} "
        f"proven {row.proven:>4.0%} "
        f"{row.check_s:>6.1f} s  eager {row.eager_s * 1000:>6.0f} ms  trace {row.trace_s * 1000:>6.0f} ms  "
        f"{row.opened:<30} {row.note} {flag}",
        flush=True,
    )
    return row


def summarise(rows: list[Row]) -> None:
    made = [row for row in rows if row.verdict != "-"]
    print(f"\n{len(made)} of {len(rows)} gave an artifact")
    print(f"false alarms: {sum(row.false_alarm for row in made)}; wrong inside the contract: "
          f"{sum(row.wrong_inside for row in made)}")  # fmt: skip
    print(f"of the {sum(row.right for row in made)} sizes at which the trace is right, the contracts take "
          f"{sum(row.served for row in made)}")  # fmt: skip
    print(f"open to other batches or lengths: {sum(bool(row.opened) for row in made)}; wholly or partly proven: "
          f"{sum(row.proven > 0 for row in made)}")  # fmt: skip
    if made:
        ratio = statistics.median(row.check_s / (row.eager_s + row.trace_s) for row in made)
        seconds = statistics.median(row.check_s for row in made)
        print(f"median: {seconds:.1f} s for all, {ratio:.1f} times one eager call and a trace")


if __name__ == "__main__":
    main()
