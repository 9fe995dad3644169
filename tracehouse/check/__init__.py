"""The trace check: the traced model against the eager one. `tracehouse.check(model, example_inputs)` runs it.

`live` checks a model in this process and returns a `report`. `model_check` is one model from its examples to what is
known of its trace, and `check` the order of that: `comparer` and `determinism` compare calls and enter them in the
`ledger`, and for each method the `pipeline` joins what the layers find out to its `evidence`, of which `verdicts`
makes findings and a `claim`. The layers are `observe` and `flip` (what the model reads in Python, by means of
`instrumentation`), `graphs` (what becomes of values and sizes), `prove` (all sizes at once), `probe` (other values,
from `inputs`) and `batch` (whether rows see one another).
"""

import sys
from inspect import Signature, signature
from types import ModuleType
from typing import Any


class _CallablePackage(ModuleType):
    """Importing any module of this package makes `tracehouse.check` the package, whatever it was before: so that the
    function of this name can always be called, the package calls it."""

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Check a live model: see `tracehouse.check.live.check_live`."""
        from tracehouse.check.live import check_live

        return check_live(*args, **kwargs)

    @property
    def __signature__(self) -> Signature:
        from tracehouse.check.live import check_live

        return signature(check_live)


sys.modules[__name__].__class__ = _CallablePackage
