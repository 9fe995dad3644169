"""A further check: one artifact's archive, checked once more with a larger budget beside the model it was made of."""

from collections.abc import Callable, Sequence

from service.domain.outcome import Succeeded
from service.domain.trace_request import TraceRequest
from service.storage.blobs import StagedBlob
from service.storage.database import Store
from tracehouse.artifact.manifest import Artifact
from tracehouse.contract.widening import accepts_more
from tracehouse.findings.finding import Finding
from tracehouse.findings.remedies import without_mode_auto
from tracehouse.findings.verdict import worst
from tracehouse.spec.conversion import Conversion
from tracehouse.spec.trace_spec import DeviceName
from workers import buckets
from workers.artifact_builder import ArtifactBuilder
from workers.device_trace import DeviceResult, EarlierArchive
from workers.requested_sizes import judge_coverage

GoOn = Callable[[DeviceName, Conversion, EarlierArchive], DeviceResult]

_COPIED_BYTES = 2**20


class FurtherCheck:
    """The further check that a request asks for. `stage_file` gives files that stay until the attempt ends."""

    def __init__(
        self, request: TraceRequest, store: Store, builder: ArtifactBuilder, stage_file: Callable[[], StagedBlob]
    ) -> None:
        assert request.continues is not None  # or it would be traced
        self._request = request
        self._digest = request.continues
        self._store = store
        self._builder = builder
        self._stage_file = stage_file

    def run(self, go_on: GoOn) -> Succeeded:
        """Return the outcome: the artifacts of the version before, one of them with what the check found.

        It becomes a version if it accepts more, has a better verdict, or refutes the contract before. Raises
        TraceError.
        """
        earlier = self._store.artifacts.get(self._request.tenant, self._digest)
        assert earlier.conversion is not None  # or the request would not have been accepted
        archive = EarlierArchive(self._stage_archive(earlier), earlier.contract)
        result = self._finish(go_on(earlier.device, earlier.conversion, archive), earlier)
        refutes = result.verification.refutes or result.is_rejected
        artifact = self._builder.build_further(result, earlier, self._digest, refutes=refutes)
        outcome = Succeeded.of(self._request.spec, self._in_place(artifact))
        is_new = refutes or accepts_more(artifact.contract, earlier.contract) or _is_better(artifact, earlier)
        refuted = self._digest if refutes else None
        return outcome.model_copy(update={"registered": outcome.registered and is_new, "refutes": refuted})

    def _stage_archive(self, earlier: Artifact) -> StagedBlob:
        """Return a copy of the archive, which no child can write."""
        staged = self._stage_file()
        staged.reserve(earlier.archive.byte_size)
        with self._store.blobs.open(earlier.archive.digest) as file:
            while data := file.read(_COPIED_BYTES):
                staged.write(data)
        return staged

    def _finish(self, result: DeviceResult, earlier: Artifact) -> DeviceResult:
        """Return the result with what the first trace said of its conversions and of the sizes that are requested."""
        spec = self._request.spec
        if earlier.attempts:
            result = result.with_attempts(earlier.attempts).with_findings(_without_mode_auto(result.check.findings))
        if earlier.bucket:  # all buckets cover the requested sizes together, and the others stay as they are
            return result.with_coverage(earlier.check.coverage)
        [result] = judge_coverage([result], spec)
        return result if spec.buckets else buckets.offer_buckets(result, spec)

    def _in_place(self, artifact: Artifact) -> list[Artifact]:
        """Return the artifacts for all devices and buckets, with this one in the place of the one before."""
        tenant = self._request.tenant
        made = self._store.further_checks.maker(tenant, self._digest)
        return [
            artifact if one.digest == self._digest else self._store.artifacts.get(tenant, one.digest)
            for one in made.artifacts
        ]


def _without_mode_auto(findings: Sequence[Finding]) -> list[Finding]:
    return [
        one if one.remedy is None else one.model_copy(update={"remedy": without_mode_auto(one.remedy)})
        for one in findings
    ]


def _is_better(artifact: Artifact, earlier: Artifact) -> bool:
    verdict, before = artifact.check.verdict, earlier.check.verdict
    return verdict is not before and worst([verdict, before]) is before
