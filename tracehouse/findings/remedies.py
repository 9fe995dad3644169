"""Remedies: what to write instead, by what was found."""

ADVICE = "look for values read out of tensors (if, int(), .item(), numpy) and for state that forward changes"

ADVICE_ON_A_READ = (
    "this line read a value that the trace then kept: compute it with torch operations (torch.where, masks), "
    "or make it an input"
)

ADVICE_ON_WHAT_IS_IGNORED = (
    "the artifact calls a function that @torch.jit.unused or @torch.jit.ignore leaves out of it: guard the call with "
    "`if not torch.jit.is_scripting():`, let the function be compiled, or trace the model instead"
)

ADVICE_ON_FORCE_OUTPLACE = (
    "leave out options.force_outplace, with which an operator in place no longer writes into the tensor that a view is "
    "of; otherwise "
)

ADVICE_ON_WHAT_IS_KEPT = (
    "see hidden-state: the answers depend on earlier calls; make that state an input and an output of forward"
)

ADVICE_ON_STATE = "let forward change nothing that it reads: make the state an input and an output"

ADVICE_ON_RANDOMNESS = "pass training=self.training to dropout, or draw the numbers outside and make them an input"

ADVICE_ON_TRAINING = (
    "let `training` be false: in train mode, dropout draws random numbers; or draw them outside and make them an input"
)

ADVICE_ON_BUCKETS = "; or list the sizes that are needed in `buckets`"

ADVICE_ON_A_SIZE = (
    "let torch compute what follows from the size: hand x.shape[i] to its operators without int(), and put a loop over "
    f"a size into a torch.jit.script function; or let `mode` be auto{ADVICE_ON_BUCKETS}"
)

ADVICE_ON_CHECK_INPUTS = "give check inputs that the model itself takes, or leave this one out"

ADVICE_ON_REFUSALS = (
    "check for such inputs before the artifact is asked, or let the model return what it checks as one more output"
)

ADVICE_ON_GRADIENTS = (
    "a trace keeps operators alone: let forward take gradients off by .detach() in place of torch.no_grad(), decide "
    "nothing by requires_grad, and give an operator no backward of its own that the trace does not show"
)
