"""The trace check: the traced model against the eager one.

`check` joins it: the comparisons with `eager` on all calls at hand, and what the layers of each `method` find. The
layers are `observe` and `flipping` (what the model reads in Python, by means of `watching`), `graphs`, `values` and
`sizing` (what becomes of other values and sizes), `prove` (all sizes at once), `inputs` and `ranges` (probes), and
`rows` (whether they see one another). `claim` says for which sizes the artifact is right, `findings` the rest.
"""
