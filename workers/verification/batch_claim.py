"""The batch claim: whether the artifact answers rows of several requests together as it answers them alone."""

from collections.abc import Iterable, Iterator, Sequence
from itertools import cycle, islice

from tracehouse.contract.contract import Batch
from tracehouse.contract.regions import Region
from tracehouse.differential import batch_rows, size_samples
from tracehouse.differential.bound_call import BoundCall
from tracehouse.differential.budget import Budget
from tracehouse.differential.comparison import Answer
from tracehouse.differential.size_samples import Sizes
from tracehouse.findings import coverage
from tracehouse.findings.finding import Finding
from tracehouse.tensors.tensor import Tensor
from workers.verification.differential_runs import DifferentialTester
from workers.verification.sized_inputs import SizedInputs

# Of the numbers of rows that a region has, so many are searched for two that add up to a third.
_ROWS_SEARCHED = 16


class BatchVerifier:
    """Verifies one method's batch claim in regions that were verified."""

    def __init__(
        self,
        tester: DifferentialTester,
        call: BoundCall,
        inputs: SizedInputs,
        example_sizes: Sizes,
        budget: Budget,
        most_bytes: int,
    ) -> None:
        self._tester = tester
        self._call = call
        self._inputs = inputs
        self._example_sizes = example_sizes
        self._sizes = example_sizes  # of the calls, but for the number of rows
        self._budget = budget
        self._most_bytes = most_bytes
        # Requests by how they were made and their numbers of rows, and the answers to each alone by identity.
        self._requests: dict[tuple[object, ...], list[list[Tensor]]] = {}
        self._alone: dict[int, Answer | str] = {}
        self.findings: list[Finding] = []
        self.dependent_rows: int | None = None  # so many rows together were answered otherwise than alone

    def verify(self, batch: Batch, regions: Sequence[Region]) -> Batch | None:
        """Return the claim up to as many rows as were answered together here; None where it is wrong."""
        if batch.symbol not in self._example_sizes:
            return None
        rows = self._example_sizes[batch.symbol]
        proven = [region for region in regions if region.basis == "proven"]
        small = size_samples.stand_in_sizes(proven, self._example_sizes, size_samples.STAND_IN_ROWS)
        self._sizes = {**small, batch.symbol: rows}
        pairs = self._choose_pairs(batch, regions)
        if not pairs:
            self._reject(batch, "no two sizes of it add up to a third")
            return None
        few, *many = pairs
        verified = 0
        for rows_of_requests in (few, *(_fill(sum(pair), few) or pair for pair in many)):
            total = sum(rows_of_requests)
            if verified and self._budget.is_spent:
                self._budget.leave_out(f"{batch.symbol} {total}, together")
                continue
            # That values reach other rows shows for few rows as well as for many.
            changes_values = not verified
            dependence = self._find_dependence(batch, rows_of_requests, changes_values=changes_values)
            if dependence is not None:
                self._reject(batch, dependence)
                return None
            verified = max(verified, total)
        return batch.model_copy(update={"up_to": verified})

    def _reject(self, batch: Batch, why: str) -> None:
        self.findings.append(coverage.rows_depend(self._call.method, batch.symbol, why))

    def _choose_pairs(self, batch: Batch, regions: Sequence[Region]) -> list[tuple[int, int]]:
        """Return pairs of row counts to join: the fewest rows that there can be together, and the most."""
        spans = [region.spans[batch.symbol] for region in regions]
        sizes = {size for one in spans for size in size_samples.smallest_sizes(one, _ROWS_SEARCHED)}
        few = [size for size in sorted(sizes) if size and self._takes(batch.symbol, size, regions)]
        least = next(((one, other) for one in few for other in few if self._can_join(batch, one, other, regions)), None)
        if least is None:
            return []
        most = next(
            ((total - one, one) for one in few[:3] for total in _halve(batch.up_to)
             if total > one and self._can_join(batch, total - one, one, regions)),
            least,
        )  # fmt: skip
        return [least] if most == least else [least, most]

    def _can_join(self, batch: Batch, some: int, others: int, regions: Sequence[Region]) -> bool:
        together = {**self._sizes, batch.symbol: some + others}
        return (
            some + others <= batch.up_to
            and all(self._takes(batch.symbol, size, regions) for size in (some, others, some + others))
            and self._inputs.byte_size(together) <= self._most_bytes
        )

    def _takes(self, symbol: str, size: int, regions: Iterable[Region]) -> bool:
        return any(region.contains({**self._sizes, symbol: size}) for region in regions)

    def _find_dependence(self, batch: Batch, rows_of_requests: Sequence[int], *, changes_values: bool) -> str | None:
        """Return how rows of requests of so many rows depend on one another, or None.

        The values are drawn anew for two requests, which then come again; where they are refused, the example's.
        """

        sizes = [{**self._sizes, batch.symbol: rows} for rows in rows_of_requests[:2]]

        def draw() -> list[list[Tensor]]:
            first, second = (self._inputs.draw(one, number) for number, one in enumerate(sizes))
            return [first, _share_whole_inputs(first, second, batch)]

        def tile() -> list[list[Tensor]]:
            return [self._inputs.tile(one) for one in sizes]

        for name, make in (("drawn", draw), ("tiled", tile)):
            key = (name, *rows_of_requests[:2])
            self._requests[key] = self._requests.get(key) or make()
            try:
                requests = islice(cycle(self._requests[key]), len(rows_of_requests))
                dependence = batch_rows.find_row_dependence(
                    self._ask, [*requests], batch, self._tester.tolerance, changes_values=changes_values
                )
            except batch_rows.RowsRefused as error:
                refusal = str(error)
                continue
            if dependence is not None:
                self.dependent_rows = sum(rows_of_requests)
            return dependence
        return f"they are refused: {refusal}"

    def _ask(self, inputs: Sequence[Tensor]) -> Answer | str:
        """Ask the artifact. A request that was asked alone before is not asked again."""
        is_alone = any(inputs is one for requests in self._requests.values() for one in requests)
        if not is_alone:
            return self._tester.ask_artifact(self._call, inputs)
        if id(inputs) not in self._alone:
            self._alone[id(inputs)] = self._tester.ask_artifact(self._call, inputs)
        return self._alone[id(inputs)]


def _share_whole_inputs(first: Sequence[Tensor], second: Sequence[Tensor], batch: Batch) -> list[Tensor]:
    """Return the second inputs, with the first ones' tensors where they have no rows: these are of the whole call."""
    return [other if other.name in batch.inputs else one for one, other in zip(first, second, strict=True)]


def _fill(total: int, pair: Sequence[int]) -> list[int] | None:
    """Return the numbers of rows of the pair in turn, so often that they are `total` together; None if they never are.

    Each of the two requests is asked alone once, however often it comes.
    """
    times, rest = divmod(total, sum(pair))
    return [*pair] * times + [rest] * bool(rest) if rest in (0, pair[0]) else None


def _halve(size: int) -> Iterator[int]:
    while size > 1:
        yield size
        size //= 2
