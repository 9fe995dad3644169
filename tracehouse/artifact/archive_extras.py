"""Extra files: contract, check and golden cases inside the archive, so that the file says what it is right for.

torch.jit.load reads them: `torch.jit.load(file, _extra_files={"contract.json": ""})`.
"""

import hashlib

from tracehouse.artifact.manifest import Form, Versions
from tracehouse.contract.contract import Contract
from tracehouse.findings.finding import Finding
from tracehouse.findings.verdict import Verdict
from tracehouse.frozen import Frozen
from tracehouse.spec.trace_spec import DeviceName, ServedForm

CONTRACT, CHECK, GOLDEN = "contract.json", "check.json", "golden.safetensors"
EXTRA_FILES = (CONTRACT, CHECK, GOLDEN)


def contract_document(contract: Contract) -> bytes:
    """Return the content of `contract.json`."""
    return contract.model_dump_json().encode()


def contract_digest(document: bytes) -> str:
    """Return the digest by which a signature names the contract: that of the file's bytes."""
    return f"sha256:{hashlib.sha256(document).hexdigest()}"


class CheckSummary(Frozen):
    """The content of `check.json`: the verdict, and all that is needed to check the archive again.

    `tolerance` is the relative error that a comparison allows. `bucket` has the size of each symbol that the archive
    was made for; it is empty if the archive is no bucket.
    """

    verdict: Verdict
    tolerance: float
    device: DeviceName
    form: Form
    served_form: ServedForm | None
    bucket: dict[str, int] = {}
    findings: list[Finding]
    versions: Versions
