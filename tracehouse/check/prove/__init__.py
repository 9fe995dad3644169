"""The proof: the model and its artifact run on the same symbols, and so for all sizes at once.

This is translation validation (Pnueli, Siegel and Singerman, 1998). Both runs take tensors without values whose sizes
are symbols: torch's FakeTensors and ShapeEnv (`symbols`). Each value of a run gets a number that follows from the
operator that made it and the operands (`value_numbers`, `recorder`). If both runs return the same numbers, they compute
the same for all sizes that satisfy the conditions met on the way (`symbolic_case`). Cases are run (`prover`)
until the sizes at which their conditions hold (`case_cover`) are all that are wanted (`wanted_sizes`, `size_grid`).
"""
