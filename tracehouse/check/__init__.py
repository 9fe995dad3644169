"""The trace check: it compares the traced model with the eager one. `tracehouse.check(model, example_inputs)` runs it.

`live` checks a model in this process and returns a `report`. `model_check` takes one model from its examples to what is
known of its trace, and `check` keeps the order: `comparer` and `determinism` compare calls and enter them in the
`ledger`. For each method, the `pipeline` gathers the `evidence` of the layers, and `conclusions` turns it into findings
and a `claim`. The layers are `observe` and `flip` (what the model reads in Python, recorded by `instrumentation`),
`sizes` (which sizes may vary), `prove` (all of them at once), `graphs` (what the trace keeps of values and sizes),
`calls` (other sizes), `probe` (other values, from `inputs`) and `batch` (whether rows depend on one another).
"""

import sys
from inspect import Signature, signature
from types import ModuleType
from typing import Any


class _CallablePackage(ModuleType):
    """The package, which can be called like the function `check`.

    Importing any module of the package makes the name `tracehouse.check` the package. A call of that name must work all
    the same.
    """

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Check a live model, with the arguments, the result and the errors of `tracehouse.check.live.check_live`."""
        try:
            from tracehouse.check.live import check_live
        except ModuleNotFoundError as error:
            if (error.name or "").startswith("tracehouse"):
                raise
            remedy = f"tracehouse.check needs {error.name}: pip install 'tracehouse[check]'"
            raise ModuleNotFoundError(remedy, name=error.name) from error
        return check_live(*args, **kwargs)

    @property
    def __signature__(self) -> Signature:
        from tracehouse.check.live import check_live

        return signature(check_live)


sys.modules[__name__].__class__ = _CallablePackage
