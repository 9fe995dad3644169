"""Findings: what a check or a verification says about a trace.

- `kinds`: the catalogue, one entry for each kind of finding; `GET /findings` serves it.
- `trace_check`: the data that an artifact keeps, from one finding to the whole trace check.
- `remedies`: the texts that say what to write instead.
- The constructors, by what they are about: `differences`, `baked`, `repeatability`, `coverage`, `submissions`,
  `torch_messages`. Each finding is made here and nowhere else.
- `duplicates`: which findings repeat a known one.

Nothing here loads torch. `tracehouse.check.findings` turns torch's objects into the arguments of these constructors.
"""
