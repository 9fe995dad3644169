"""Buckets: several artifacts of one version, each for other sizes. The inputs' sizes say which one answers."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from tracehouse.contract.contract import AcceptedInputs, MethodContract
from tracehouse.contract.dims import format_sizes
from tracehouse.errors import ContractViolation, NoBucket, ShapeMismatch, SizeOutOfRange, SizesDisagree
from tracehouse.tensors.tensor import Tensor

# A bucket that refuses inputs for one of these reasons may stand beside another that takes them.
_SIZE_VIOLATIONS = (ShapeMismatch, SizesDisagree, SizeOutOfRange)
_SHAPES_IN_DETAIL_MAX = 4


@dataclass(frozen=True, slots=True)
class BucketContract:
    """A method's contract in the artifact of one bucket, and the sizes that the bucket is for.

    A version without buckets has one artifact: `sizes` is then empty.
    """

    sizes: Mapping[str, int]
    method: MethodContract


def accept(
    sent: Sequence[Tensor], buckets: Sequence[BucketContract], *, is_open: bool, memory_max_bytes: int | None = None
) -> tuple[int, AcceptedInputs]:
    """Return the place of the first bucket that takes the tensors, and the tensors as its contract orders them.

    Beyond the sizes that were called, a call may need `memory_max_bytes`; None sets no limit.

    Raises NoBucket if there is no bucket for the sizes that buckets are for. Raises the ContractViolation of the bucket
    that is for them if another size is at fault, and that of any if no bucket takes such inputs.

    An open contract lets untried sizes through, but never sizes that belong to another bucket: those are baked in.
    """
    place = choose(sent, buckets, is_open=is_open)
    return place, buckets[place].method.accept(sent, is_open=is_open, memory_max_bytes=memory_max_bytes)


def choose(sent: Sequence[Tensor], buckets: Sequence[BucketContract], *, is_open: bool) -> int:
    """Return the place of the bucket that such tensors go to, if there are several; it may still refuse them.

    Raises as `accept` does.
    """
    if len(buckets) == 1:
        return 0
    specs = [tensor.spec for tensor in sent]
    for place, bucket in enumerate(buckets):
        if bucket.method.takes(specs):
            return place
    violations: list[ContractViolation] = []
    for place, bucket in enumerate(buckets):
        try:
            bucket.method.accept(sent, is_open=is_open and _has_sizes_of(sent, bucket, buckets))
        except _SIZE_VIOLATIONS as violation:
            violations.append(violation)
        else:
            return place
    raise _no_bucket(sent, buckets, violations)


def _has_sizes_of(sent: Sequence[Tensor], bucket: BucketContract, buckets: Sequence[BucketContract]) -> bool:
    """Whether each dim in which the buckets' examples differ has the size that this bucket's example has."""
    shapes = {tensor.name: tensor.shape for tensor in sent}
    for specs in zip(bucket.method.inputs, *(other.method.inputs for other in buckets), strict=True):
        dims = zip(shapes.get(specs[0].name, ()), *(spec.example for spec in specs), strict=False)
        if any(size != own and {own, *others} != {own} for size, own, *others in dims):
            return False
    return True


def _no_bucket(
    sent: Sequence[Tensor], buckets: Sequence[BucketContract], violations: Sequence[ContractViolation]
) -> ContractViolation:
    if all("dim" not in violation.facts and "sizes" not in violation.facts for violation in violations):
        return violations[0]  # a rank is wrong, and all buckets have the same ranks
    for bucket, violation in zip(buckets, violations, strict=True):
        if _has_sizes_of(sent, bucket, buckets):  # so another size is at fault
            detail = f"in the bucket of {format_sizes(bucket.sizes)}, {violation.detail}"
            return type(violation)(detail, **violation.facts, bucket=dict(bucket.sizes))
    shapes = ", ".join(f"{tensor.name!r} as {list(tensor.shape)}" for tensor in sent[:_SHAPES_IN_DETAIL_MAX])
    return NoBucket(
        f"no bucket takes {shapes}; there are those of {'; '.join(format_sizes(bucket.sizes) for bucket in buckets)}",
        actual={tensor.name: list(tensor.shape) for tensor in sent},
        buckets=[dict(bucket.sizes) for bucket in buckets],
        refused=[
            {"bucket": dict(bucket.sizes), "code": violation.slug(), "detail": violation.detail}
            for bucket, violation in zip(buckets, violations, strict=True)
        ],
    )
