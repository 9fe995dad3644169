"""`tracehouse traces`: which trace requests there are, and what became of them."""

from datetime import UTC, datetime, timedelta
from typing import Annotated, Any

import typer

from service.cli.connection import ServiceOptions, connect
from service.cli.json_output import Json, print_json
from service.cli.option_groups import with_option_groups
from service.cli.table import print_table
from service.domain.trace_request import State
from tracehouse.client.forms import TraceRequestPage

Document = dict[str, Any]

_UNITS = ((timedelta(days=1), "d"), (timedelta(hours=1), "h"), (timedelta(minutes=1), "min"))


@with_option_groups
def traces(
    state: Annotated[State | None, typer.Option(help="Only trace requests in this state.")] = None,
    model: Annotated[str | None, typer.Option(help="Only trace requests for the model of this name.")] = None,
    limit: Annotated[int, typer.Option(metavar="N", min=1, help="How many, the newest first.")] = 20,
    as_json: Json = False,
    *,
    service: ServiceOptions,
) -> None:
    """List the newest trace requests: id, state, verdict, model and age."""
    wanted = {"state": state and state.value, "model": model}
    filters = {name: value for name, value in wanted.items() if value is not None}
    with connect(service) as client:
        listed = client.entries("/trace", "trace_requests", TraceRequestPage, filters, most=limit)
        if as_json:
            print_json({"trace_requests": listed})
        elif listed:
            now = datetime.now(UTC)
            print_table([("id", "state", "verdict", "model", "age"), *(_row(one, now) for one in listed)])
        else:
            which = " of this kind" if filters else ""
            typer.echo(f"There is no trace request{which} yet: `tracehouse trace` makes one.", err=True)


def _row(request: Document, now: datetime) -> tuple[str, ...]:
    model = request["model"]
    return (
        request["id"],
        request["state"],
        request["verdict"] or "-",
        f"{model['name']}:{model['version']}" if model else request["model_name"],
        describe_age(now - datetime.fromisoformat(request["created_at"])),
    )


def describe_age(age: timedelta) -> str:
    """Return an age in its largest whole unit, such as `3 h`."""
    for unit, name in _UNITS:
        if age >= unit:
            return f"{age // unit} {name}"
    return f"{max(0, int(age.total_seconds()))} s"
