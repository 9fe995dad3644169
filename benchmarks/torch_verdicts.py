"""Torch verdicts: what torch.jit.trace with its own check, and torch.export, say of the models of tests/corpus."""

import contextlib
import logging
import multiprocessing
import os
import time
import warnings
from collections.abc import Sequence
from concurrent.futures import ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch

from tests.corpus.specimen import Specimen, called, same


@dataclass
class TorchVerdict:
    """What torch's own means say of a model."""

    check: str  # raises, warns or silent
    check_line: bool
    check_inputs: str
    export: str  # wrong, refuses or right
    trace_s: float


def judge_by_torch(chosen: Sequence[Specimen]) -> list[TorchVerdict]:
    """Return the verdict on each model. They are judged in a process of their own, because tracing may crash it."""
    context = multiprocessing.get_context("spawn")
    pool = ProcessPoolExecutor(1, context)
    verdicts = []
    for one in chosen:
        try:
            verdicts.append(pool.submit(_judge_one, one.path).result())
        except BrokenProcessPool:
            pool.shutdown()
            pool = ProcessPoolExecutor(1, context)
            verdicts.append(
                TorchVerdict("crashes", check_line=False, check_inputs="crashes", export="crashes", trace_s=0)
            )
    pool.shutdown()
    return verdicts


def _judge_one(path: Path) -> TorchVerdict:
    torch.set_num_threads(1)
    logging.disable()  # torch.export tells at length what it specialised
    with open(os.devnull, "w") as nowhere, contextlib.redirect_stdout(nowhere), contextlib.redirect_stderr(nowhere):
        one = Specimen(path)
        one.traced()  # the first trace of a process pays extra
        began = time.perf_counter()
        check, check_line = _judge_trace(one, check_trace=True)
        trace_s = time.perf_counter() - began
        inputs = [kwargs or args for args, kwargs in [one.example, *one.others]]
        check_inputs, _ = _judge_trace(one, check_inputs=inputs)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            export = _judge_export(one)
    return TorchVerdict(check, check_line, check_inputs, export, trace_s)


def _judge_trace(one: Specimen, **check: Any) -> tuple[str, bool]:
    """Return what a trace says, and whether it names a line at fault."""
    with warnings.catch_warnings(record=True) as warned:
        warnings.simplefilter("always")
        try:
            one.traced(**check)
        except Exception as error:  # noqa: BLE001 - whatever a trace of these models raises
            return "raises", any(f"{one.path.name}({line})" in str(error) for line in one.faults)
    warnings_of_trace = [each for each in warned if issubclass(each.category, torch.jit.TracerWarning)]
    named = {each.lineno for each in warnings_of_trace if Path(each.filename).name == one.path.name}
    return ("warns" if warnings_of_trace else "silent"), bool(named & one.faults)


def _judge_export(one: Specimen) -> str:
    """Return whether the exported program answers all inputs, refuses some, or answers one wrongly."""
    args, kwargs = one.example
    dynamic = {name: _automatic(value) for name, value in one.bound(one.example).items()}
    try:
        exported = torch.export.export(one.fresh(), args, kwargs, dynamic_shapes=dynamic).module()
    except Exception:  # noqa: BLE001 - it refuses by all kinds of errors
        return "refuses"
    eager, refused = one.fresh(), False
    is_row = one.is_wrong_in_a_row
    for seed, call in enumerate([one.example, *one.others] * (2 if is_row else 1)):
        given = called(exported, call, seed)
        if isinstance(given, Exception):
            refused = True
        elif not same(called(eager if is_row else one.fresh(), call, seed), given):
            return "wrong"
    return "refuses" if refused else "right"


def _automatic(value: Any) -> Any:
    match value:
        case torch.Tensor():
            return dict.fromkeys(range(value.dim()), torch.export.Dim.AUTO)
        case dict():
            return {key: _automatic(item) for key, item in value.items()}
        case list() | tuple():
            return type(value)(_automatic(item) for item in value)
    return None
