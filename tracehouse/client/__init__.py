"""The client of a Tracehouse service: `tracehouse.Client` and `tracehouse.AsyncClient`.

`client` has both. What they ask of a service is a flow (`flow`), written once: `connection` runs it over HTTP, waiting
or in an event loop. The flows are in `requests` (trace requests), `results` (what a trace came to), `inference` and
`registry` (models). `trace` is the handle of one trace, and `notebook` shows it. Nothing of this loads torch.

`sources` makes the files of a submission: from a live module, a project, an archive or an installed package. It loads
torch only if a module or a tensor of torch is sent.
"""
