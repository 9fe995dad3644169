"""Remedies: what to write instead, by cause.

Each is an imperative without a final full stop, so that two can be joined. A name in braces is for `str.format`: a
finding puts in what it is about, and the catalogue a word for any of them. They are read in a live report too, where
nothing but the model can be changed: what a trace request alone can do begins with "in a trace request".
"""

import re

# A clause at the end of a remedy; mode auto, which has tried it, leaves it out.
LET_MODE_BE_AUTO = "or, in a trace request, let `mode` be auto"
_LET_MODE_BE = re.compile(rf"[,;] {re.escape(LET_MODE_BE_AUTO)}")


def without_mode_auto(remedy: str) -> str:
    """Return the remedy without the advice to let `mode` be auto."""
    return _LET_MODE_BE.sub("", remedy)


FIND_THE_CAUSE = (
    "look for a value that Python reads out of a tensor (`if`, `int()`, `.item()`, `.numpy()`), and for state that "
    "forward changes; the trace keeps both as they were on the example"
)

RETURN_THE_SAME_IN_A_TRACE = "let the model return in a trace what it returns outside of one"

REPLACE_VALUE_READ = (
    "compute the value with torch operators (torch.where, a mask) in place of Python, or make it an input of forward"
)

GUARD_IGNORED_CALL = (
    "the artifact calls a function that is marked @torch.jit.unused or @torch.jit.ignore, and so is not in the "
    "archive: guard the call with `if not torch.jit.is_scripting():`, or remove the mark, or trace the model instead "
    "of scripting it"
)

DROP_FORCE_OUTPLACE = (
    "leave out options.force_outplace: it turns in-place operators into copies, so that writing to a view no longer "
    "changes the tensor behind it; otherwise "
)

SEE_HIDDEN_STATE = (
    "mend the hidden-state finding of this method first: the answers depend on earlier calls; make that state an input "
    "and an output of forward"
)

DRAW_OUTSIDE = (
    "draw the numbers in `__init__` and keep them as a buffer, or draw them outside and make them an input of forward"
)

WRITE_WITH_TORCH = (
    "compute with torch operators on the tensor itself, in the thread that calls forward, as in "
    "`x = x.masked_fill(mask, 0)`"
)

PASS_STATE = "make the state an input and an output of forward, so that forward changes nothing that a later call reads"

KEEP_STATISTICS = f"call model.eval(), so that running statistics are used and not changed; or {PASS_STATE}"

PASS_WEIGHTS = (
    "compute the weights as a tensor and hand it to the operator, as in torch.nn.functional.linear(x, weight), and "
    "leave the parameters as they are"
)

CONTROL_RANDOMNESS = (
    "pass training=self.training to dropout, so that eval mode draws nothing; or draw the random numbers outside and "
    "make them an input of forward"
)

DRAW_WITH_TORCH = (
    "draw the random numbers with torch, such as torch.rand, which a trace records; or draw them outside and make them "
    "an input of forward"
)

SEND_A_SEED = (
    "if the draws are meant, send `parameters.seed` to get the same answer again; if not, call model.eval(), pass "
    "training=self.training to dropout, or remove the draw"
)

USE_EVAL_MODE = (
    "call model.eval(), or in a trace request let `training` be false, because dropout draws random numbers in train "
    "mode; or draw the random numbers outside and make them an input of forward"
)

LIST_BUCKETS = "or, in a trace request, list the sizes you need in `buckets`: one artifact is made for each"

KEEP_SIZE_DYNAMIC = (
    "pass x.shape[i] to torch operators directly, without int(); put a loop over a size into a torch.jit.script "
    f"function; {LET_MODE_BE_AUTO}"
)

FIX_CHECK_INPUT = "send a check input that the eager model itself accepts, or leave this one out"

CHECK_BEFORE_ASKING = (
    "validate such inputs before you send them to the artifact, or let forward return the condition that it checks as "
    "one more output"
)

KEEP_GRADIENTS = (
    "use .detach() in place of torch.no_grad(), do not branch on requires_grad, and use no custom backward: a trace "
    "records operators alone, and their backward is torch's own"
)

REPLACE_BACKWARD = (
    "if nobody differentiates the artifact, change nothing; otherwise write the gradient with operators: "
    "y + (y.round() - y).detach() rounds y and has the gradient of y"
)

RENEW_WHAT_IS_KEPT = (
    "compute it again whenever the sizes are not those it was computed for, or compute it in __init__ for the largest "
    "size"
)

SETTLE_VALUE_READ = (
    "compute the value with torch operators (torch.where, masks); or send check inputs for which it is different; or "
    "raise budget_s"
)

LEAVE_SYMBOL_OUT = (
    "leave {symbol} out of `dynamic`, declare the dims that vary together with it, or let the model accept other sizes"
)

LEAVE_FORM_OUT = "leave out {option}, or raise check.check_tolerance if the difference is acceptable"

READ_BY_KEY = "read the entries by their keys, or loop over sorted(...) of the dict"

RETURN_SAME_OUTPUTS = "return the same outputs, with the same ranks and datatypes, at all sizes"

PASS_CONTIGUOUS = (
    "call contiguous() and detach() first in the model, or pass contiguous tensors that require no gradient to the "
    "archive, under torch.no_grad(), as the service does"
)

MAKE_IT_AN_INPUT = "make the value an input of forward, or read it once in __init__"

SORT_THE_SET = "go through the set with sorted(...), or keep its items in a tuple or a list"

VARY_INPUTS = "let the model accept inputs of its example's shapes with other values near the example's own"

SEND_WEIGHTS = "send the trained weights as `weights`, unless the source itself has them"

LEAVE_WEIGHTS_OUT = "leave them out of the file, if the model does not need them"

NAME_STATE_DICT = "name the state dict that is meant in weights.key"

COVER_SAMPLE = "set check.budget to deep, so that more sizes are proven or tried, or trace on an example of this size"

TRACE_ANOTHER_RANK = (
    "trace the model once more with this input as its example, as a model of its own; a script (`mode` auto or script) "
    "may take all ranks in one artifact"
)

COVER_SIZES = (
    "request the sizes that you need and that the model accepts, set check.budget to deep, or list the sizes in "
    "`buckets`"
)

COMPARE_WITHOUT_FAST_PATHS = (
    "call torch.backends.mha.set_fastpath_enabled(False) before you compare the eager model with the artifact, and do "
    "not read numbers at padded positions"
)

BUILD_WITHOUT_NESTED_TENSORS = (
    "build nn.TransformerEncoder with enable_nested_tensor=False, so that the eager model does not look at the mask's "
    "values; if its answer depends on padded positions, leave them out with the mask, as in "
    "(y * keep).sum(1) / keep.sum(1)"
)
