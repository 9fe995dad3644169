"""Findings: what a check or a verification says about a trace.

- `kinds`: the catalogue, one entry for each kind of finding; `GET /findings` serves it.
- `finding`, `comparison`, `trace_check`: the data that an artifact keeps.
- `verdict`: the rule by which the verdict follows from comparisons and findings.
- `remedies`: the texts that say what to write instead. Those that quote the line of a value read are in
  `tracehouse.check.flip.read_remedies`.
- The constructors, by what they are about: `differences`, `baked`, `repeatability`, `coverage`, `submissions`,
  `torch_messages`. Each finding is made here and nowhere else.
- `duplicates`: which findings repeat a known one.

Nothing here loads torch. `tracehouse.check.findings` turns torch's objects into the arguments of these constructors.
"""
