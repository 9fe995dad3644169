"""A scrape of `/metrics`, as Prometheus reads it."""

from dataclasses import dataclass
from typing import Any, Self

import httpx
from prometheus_client.openmetrics.parser import text_string_to_metric_families as parse_openmetrics
from prometheus_client.parser import text_string_to_metric_families as parse_text

Labels = dict[str, str]


@dataclass(frozen=True)
class Scrape:
    """`families` has the type of each family, and `samples` each line's name, labels and value."""

    families: dict[str, str]
    samples: list[tuple[str, Labels, float]]

    @classmethod
    def of(cls, answer: httpx.Response) -> Self:
        assert answer.status_code == 200, answer.text
        parse = parse_openmetrics if "openmetrics" in answer.headers["content-type"] else parse_text
        families = [*parse(answer.text)]
        return cls(
            {family.name: family.type for family in families},
            [(sample.name, dict(sample.labels), sample.value) for family in families for sample in family.samples],
        )

    @property
    def names(self) -> set[str]:
        return {name for name, _, _ in self.samples}

    @property
    def explained_names(self) -> set[str]:
        """The names of all samples, and in place of those of a histogram's parts, its own."""
        histograms = {name for name, kind in self.families.items() if kind == "histogram"}
        owners = {f"{name}{part}": name for name in histograms for part in ("_bucket", "_sum", "_count")}
        return {owners.get(name, name) for name in self.names}

    def all(self, name: str, **labels: Any) -> list[tuple[Labels, float]]:
        """The samples of this name that have these labels, among others."""
        wanted = {label: str(value) for label, value in labels.items()}.items()
        return [(found, value) for sample, found, value in self.samples if sample == name and wanted <= found.items()]

    def value(self, name: str, **labels: Any) -> float:
        """The value of the one sample that is meant."""
        [(_, value)] = self.all(name, **labels)
        return value

    def exchanges(self, method: str, route: str, status: int) -> float:
        """How many HTTP requests were answered so."""
        return self.value(
            "http_server_request_duration_seconds_count",
            http_request_method=method,
            http_route=route,
            http_response_status_code=status,
        )
