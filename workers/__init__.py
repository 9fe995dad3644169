"""Workers: one trace request from claim to outcome, and the programs that run in the jail."""
