"""Extra files: what an archive carries beside the model, so that the file alone says what it is right for.

torch.jit.load hands them over: `torch.jit.load(file, _extra_files={"contract.json": ""})`.
"""

from tracehouse.artifact.manifest import Form, Versions
from tracehouse.findings.trace_check import Finding, Verdict
from tracehouse.frozen import Frozen
from tracehouse.spec.trace_spec import DeviceName, ServedForm

CONTRACT, CHECK, GOLDEN = "contract.json", "check.json", "golden.safetensors"
EXTRA_FILES = (CONTRACT, CHECK, GOLDEN)


class CheckSummary(Frozen):
    """What stands in `check.json`: the verdict, and all that is needed to check the archive once more."""

    verdict: Verdict
    tolerance: float
    device: DeviceName
    form: Form
    served_form: ServedForm | None
    bucket: dict[str, int] = {}
    findings: list[Finding]
    versions: Versions
