"""`tracehouse check`: trace and check a model here and now, with no service."""

import typer

from service.cli.check_outputs import OutputOptions, write_failure, write_success
from service.cli.environment import settings_of
from service.cli.example_inputs import Uploads
from service.cli.exit_codes import FAILED, exit_code_of
from service.cli.local_run import run_locally
from service.cli.option_groups import with_option_groups
from service.cli.sources import SourceArguments, name_source
from service.cli.trace_options import (
    CallOptions,
    ImageOptions,
    ModelOptions,
    RequestOptions,
    SizeOptions,
    TorchOptions,
    TraceCheckOptions,
    spec_of,
)


@with_option_groups
def check(
    source: SourceArguments,
    call: CallOptions,
    model: ModelOptions,
    sizes: SizeOptions,
    trace_check: TraceCheckOptions,
    images: ImageOptions,
    options: TorchOptions,
    output: OutputOptions,
) -> None:
    """Trace a model and check the trace, here and now. No service is needed, and nothing is kept but what you ask for.

    The code runs in a jail and is verified by separate processes, as in a service. The settings of a service count:
    SANDBOX, TRACE_WALL_S, TRACE_MEMORY_MIB and so on.

    Exits with 0 if the verdict is verified or self-consistent, with 3 if it is rejected, with 4 if it is restricted,
    with 1 if the model could not be traced, and with 2 if the options cannot be used.
    """
    from service.domain.outcome import NotTraced, Succeeded

    if model.mode == "eager":
        raise typer.BadParameter("a check needs a trace: --mode is trace, script or auto", param_hint="--mode")
    uploads = Uploads()
    named = name_source(source.text, uploads)
    for line in named.left_out:
        typer.echo(line, err=True)
    spec = spec_of(named, call, model, sizes, trace_check, images, options, RequestOptions(), uploads)
    output.check([*named.paths.values(), *uploads.files.values()], spec["devices"], spec["buckets"])
    with run_locally(spec, uploads.files, settings_of(None), named.package) as run:
        match run.outcome:
            case Succeeded():
                write_success(run, run.outcome, named, output)
                code = exit_code_of(run.outcome.verdict)
            case NotTraced():
                write_failure(run, run.outcome.failure, named, output)
                code = FAILED
    if code:
        raise typer.Exit(code)
