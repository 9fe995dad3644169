"""The kinds of findings: for each, what it means, whether it speaks against the artifact, and what to write instead.

A finding's `kind` is one of these strings. The kind's entry in the catalogue says what all findings of that kind have
in common; the finding itself says what was seen in one model. `GET /findings` serves the catalogue.

A stored artifact may have a kind of an earlier release, and the tracing process can invent kinds. So `Finding.kind` is
read as a plain string, and `entry_of` returns None for a string that is no kind of this release.
"""

from collections.abc import Mapping
from enum import StrEnum

from pydantic import Field

from tracehouse.findings.remedies import (
    BUILD_WITHOUT_NESTED_TENSORS,
    CHECK_BEFORE_ASKING,
    COMPARE_WITHOUT_FAST_PATHS,
    CONTROL_RANDOMNESS,
    COVER_SIZES,
    DRAW_WITH_TORCH,
    FIND_THE_CAUSE,
    FIX_CHECK_INPUT,
    KEEP_GRADIENTS,
    KEEP_SIZE_DYNAMIC,
    LEAVE_FORM_OUT,
    LEAVE_SYMBOL_OUT,
    LEAVE_WEIGHTS_OUT,
    LIST_BUCKETS,
    MAKE_IT_AN_INPUT,
    NAME_STATE_DICT,
    PASS_CONTIGUOUS,
    PASS_STATE,
    READ_BY_KEY,
    RENEW_WHAT_IS_KEPT,
    REPLACE_BACKWARD,
    REPLACE_VALUE_READ,
    RETURN_SAME_OUTPUTS,
    SEND_A_SEED,
    SEND_WEIGHTS,
    TRACE_ANOTHER_RANK,
    USE_EVAL_MODE,
    VARY_INPUTS,
    WRITE_WITH_TORCH,
)
from tracehouse.frozen import Frozen


class Kind(StrEnum):
    """The stable name of a kind of finding."""

    ALREADY_SCRIPTED = "already-scripted"
    AMBIENT_READ = "ambient-read"
    AMBIENT_READ_SEEN = "ambient-read-seen"
    ANSWERS_WHERE_EAGER_RAISES = "answers-where-eager-raises"
    AUTOGRAD_FUNCTION_INLINED = "autograd-function-inlined"
    BAKED_SIZE = "baked-size"
    BAKED_VALUE = "baked-value"
    BUCKET_LEFT_OUT = "bucket-left-out"
    BUCKETS_NOT_NEEDED = "buckets-not-needed"
    CHANGES_ITS_INPUT = "changes-its-input"
    CHECK_INPUT_REFUSED = "check-input-refused"
    CONTRACT_KEPT = "contract-kept"
    CONTRACT_REFUTED = "contract-refuted"
    DEPRECATED_OPTION = "deprecated-option"
    DICT_ORDER_FIXED = "dict-order-fixed"
    DRAWS_RANDOM_NUMBERS = "draws-random-numbers"
    DYNAMIC_REFUSED = "dynamic-refused"
    FAST_PATHS_DIFFER = "fast-paths-differ"
    FAST_PATHS_OFF = "fast-paths-off"
    FINDINGS_UNREADABLE = "findings-unreadable"
    FRESH_INPUTS_NONE = "fresh-inputs-none"
    FRESH_INPUTS_REFUSED = "fresh-inputs-refused"
    GRADIENT_MODE_DIFFERS = "gradient-mode-differs"
    GRADIENTS_DIFFER = "gradients-differ"
    GRADIENTS_NOT_COMPARED = "gradients-not-compared"
    HIDDEN_STATE = "hidden-state"
    KEEPS_A_SIZE = "keeps-a-size"
    LAYER_FAILED = "layer-failed"
    LAYOUT_DIFFERS = "layout-differs"
    LAYOUT_NOT_COVERED = "layout-not-covered"
    MAY_DRAW = "may-draw"
    NO_EAGER_MODEL = "no-eager-model"
    NONDETERMINISTIC = "nondeterministic"
    OPTION_WITHOUT_EFFECT = "option-without-effect"
    OUTPUT_DIFFERS = "output-differs"
    OUTPUT_DIFFERS_ELSEWHERE = "output-differs-elsewhere"
    OUTPUTS_VARY = "outputs-vary"
    PROBES_LEFT_OUT = "probes-left-out"
    PROOF_VOID = "proof-void"
    PYTHON_INT_IS_64_BIT = "python-int-is-64-bit"
    RANGE_REFUSED = "range-refused"
    RANKS_NOT_COVERED = "ranks-not-covered"
    ROUNDING_DECIDES = "rounding-decides"
    ROUNDING_NOT_MEASURED = "rounding-not-measured"
    ROWS_DEPEND = "rows-depend"
    SAVED_IN_TRAIN_MODE = "saved-in-train-mode"
    SERVED_FORM_DIFFERS = "served-form-differs"
    SIZES_LEFT_OUT = "sizes-left-out"
    SIZES_NOT_COVERED = "sizes-not-covered"
    SIZES_REFUSED = "sizes-refused"
    STOCHASTIC = "stochastic"
    STUBBED_PACKAGE = "stubbed-package"
    TORCH_CHECK_ERRED = "torch-check-erred"
    TORCH_CHECK_FAILED = "torch-check-failed"
    TRACER_WARNING = "tracer-warning"
    TRAINING_MODE = "training-mode"
    UNRECORDED_WRITE = "unrecorded-write"
    WEIGHTS_KEY_CHOSEN = "weights-key-chosen"
    WEIGHTS_MISSING = "weights-missing"
    WEIGHTS_MISSING_ALLOWED = "weights-missing-allowed"
    WEIGHTS_NOT_SENT = "weights-not-sent"
    WEIGHTS_UNEXPECTED = "weights-unexpected"


# The kinds that say that the trace keeps something of its example.
BAKED = frozenset({Kind.BAKED_VALUE, Kind.BAKED_SIZE})

# The model that was traced has values that nobody sent: whoever reads about the trace reads this first.
SAID_FIRST = frozenset({Kind.WEIGHTS_NOT_SENT, Kind.WEIGHTS_MISSING})


class Weight(StrEnum):
    """What a finding does to the verdict.

    rejects: the artifact is wrong in a way that no boundary on its inputs excludes.
    restricts: the artifact is wrong outside a boundary, which the contract states and enforces.
    limits: there was no eager model to compare with, so the verdict is `self-consistent` at best.
    informs: the verdict does not depend on it.
    """

    REJECTS = "rejects"
    RESTRICTS = "restricts"
    LIMITS = "limits"
    INFORMS = "informs"


class Example(Frozen):
    """Code that leads to a finding, and the same code without the finding."""

    before: str = Field(description="Code, or a part of a trace request, that leads to a finding of this kind.")
    after: str | None = Field(None, description="The same code without the finding. Null where nothing has to change.")


class FindingKind(Frozen):
    """One entry of the catalogue: what all findings of this kind have in common."""

    kind: Kind = Field(description="The `kind` of the findings that this entry explains.")
    title: str
    meaning: str = Field(description="What is wrong, how it comes about, and what the service does about it.")
    weight: Weight = Field(
        description="Whether a finding of this kind speaks against the artifact: it `rejects` it, it `restricts` it "
        "to a part of its inputs, it `limits` the verdict to `self-consistent` because there was no eager model to "
        "compare with, or it `informs` and leaves the verdict as it is."
    )
    by_comparison: bool = Field(
        False,
        description="Whether the verdict follows from the comparison that the finding reports, and not from the "
        "finding alone. A comparison outside the contract restricts where one inside it rejects.",
    )
    remedy: str = Field(description="What to write instead, or what to do.")
    example: Example


def entry_of(kind: str) -> FindingKind | None:
    """Return the catalogue's entry for a kind, or None if this release has no such kind."""
    return CATALOGUE.get(kind)


def path_of(kind: str) -> str:
    """Return the URL path at which the service explains a kind."""
    return f"/findings/{kind}"


def speaks_against(kind: str) -> bool:
    """Whether findings of this kind reject or restrict the artifact."""
    entry = entry_of(kind)
    return entry is not None and entry.weight in (Weight.REJECTS, Weight.RESTRICTS)


def decides_alone(kind: str, weight: Weight) -> bool:
    """Whether one finding of this kind is enough for this weight, whatever the comparisons say."""
    entry = entry_of(kind)
    return entry is not None and entry.weight is weight and not entry.by_comparison


def _sentence(remedy: str) -> str:
    """Return the remedy of a finding as a sentence, for the catalogue."""
    return f"{remedy[0].upper()}{remedy[1:]}."


_RANDOMNESS = Example(
    before="return torch.nn.functional.dropout(x, 0.5)",
    after="return torch.nn.functional.dropout(x, 0.5, training=self.training)",
)

_ENTRIES = (
    # What is wrong on inputs of the example's sizes.
    FindingKind(
        kind=Kind.OUTPUT_DIFFERS,
        title="The artifact's output differs from the eager model's",
        weight=Weight.REJECTS,
        by_comparison=True,
        meaning="The eager model and the artifact were called with the same inputs, which the contract accepts, and an "
        "output differs by more than check.check_tolerance, or by more than the eager model's own rounding. The "
        "finding names the output, the position, and both values.",
        remedy=_sentence(FIND_THE_CAUSE),
        example=Example(
            before="if x.sum() > 0:\n    return x + 1\nreturn x - 1",
            after="return torch.where(x.sum() > 0, x + 1, x - 1)",
        ),
    ),
    FindingKind(
        kind=Kind.BAKED_VALUE,
        title="The trace keeps a value that Python read out of a tensor",
        weight=Weight.REJECTS,
        meaning="A line of the model turns a tensor's value into a Python number or condition. The trace records only "
        "what followed from the example's value: the branch that was taken, the number of loop passes, the constant. "
        "For other values the artifact answers wrongly. Where the check could not find out whether the line matters, "
        "it counts as if it did (effect `unknown`).",
        remedy=_sentence(REPLACE_VALUE_READ),
        example=Example(
            before="if x.mean() > 0.5:\n    x = x * 2",
            after="x = torch.where(x.mean() > 0.5, x * 2, x)",
        ),
    ),
    FindingKind(
        kind=Kind.AMBIENT_READ,
        title="The output depends on the clock, the environment or another thing outside the inputs",
        weight=Weight.REJECTS,
        meaning="The model reads something that is not among its inputs, such as the time, an environment variable, "
        "a file, or the order of a set of texts, which is another in each process, and its output changes with it. The "
        "trace keeps what was read while it was recorded.",
        remedy=_sentence(MAKE_IT_AN_INPUT),
        example=Example(
            before="def forward(self, x):\n    return x * float(os.environ['SCALE'])",
            after="def __init__(self):\n    super().__init__()\n    self.scale = float(os.environ['SCALE'])\n\n"
            "def forward(self, x):\n    return x * self.scale",
        ),
    ),
    FindingKind(
        kind=Kind.HIDDEN_STATE,
        title="The output depends on earlier calls",
        weight=Weight.REJECTS,
        meaning="The eager model answers the same inputs differently after another call, or each call changes "
        "something that the next one reads, such as a counter, a cache or a buffer. An artifact is called by many "
        "clients, so what one client sent would change what another one gets.",
        remedy=_sentence(PASS_STATE),
        example=Example(
            before="def forward(self, x):\n    self.total += x.sum()\n    return self.total",
            after="def forward(self, x, total):\n    total = total + x.sum()\n    return total",
        ),
    ),
    FindingKind(
        kind=Kind.UNRECORDED_WRITE,
        title="The model changes a tensor in a way that a trace does not record",
        weight=Weight.REJECTS,
        meaning="A trace records the operators of one thread, by the tensors that they take. The model writes into a "
        "tensor's memory through `tensor.data`, a storage or NumPy's view, or calls Python for each element, or "
        "computes in another thread. The artifact leaves that out, and so is wrong where it changes a value.",
        remedy=_sentence(WRITE_WITH_TORCH),
        example=Example(
            before="x.data.masked_fill_(x.data == -999, 0)",
            after="x = x.masked_fill(x == -999, 0)",
        ),
    ),
    FindingKind(
        kind=Kind.NONDETERMINISTIC,
        title="The model draws random numbers in Python or NumPy, and its answer depends on them",
        weight=Weight.REJECTS,
        meaning="With other numbers from Python's `random` or from NumPy, the eager model gives another output for the "
        "same inputs. A trace does not record such draws: it keeps the numbers that were drawn when it was made. "
        "Numbers that torch draws are recorded, see `stochastic`.",
        remedy=_sentence(DRAW_WITH_TORCH),
        example=Example(
            before="if random.random() < 0.1:\n    x = torch.zeros_like(x)",
            after="def forward(self, x):\n    return x * (torch.rand(()) >= 0.1)",
        ),
    ),
    FindingKind(
        kind=Kind.WEIGHTS_MISSING,
        title="Parameters or buffers got no value from the weights that were sent",
        weight=Weight.REJECTS,
        meaning="The model has parameters or buffers whose names are not in the file of weights. They keep the values "
        "that the source gives them, which are often random. So the eager model and the artifact agree, and both may "
        "be wrong for every input. The finding names the first of them. With weights.strict, which is on by default, "
        "such a request fails as `weights-mismatch` instead.",
        remedy="Send the weights of this very model. If only what the names begin with differs, say it in "
        "weights.rename; if the file has several state dicts, choose one by weights.key. If the values of the source "
        "are right, name those parameters and buffers in weights.allow_missing.",
        example=Example(
            before='"weights": {"file": "net.pt", "strict": false}',
            after='"weights": {"file": "net.pt", "rename": {"module.": ""}}',
        ),
    ),
    FindingKind(
        kind=Kind.SERVED_FORM_DIFFERS,
        title="The frozen or optimized form differs from the eager model, and the plain trace does not",
        weight=Weight.REJECTS,
        by_comparison=True,
        meaning="The archive as it was traced agrees with the eager model. What torch.jit.freeze or "
        "torch.jit.optimize_for_inference makes of it, and what would be served, does not.",
        remedy=_sentence(LEAVE_FORM_OUT.format(option="the option that the finding names")),
        example=Example(before='"options": {"optimize_for_inference": true}', after='"options": {"freeze": true}'),
    ),
    FindingKind(
        kind=Kind.GRADIENTS_DIFFER,
        title="The artifact's gradients differ from the eager model's",
        weight=Weight.REJECTS,
        by_comparison=True,
        meaning="The request asked for `check.gradients`. The outputs agree, but the gradients of an input or a "
        "parameter do not, or only one of the two can be differentiated.",
        remedy=_sentence(KEEP_GRADIENTS),
        example=Example(
            before="with torch.no_grad():\n    scale = x.abs().amax()",
            after="scale = x.abs().amax().detach()",
        ),
    ),
    FindingKind(
        kind=Kind.FRESH_INPUTS_REFUSED,
        title="The eager model raises on every input except the submitted ones",
        weight=Weight.REJECTS,
        meaning="The service draws inputs of its own to compare the eager model with the artifact. The model raised on "
        "all of them, so nothing was compared except inputs that the trace may have been made for.",
        remedy=_sentence(VARY_INPUTS),
        example=Example(
            before="if not torch.equal(x, self.expected):\n    raise ValueError('unexpected input')",
            after="if x.shape != self.expected.shape:\n    raise ValueError('unexpected shape')",
        ),
    ),
    FindingKind(
        kind=Kind.FAST_PATHS_DIFFER,
        title="The model answers otherwise with torch's fast paths than without them",
        weight=Weight.REJECTS,
        meaning="With its fast path, nn.TransformerEncoder looks at the values of its padding mask. So the model was "
        "traced with fast paths off, as `fast-paths-off` says. Then it gives another answer than with them, and not "
        "only at padded positions: for instance, because it takes the mean over all positions, padded ones too, or "
        "because the fast path leaves out code of a changed layer. Which of the two is meant, nobody but you knows.",
        remedy=_sentence(BUILD_WITHOUT_NESTED_TENSORS),
        example=Example(
            before="y = self.encoder(x, src_key_padding_mask=padding)\nreturn y.mean(1)",
            after="y = self.encoder(x, src_key_padding_mask=padding)\nkeep = ~padding.unsqueeze(-1)\n"
            "return (y * keep).sum(1) / keep.sum(1)",
        ),
    ),
    # What is wrong at other sizes.
    FindingKind(
        kind=Kind.BAKED_SIZE,
        title="The trace keeps a size of the example",
        weight=Weight.RESTRICTS,
        meaning="At another size the eager model answers, and the artifact raises or answers differently: a size "
        "became a Python number or decided a branch or a loop. The contract fixes that dim, and the service refuses "
        "other sizes.",
        remedy=_sentence(f"{KEEP_SIZE_DYNAMIC}; {LIST_BUCKETS}"),
        example=Example(
            before="positions = torch.arange(int(x.shape[1]))\nreturn x + positions",
            after="positions = torch.arange(x.shape[1])\nreturn x + positions",
        ),
    ),
    FindingKind(
        kind=Kind.OUTPUT_DIFFERS_ELSEWHERE,
        title="The artifact's output differs on inputs that the contract refuses",
        weight=Weight.RESTRICTS,
        by_comparison=True,
        meaning="The eager model and the artifact disagree on an input that the eager model accepts and the contract "
        "does not: another size, another structure, or another value of an argument that is no tensor. The service "
        "refuses such inputs, so nobody gets the wrong answer.",
        remedy=_sentence(FIND_THE_CAUSE),
        example=Example(
            before="def forward(self, x, scale=2.0):  # traced with scale 2.0, checked with 3.0\n    return x * scale",
            after="def forward(self, x, scale):  # a tensor\n    return x * scale",
        ),
    ),
    FindingKind(
        kind=Kind.LAYOUT_NOT_COVERED,
        title="A call was handed in whose layout the contract does not accept",
        weight=Weight.RESTRICTS,
        meaning="`tracehouse.check` got tensors that are not contiguous, or that require a gradient, and the model "
        "answers otherwise for them than for contiguous copies, or the artifact does. It traces and compares on such "
        "copies, because a service gets nothing else. So the artifact is right for contiguous inputs without "
        "gradients, and wrong for inputs like those that were handed in.",
        remedy=_sentence(PASS_CONTIGUOUS),
        example=Example(
            before="if x.is_contiguous():\n    return x * 2\nreturn x * 3",
            after="x = x.contiguous()\nreturn x * 2",
        ),
    ),
    FindingKind(
        kind=Kind.OUTPUTS_VARY,
        title="The model returns other outputs at some sizes",
        weight=Weight.INFORMS,
        meaning="At a size that was tried, the eager model and the artifact agree, but return other outputs than on "
        "the example: another number of them, another rank or another datatype. The contract describes one set of "
        "outputs, so it leaves those sizes out.",
        remedy=_sentence(RETURN_SAME_OUTPUTS),
        example=Example(
            before="return x.squeeze()  # drops the batch when it is 1",
            after="return x.squeeze(-1)",
        ),
    ),
    FindingKind(
        kind=Kind.KEEPS_A_SIZE,
        title="The model keeps something that fits only the sizes of its first call",
        weight=Weight.INFORMS,
        meaning="The eager model computes something once, from the sizes that it is first called with, and uses it "
        "for all later calls. Which output is right at another size then depends on the order of the calls, so the "
        "contract accepts the example's sizes alone.",
        remedy=_sentence(RENEW_WHAT_IS_KEPT),
        example=Example(
            before="if self.mask is None:\n    self.mask = torch.ones(x.shape[1])",
            after="mask = torch.ones(x.shape[1])",
        ),
    ),
    FindingKind(
        kind=Kind.PROOF_VOID,
        title="A call contradicts what was proven, so the proof is not used",
        weight=Weight.INFORMS,
        meaning="The prove layer took a region of sizes as proven, and a call with sizes inside it differs. Nothing is "
        "claimed for that region; only sizes that were called and agree are in the contract. This is a defect of the "
        "check or a model that the check misreads.",
        remedy="Nothing has to change in the model. Please report it with the model's source.",
        example=Example(before="return torch.relu(x)  # proven for batch 1 to 256, and a call with batch 7 differs"),
    ),
    # What cannot be compared, or is not the same everywhere.
    FindingKind(
        kind=Kind.ANSWERS_WHERE_EAGER_RAISES,
        title="The artifact answers inputs on which the eager model raises",
        weight=Weight.INFORMS,
        meaning="A check in the model's Python code, such as an assert or a raise, is not in the trace. The contract "
        "accepts the inputs, the eager model raises, and the artifact returns numbers without a warning.",
        remedy=_sentence(CHECK_BEFORE_ASKING),
        example=Example(
            before="if (x < 0).any():\n    raise ValueError('no negative numbers')\nreturn x.sqrt()",
            after="return x.sqrt(), (x >= 0).all()",
        ),
    ),
    FindingKind(
        kind=Kind.FAST_PATHS_OFF,
        title="The model was traced and compared with torch's fast paths off",
        weight=Weight.INFORMS,
        meaning="With its fast path, nn.TransformerEncoder looks at the values of its padding mask: if all padding is "
        "at the end of its row, it computes with nested tensors and puts zeros there. A trace would keep one way. "
        "So the model was traced after torch.backends.mha.set_fastpath_enabled(False), and compared with itself so. "
        "The contract says it as `without_fast_paths`. With fast paths, the eager model may give other numbers at "
        "padded positions and in rows that are all padding. That it gives the same everywhere else was tried on a few "
        "inputs, and if it does not, the finding `fast-paths-differ` rejects the artifact.",
        remedy=_sentence(COMPARE_WITHOUT_FAST_PATHS),
        example=Example(
            before="self.encoder = nn.TransformerEncoder(layer, 2)",
            after="self.encoder = nn.TransformerEncoder(layer, 2, enable_nested_tensor=False)",
        ),
    ),
    FindingKind(
        kind=Kind.LAYOUT_DIFFERS,
        title="Answers follow the memory layout of the inputs",
        weight=Weight.INFORMS,
        meaning="With the same values in another memory layout (other strides, channels last, a part of a larger "
        "tensor, an expanded one), the archive's output differs from the eager model's, or the eager model's from its "
        "own on contiguous tensors. A trace keeps the branch for contiguous ones, so every contract is for contiguous "
        "tensors. The service always passes those, so its answers are right; this concerns those who load the archive "
        "themselves.",
        remedy=_sentence(PASS_CONTIGUOUS),
        example=Example(before="archive(x.t())", after="archive(x.t().contiguous())"),
    ),
    FindingKind(
        kind=Kind.GRADIENT_MODE_DIFFERS,
        title="Answers are others while gradients are enabled",
        weight=Weight.INFORMS,
        meaning="While gradients are enabled, or with inputs that require a gradient, the archive's output differs "
        "from the eager model's, or the eager model's from its own without gradients. Every contract is for inference "
        "without gradients, as the service runs it, so its answers are right; this concerns those who load the archive "
        "themselves.",
        remedy=_sentence(PASS_CONTIGUOUS),
        example=Example(before="if x.requires_grad:\n    x = x * 2", after="x = x * 2"),
    ),
    FindingKind(
        kind=Kind.CHANGES_ITS_INPUT,
        title="The model writes into its inputs",
        weight=Weight.INFORMS,
        meaning="The eager model changes an input tensor in place, and so does the artifact. A reply of the service "
        "holds the outputs alone, so clients do not see the change.",
        remedy="Compute the result in a new tensor. If the changed input is wanted, return it as an output.",
        example=Example(before="x += 1\nreturn x.sum()", after="y = x + 1\nreturn y.sum(), y"),
    ),
    FindingKind(
        kind=Kind.ROWS_DEPEND,
        title="Rows of a batch influence one another",
        weight=Weight.INFORMS,
        meaning="The same rows get another answer in a larger batch than alone, or there are no sizes with which to "
        "try it. The service does not answer several requests in one call of this artifact.",
        remedy="Nothing has to change for right answers. To allow batching, compute each row from that row alone.",
        example=Example(before="return x - x.mean(dim=0)", after="return x - x.mean(dim=1, keepdim=True)"),
    ),
    # Random numbers, and the mode of the model.
    FindingKind(
        kind=Kind.STOCHASTIC,
        title="The answer is random, because the model draws random numbers",
        weight=Weight.INFORMS,
        meaning="The same inputs get another answer each time. The artifact draws the same numbers in the same order "
        "as the eager model: both were compared under equal states of torch's generators, under several seeds. "
        "A dropout that is left on by mistake shows in this way too.",
        remedy=_sentence(SEND_A_SEED),
        example=Example(
            before="def forward(self, x):\n    return F.dropout(x, 0.5, training=True)",
            after="def forward(self, x):\n    return F.dropout(x, 0.5, training=self.training)",
        ),
    ),
    FindingKind(
        kind=Kind.DRAWS_RANDOM_NUMBERS,
        title="The model draws random numbers that no compared output shows",
        weight=Weight.INFORMS,
        meaning="Random numbers were drawn during a call. The outputs that were compared do not change with them; "
        "other inputs may show them.",
        remedy=_sentence(CONTROL_RANDOMNESS),
        example=_RANDOMNESS,
    ),
    FindingKind(
        kind=Kind.MAY_DRAW,
        title="A branch that was never taken draws random numbers",
        weight=Weight.INFORMS,
        meaning="The scripted graph has an operator that draws random numbers in a branch that no call took. Inputs "
        "that take that branch get another answer each time.",
        remedy=_sentence(CONTROL_RANDOMNESS),
        example=Example(
            before="if bool(x.sum() > 1000):\n    x = x + torch.rand_like(x)",
            after="def forward(self, x, noise):\n    return torch.where(x.sum() > 1000, x + noise, x)",
        ),
    ),
    FindingKind(
        kind=Kind.TRAINING_MODE,
        title="A module of the artifact is in train mode",
        weight=Weight.INFORMS,
        meaning="A dropout draws random numbers at each call, or a batch norm normalises by the batch at hand and "
        "changes its running statistics. A trace keeps the mode that the model had when it was recorded.",
        remedy=_sentence(USE_EVAL_MODE),
        example=Example(before='"training": true', after='"training": false'),
    ),
    FindingKind(
        kind=Kind.AMBIENT_READ_SEEN,
        title="The model reads something outside its inputs, and no output was seen to depend on it",
        weight=Weight.INFORMS,
        meaning="The model reads the clock, the environment, a file or the like. No output changed when the value was "
        "changed, or it could not be changed.",
        remedy=f"{_sentence(MAKE_IT_AN_INPUT)} If it does not matter, leave it.",
        example=Example(before="started = time.monotonic()\ny = self.net(x)", after="y = self.net(x)"),
    ),
    FindingKind(
        kind=Kind.PYTHON_INT_IS_64_BIT,
        title="A whole number can overflow in the scripted model, where Python's cannot",
        weight=Weight.INFORMS,
        meaning="The model computes with a whole number that it reads out of a tensor. In Python such a number has no "
        "bound; in TorchScript it has 64 bits, and beyond 2**63 it wraps around without an error. Whether a value gets "
        "there is not known.",
        remedy="Keep such numbers below 2**63, for example by taking the remainder before multiplying, or compute with "
        "tensors, which wrap around in the eager model as well.",
        example=Example(
            before="key = int(x[0]) * 6364136223846793005 % 1000",
            after="key = (x[0] * 6364136223846793005) % 1000",
        ),
    ),
    # What was not tried, or could not be.
    FindingKind(
        kind=Kind.CHECK_INPUT_REFUSED,
        title="The eager model does not answer one of the check inputs",
        weight=Weight.INFORMS,
        meaning="The model raises on this check input, or takes too long for it, so nothing about the trace follows "
        "from it.",
        remedy=_sentence(FIX_CHECK_INPUT),
        example=Example(
            before='"example_inputs": [{"datatype": "FP32", "shape": [1, 3], "random": {}}],\n'
            '"check": {"check_inputs": [[{"datatype": "FP32", "shape": [1, 7], "random": {}}]]}',
            after='"check": {"check_inputs": [[{"datatype": "FP32", "shape": [4, 3], "random": {}}]]}',
        ),
    ),
    FindingKind(
        kind=Kind.ROUNDING_NOT_MEASURED,
        title="The eager model's rounding was not measured",
        weight=Weight.INFORMS,
        meaning="The artifact's output is not equal to the eager model's bit by bit. The eager model's answer in "
        "float64 would show whether that is rounding, but there is none: in float64 the model raises, takes too long, "
        "is too large, or returns other outputs. So the relative tolerance of 1e-5 decided, and it may take a small "
        "error for rounding.",
        remedy="Make new tensors with the dtype of an input, or give check.check_tolerance.",
        example=Example(
            before="total = torch.from_numpy(weights.astype('float32')) @ x",
            after="total = torch.as_tensor(weights, dtype=x.dtype) @ x",
        ),
    ),
    FindingKind(
        kind=Kind.ROUNDING_DECIDES,
        title="The answers consist of rounding on some inputs",
        weight=Weight.INFORMS,
        meaning="On such a probe the artifact answers otherwise than the eager model. The answers of both move as far "
        "if only the last bits of the inputs change, and Python reads no value on the way: the model divides by a "
        "number that is zero there, for example. So neither answer is better than the other one. On the example, the "
        "eager model answers steadily.",
        remedy="If such inputs come, let the model answer them steadily: bound what it divides by from below.",
        example=Example(
            before="x = (x - x.mean()) / (x.std() + 1e-6)", after="x = (x - x.mean()) / x.std().clamp_min(1e-3)"
        ),
    ),
    FindingKind(
        kind=Kind.FRESH_INPUTS_NONE,
        title="The inputs hold no values that could be varied",
        weight=Weight.INFORMS,
        meaning="The method takes no tensors, or only empty ones. The artifact was compared with the eager model on "
        "the example alone.",
        remedy="Send an example whose tensors are not empty, if the method takes any.",
        example=Example(before='{"datatype": "FP32", "shape": [0, 3], "data": []}'),
    ),
    FindingKind(
        kind=Kind.DYNAMIC_REFUSED,
        title="A size was declared to vary, and the eager model accepts only the example's",
        weight=Weight.INFORMS,
        meaning="`dynamic` declares that a dim varies. The eager model raised at every other size that was tried, so "
        "the contract accepts the example's size alone.",
        remedy=_sentence(LEAVE_SYMBOL_OUT.format(symbol="the symbol")),
        example=Example(
            before='"dynamic": {"ids": {"1": "seq"}}',
            after='"dynamic": {"ids": {"1": "seq"}, "mask": {"1": "seq"}}',
        ),
    ),
    FindingKind(
        kind=Kind.DICT_ORDER_FIXED,
        title="The keys of a dict must come in the order of the example",
        weight=Weight.INFORMS,
        meaning="The eager model's answer depends on the order of a dict's keys, or that could not be ruled out. The "
        "artifact has the order of the example. So the contract's `key_orders` name the dict, and a request with its "
        "keys in another order is refused. The keys of all other dicts may come in any order.",
        remedy=_sentence(READ_BY_KEY),
        example=Example(
            before="first, second = batch.values()", after='first, second = batch["first"], batch["second"]'
        ),
    ),
    FindingKind(
        kind=Kind.SIZES_REFUSED,
        title="The eager model raises at every size that was tried of a claimed region",
        weight=Weight.INFORMS,
        meaning="The check claimed a region of sizes. When the claim was verified, no call there could be compared, "
        "so the region is not in the contract.",
        remedy="Nothing has to change, unless the model is meant to accept these sizes: then see the error that the "
        "finding quotes.",
        example=Example(before="assert x.shape[0] == 4"),
    ),
    FindingKind(
        kind=Kind.RANGE_REFUSED,
        title="The eager model raises at the end of a range of integers that the check claimed",
        weight=Weight.INFORMS,
        meaning="The check claimed that an integer input may be anything in a range, such as the ids of a vocabulary. "
        "The eager model raised at one of its ends, so the range is not in the contract.",
        remedy="Nothing has to change. If the model depends on something other than its inputs, mend that first.",
        example=Example(before="return self.embedding(ids)  # raises for some id of the range"),
    ),
    FindingKind(
        kind=Kind.SIZES_NOT_COVERED,
        title="The contract does not accept all sizes that the request wants",
        weight=Weight.RESTRICTS,
        meaning="The request lists sizes in `sizes`. For some of them the artifact is not known to be right: the model "
        "refuses them, the trace is wrong there, or they were neither proven nor tried. A closed contract refuses "
        "them. The finding has how many of how many sizes are covered, the first that is missing, and why. With "
        "buckets, the artifacts of all buckets count together. Or the request has `samples`, and the contract does "
        "not accept one of them; the finding says which, and why.",
        remedy=_sentence(COVER_SIZES),
        example=Example(
            before='"sizes": {"seq": {"low": 1, "high": 100000}}', after='"sizes": {"seq": {"low": 1, "high": 512}}'
        ),
    ),
    FindingKind(
        kind=Kind.RANKS_NOT_COVERED,
        title="The contract does not accept the ranks of a check input or sample",
        weight=Weight.INFORMS,
        meaning="A check input or a sample has a tensor with another number of dims than the example. A trace records "
        "the operators of one rank. So another rank is accepted only if a trace of that input has the same graph, and "
        "the whole check finds nothing wrong there. The finding says what stood against it. Such inputs are refused.",
        remedy=_sentence(TRACE_ANOTHER_RANK),
        example=Example(
            before="nn.Conv2d(3, 8, 3)  # the example has 4 dims, a sample has 3: a trace of it adds and drops a batch",
            after="nn.Linear(3, 8)  # the same operator for every rank",
        ),
    ),
    FindingKind(
        kind=Kind.CONTRACT_KEPT,
        title="A further check did not widen the contract",
        weight=Weight.INFORMS,
        meaning="The check went on with the same archive and a larger budget. It found nothing to add to the contract "
        "before, or nothing that can be stated together with it, so that contract stays, and no version was made.",
        remedy="Nothing has to change. Declare in `dynamic` and `sizes` what you need, if the contract lacks it.",
        example=Example(before='"check": {"budget": "normal"}', after='"check": {"budget": "deep"}'),
    ),
    FindingKind(
        kind=Kind.CONTRACT_REFUTED,
        title="A further check found a wrong answer that the contract before promised to be right",
        weight=Weight.INFORMS,
        meaning="The check went on with the same archive and a larger budget. It found inputs that the contract before "
        "accepts, and that the archive answers otherwise than the eager model. So the artifacts with such a contract "
        "are withdrawn, and `/infer` refuses them as `artifact-withdrawn`. This contract leaves the inputs out.",
        remedy="Use the version of this check, or change the model as the other findings say and trace it again.",
        example=Example(before='"check": {"budget": "normal"}', after='"check": {"budget": "deep"}'),
    ),
    FindingKind(
        kind=Kind.SIZES_LEFT_OUT,
        title="Some sizes were not verified within the time",
        weight=Weight.INFORMS,
        meaning="The check tried or proved these sizes, and the time for verifying them ran out before their turn.",
        remedy="Set check.budget to deep, or go on with the same archive: `POST /artifacts/{digest}/check`.",
        example=Example(before='"check": {"budget": "quick"}', after='"check": {"budget": "deep"}'),
    ),
    FindingKind(
        kind=Kind.PROBES_LEFT_OUT,
        title="Some probes were not tried",
        weight=Weight.INFORMS,
        meaning="The time for probes ran out, or the eager model took far longer on some of them than on the example. "
        "The finding lists those that were left out.",
        remedy="Set check.budget to deep, or send inputs that matter as check inputs: those are always compared.",
        example=Example(before='"check": {"budget": "quick"}', after='"check": {"budget": "deep"}'),
    ),
    FindingKind(
        kind=Kind.GRADIENTS_NOT_COMPARED,
        title="The gradients were asked for and could not be compared",
        weight=Weight.INFORMS,
        meaning="The request has `check.gradients`, and the finding says why nothing is known about the gradients: for "
        "example because the model draws random numbers, or because the time ran out.",
        remedy="Remove the reason that the finding gives, or leave out check.gradients.",
        example=Example(before='"check": {"gradients": true}', after='"check": {"gradients": false}'),
    ),
    FindingKind(
        kind=Kind.LAYER_FAILED,
        title="A layer of the check stopped with an error",
        weight=Weight.INFORMS,
        meaning="The model's code or torch raised where the check did not expect it. What that layer would have found "
        "is not known; the other layers and the verification ran.",
        remedy="Read the error that the finding quotes. If the model is not at fault, please report it.",
        example=Example(
            before="class Net(torch.nn.Module):\n    def __deepcopy__(self, memo):\n        raise TypeError"
        ),
    ),
    FindingKind(
        kind=Kind.FINDINGS_UNREADABLE,
        title="The stored findings cannot be read",
        weight=Weight.INFORMS,
        meaning="The trace request kept findings in a form that this release cannot read. The verdict, the contract "
        "and the artifact are not affected.",
        remedy='Submit the same request again with "force": true.',
        example=Example(before='"model": "net"', after='"model": "net", "force": true'),
    ),
    # What the submission itself leads to.
    FindingKind(
        kind=Kind.WEIGHTS_NOT_SENT,
        title="No weights were sent",
        weight=Weight.INFORMS,
        meaning="The request has no `weights`. The model has the values that its source gives it: often random ones, "
        "drawn from options.seed. The artifact was compared with a model that has the same values.",
        remedy=_sentence(SEND_WEIGHTS),
        example=Example(before='"source": {"file": "net.py"}', after='"weights": {"file": "net.safetensors"}'),
    ),
    FindingKind(
        kind=Kind.WEIGHTS_MISSING_ALLOWED,
        title="Parameters or buffers got no value from the weights, and the request allows it",
        weight=Weight.INFORMS,
        meaning="These parameters and buffers are named in weights.allow_missing. They have the values that the source "
        "gives them.",
        remedy="Nothing has to change, if the source computes these values as training had them.",
        example=Example(before='"weights": {"file": "net.pt", "allow_missing": ["*.relative_position_index"]}'),
    ),
    FindingKind(
        kind=Kind.WEIGHTS_UNEXPECTED,
        title="Some of the weights that were sent are not used",
        weight=Weight.INFORMS,
        meaning="The file has names that the model does not have, and weights.strict is false. The finding names the "
        "first of them.",
        remedy=_sentence(LEAVE_WEIGHTS_OUT),
        example=Example(before='"weights": {"file": "net.pt", "strict": false}'),
    ),
    FindingKind(
        kind=Kind.WEIGHTS_KEY_CHOSEN,
        title="The weights are a part of their file",
        weight=Weight.INFORMS,
        meaning="The file is no state dict, but has one under a usual name, such as `state_dict` or `model`, and the "
        "request does not say which to take.",
        remedy=_sentence(NAME_STATE_DICT),
        example=Example(
            before='"weights": {"file": "net.pt"}', after='"weights": {"file": "net.pt", "key": "state_dict"}'
        ),
    ),
    FindingKind(
        kind=Kind.NO_EAGER_MODEL,
        title="An archive was uploaded, so there is no eager model to compare it with",
        weight=Weight.LIMITS,
        meaning="The archive was compared with itself in another process and in the form that is served. That shows "
        "whether it answers the same each time. It does not show whether it is right for the model it was made from. "
        "So the verdict is `self-consistent` at best.",
        remedy="Submit the model's source instead of the archive.",
        example=Example(
            before='"source": {"archive": {"file": "net.pt"}}',
            after='"source": {"file": "net.py", "entrypoint": "net:Net"}',
        ),
    ),
    FindingKind(
        kind=Kind.SAVED_IN_TRAIN_MODE,
        title="The uploaded archive was saved in train mode",
        weight=Weight.INFORMS,
        meaning="The archive is served as it was uploaded. Its dropouts and batch norms behave as in training.",
        remedy="Call eval() on the model before torch.jit.save.",
        example=Example(
            before='torch.jit.script(net).save("net.pt")', after='torch.jit.script(net.eval()).save("net.pt")'
        ),
    ),
    FindingKind(
        kind=Kind.ALREADY_SCRIPTED,
        title="The entrypoint is a ScriptModule already, and is kept as it is",
        weight=Weight.LIMITS,
        meaning="torch.jit.trace and torch.jit.script return a ScriptModule unchanged. So no new trace was recorded, "
        "and the module was compared with itself. That does not show whether it is right for the Python model that it "
        "was made from, and the verdict is `self-consistent` at best.",
        remedy="To have it compared with the Python model, let the entrypoint be the nn.Module itself.",
        example=Example(before="net = torch.jit.script(Net())", after="net = Net()"),
    ),
    FindingKind(
        kind=Kind.AUTOGRAD_FUNCTION_INLINED,
        title="The trace has the operators of a custom autograd function",
        weight=Weight.INFORMS,
        meaning="An archive cannot hold a torch.autograd.Function, so the operators that its forward runs were "
        "recorded in its place. They are checked like all others: a branch inside forward is found too. The backward "
        "is not in the artifact. Its gradients are those that torch has for the recorded operators, and "
        "`check.gradients` compares them with the eager model's.",
        remedy=_sentence(REPLACE_BACKWARD),
        example=Example(
            before="class Round(torch.autograd.Function):\n    @staticmethod\n    def forward(ctx, y):\n"
            "        return y.round()\n\n    @staticmethod\n    def backward(ctx, gradient):\n"
            "        return gradient\n\nreturn Round.apply(y)",
            after="return y + (y.round() - y).detach()",
        ),
    ),
    FindingKind(
        kind=Kind.DEPRECATED_OPTION,
        title="An option was given that torch ignores and will remove",
        weight=Weight.INFORMS,
        meaning="torch accepts the option, warns that it is deprecated, and does nothing with it.",
        remedy="Leave out the option that the finding names.",
        example=Example(before='"options": {"optimize": true}', after='"options": {}'),
    ),
    FindingKind(
        kind=Kind.OPTION_WITHOUT_EFFECT,
        title="An option was given that has no effect",
        weight=Weight.INFORMS,
        meaning="The option belongs to torch.jit.trace, and the request has `mode` script, so nothing is traced. Or it "
        "names weights that there are not: a pattern of weights.allow_missing that fits nothing that is missing, or a "
        "beginning in weights.rename that no name has.",
        remedy="Leave out the option that the finding names, or let `mode` be trace if the option is one of tracing.",
        example=Example(before='"mode": "script", "options": {"strict": false}', after='"mode": "script"'),
    ),
    FindingKind(
        kind=Kind.BUCKET_LEFT_OUT,
        title="There is no artifact for one of the requested bucket sizes",
        weight=Weight.INFORMS,
        meaning="`buckets` asks for one artifact for each size. The one for this size could not be made or was "
        "rejected, so the service refuses requests of this size.",
        remedy="Leave that size out of `buckets`, or change the model so that it can be traced with it.",
        example=Example(before='"buckets": {"seq": [16, 32, 100000]}', after='"buckets": {"seq": [16, 32]}'),
    ),
    FindingKind(
        kind=Kind.BUCKETS_NOT_NEEDED,
        title="One artifact accepts all requested bucket sizes",
        weight=Weight.INFORMS,
        meaning="The trace is right for every size that `buckets` lists, so one artifact was made for all of them.",
        remedy="Leave out `buckets`.",
        example=Example(before='"buckets": {"seq": [16, 32]}', after='"dynamic": {"ids": {"1": "seq"}}'),
    ),
    # What torch says.
    FindingKind(
        kind=Kind.TRACER_WARNING,
        title="torch warned while it traced",
        weight=Weight.INFORMS,
        meaning="A TracerWarning, with the line that caused it. Its `effect` says whether the artifact is wrong "
        "because of it: `harmless`, `harmful` or `unknown`, and `reason` says how that is known. Where it is harmful, "
        "a baked-value or baked-size finding of the same line decides the verdict.",
        remedy="If the effect is harmful or unknown, replace the line as the finding says.",
        example=Example(
            before="n = int(mask.sum())\nreturn x[:n]",
            after="keep = torch.arange(x.shape[0]) < mask.sum()\nreturn x * keep.unsqueeze(-1)",
        ),
    ),
    FindingKind(
        kind=Kind.TORCH_CHECK_FAILED,
        title="torch's own check refuses the trace",
        weight=Weight.INFORMS,
        meaning="torch.jit.trace traces the model twice and compares the graphs and outputs. It found a difference. "
        "Its text is kept in the trace check; the verdict comes from the service's own comparisons.",
        remedy="See the other findings of the same method. If torch names nondeterministic nodes, let `training` be "
        "false.",
        example=_RANDOMNESS,
    ),
    FindingKind(
        kind=Kind.STUBBED_PACKAGE,
        title="A package is missing, and a stub was imported in its place",
        weight=Weight.INFORMS,
        meaning="The request names the package in `source.stub_missing`, and it is not installed beside the service. "
        "The source could import it. A use of it, of a function that it decorates or of a class that it is a base of "
        "ends the request as `stubbed-package-used`, also if the source catches it. An attribute of a stub is "
        "never None.",
        remedy="Nothing has to change while the model does not need the package. Otherwise install it beside the "
        "service, or send a module of its name in the source.",
        example=Example(before='"stub_missing": ["wandb"]'),
    ),
    FindingKind(
        kind=Kind.TORCH_CHECK_ERRED,
        title="torch's own check could not be completed, or its result is not reliable",
        weight=Weight.INFORMS,
        meaning="The finding says why the result of torch's check is not taken at its word. The verdict comes from the "
        "service's own comparisons.",
        remedy="Nothing has to change. To skip torch's check, set check.check_trace to false.",
        example=Example(before='"check": {"check_trace": true}', after='"check": {"check_trace": false}'),
    ),
)

CATALOGUE: Mapping[str, FindingKind] = {entry.kind: entry for entry in _ENTRIES}
