"""The proof: the model and its artifact run on the same symbols, and so for all sizes at once.

Both take tensors without values whose sizes are symbols (`symbols`). Each value of a run gets a number by the operator
and the operands that made it (`numbering`); where both runs return the same numbers, they compute the same, for every
size that satisfies the conditions met on the way (`case`). These are evaluated at each wanted size (`domain`), and
cases are added until the wanted sizes are covered (`prove`).
"""
