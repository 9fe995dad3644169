"""Forms: what the commands read of artifacts, beyond what the client reads of them."""

from collections.abc import Mapping, Sequence
from typing import Any

from tracehouse.client.forms import ArtifactForm, Form


class _Tensor(Form):
    name: str = ""
    datatype: str = ""
    datatypes: Sequence[str] | None = None
    datatype_of: str | None = None
    shape: Sequence[int | str] = ()
    fixed: Mapping[str, str] = {}


class _Ranks(Form):
    inputs: Sequence[_Tensor] = ()
    outputs: Sequence[_Tensor] = ()
    regions: Sequence[Mapping[str, Any]] = ()
    memory: Mapping[str, Any] | None = None


class _Method(_Ranks):
    other_ranks: Sequence[_Ranks] = ()
    stochastic: bool = False


class _Contract(Form):
    methods: Mapping[str, _Method] = {}
    open: bool = False


class _Layer(Form):
    name: str = ""
    method: str = ""
    left_out: Sequence[str] = ()
    is_cut: bool = False


class _Memory(Form):
    left_out: Sequence[str] = ()


class _TraceCheck(Form):
    findings: Sequence[Mapping[str, Any]] = ()
    comparisons: Sequence[Mapping[str, Any]] = ()
    coverage: Sequence[Mapping[str, Any]] = ()
    layers: Sequence[_Layer] = ()
    memory: _Memory | None = None


class _Attempt(Form):
    way: str = ""
    verdict: str | None = None
    kept: bool = False


class _Arrays(Form):
    byte_size: int = 0


class _Counterexample(Form):
    method: str = ""
    output: str = ""
    difference: str = ""
    inputs: Sequence[_Tensor] = ()
    arrays: _Arrays = _Arrays()


class _Exportability(Form):
    note: str = ""


class _Links(Form):
    printouts: str = ""
    report: str = ""


class ArtifactReportForm(ArtifactForm):
    """An artifact as a whole."""

    device: str = ""
    bucket: Mapping[str, int] = {}
    form: str = ""
    contract: _Contract = _Contract()
    check: _TraceCheck = _TraceCheck()
    attempts: Sequence[_Attempt] = ()
    counterexamples: Sequence[_Counterexample] = ()
    exportability: _Exportability | None = None
    freeze: bool = False
    optimize_for_inference: bool = False
    links: _Links = _Links()


class InferenceReplyForm(Form):
    """What answers without outputs is no model."""

    model_name: str = ""
    outputs: Sequence[Mapping[str, Any]]
