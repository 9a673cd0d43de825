"""Convert the published files of the openb trace into a cluster and its pods. Text in, data out.

`time` plays arrivals and lifetimes as recorded. `saturate` offers one pod per cycle without departures, in the
order of a published experiment if that is given (a CSV with the columns `pod` and `source_pod`: some pods come
several times there, under other names), else in the order of the file.
"""

import csv
from collections.abc import Iterator, Mapping
from io import StringIO
from typing import Final

from msgspec import Struct

from events.duration import LONGEST_NS, SECOND
from simulator.errors import TraceError
from simulator.generated_workload import GeneratedWorkload
from simulator.openb import (
    Arrival,
    NamedNode,
    NodeShape,
    PodShape,
    build_workload,
    models_of,
    policy_for_shares,
)

_NODE_COLUMNS: Final = ("sn", "cpu_milli", "memory_mib", "gpu", "model")
_POD_COLUMNS: Final = ("name", "cpu_milli", "memory_mib", "num_gpu", "gpu_milli", "gpu_spec", "qos")
_TIME_COLUMNS: Final = ("creation_time", "deletion_time", "scheduled_time")
_ARRIVAL_COLUMNS: Final = ("pod", "source_pod")
_LARGEST: Final = 1 << 50


class TraceText(Struct, frozen=True):
    """A file of a trace: its name, for error messages, and its text."""

    source: str
    text: str


class TracePod(Struct, frozen=True):
    """A pod of the trace; times are seconds of the trace's clock, or None if not needed."""

    name: str
    shape: PodShape
    created: int = 0
    run_seconds: int | None = None


def openb_trace_workload(
    nodes: TraceText,
    pods: TraceText,
    *,
    order: str = "time",
    arrivals: TraceText | None = None,
    period_ns: int = SECOND,
    with_shares: bool = False,
) -> GeneratedWorkload:
    """Return the workload of the files; `with_shares` pods ask for thousandths of cards."""
    named = read_nodes(nodes)
    if order == "time":
        timed = list(read_pods(pods, with_times=True, with_shares=with_shares))
        start = min((pod.created for pod in timed), default=0)
        offered: list[Arrival] = [
            ((pod.created - start) * SECOND, pod.name, pod.shape, pod.run_seconds) for pod in timed
        ]
        offered.sort(key=lambda arrival: arrival[0])
    else:
        read = read_pods(pods, with_times=False, with_shares=with_shares)
        listed = {pod.name: pod for pod in read}
        names = (
            [(name, name) for name in listed] if arrivals is None else read_order(arrivals, listed)
        )
        offered = [
            (index * period_ns, name, listed[source].shape, None)
            for index, (name, source) in enumerate(names)
        ]
    if not with_shares:
        return build_workload(named, offered, nodes.source)
    target = [pod.shape for pod in read_pods(pods, with_times=False, with_shares=True)]
    return build_workload(named, offered, nodes.source, policy_for_shares(target), with_shares=True)


def read_nodes(file: TraceText) -> list[NamedNode]:
    """Return the nodes of a node list."""
    nodes: dict[str, NodeShape] = {}
    for row in _rows(file, _NODE_COLUMNS):
        name = row.text("sn")
        if name in nodes:
            raise row.error("sn", f"node {name} stands twice")
        cards = row.whole("gpu")
        model = row.text("model", required=cards > 0)
        nodes[name] = NodeShape(row.whole("cpu_milli"), row.whole("memory_mib"), cards, model)
    return list(nodes.items())


def read_pods(
    file: TraceText, *, with_times: bool, with_shares: bool = False
) -> Iterator[TracePod]:
    """Return the pods of a pod list, in its order."""
    names: dict[str, None] = {}
    for row in _rows(file, _POD_COLUMNS + (_TIME_COLUMNS if with_times else ())):
        name, cards = row.text("name"), row.whole("num_gpu")
        if name in names:
            raise row.error("name", f"pod {name} stands twice")
        names[name] = None
        milli = row.whole("gpu_milli") if with_shares and cards else 0
        if with_shares and cards and not (0 < milli < 1000 and cards == 1):
            milli = 1000
        shape = PodShape(
            cpu_milli=row.whole("cpu_milli"),
            memory_mib=row.whole("memory_mib"),
            cards=cards,
            is_share=cards == 1 and row.whole("gpu_milli") < 1000,
            models=models_of(row.text("gpu_spec", required=False)),
            qos=row.text("qos"),
            gpu_milli=milli,
        )
        if not with_times:
            yield TracePod(name, shape)
            continue
        created, deleted = row.whole("creation_time"), row.whole("deletion_time")
        # A pod that was never scheduled has no scheduling time, but a lifetime.
        started = (
            row.whole("scheduled_time") if row.text("scheduled_time", required=False) else created
        )
        if deleted < started or deleted * SECOND > LONGEST_NS:
            raise row.error("deletion_time", f"{deleted} is before the start or far away")
        yield TracePod(name, shape, created, deleted - started)


def read_order(file: TraceText, listed: Mapping[str, object]) -> list[tuple[str, str]]:
    """Return the names of the pods of an order of arrivals, each with the listed pod that it is like."""
    order = []
    for row in _rows(file, _ARRIVAL_COLUMNS):
        source = row.text("source_pod")
        if source not in listed:
            raise row.error("source_pod", f"{source} is not in the list of pods")
        order.append((row.text("pod"), source))
    return order


class _Row:
    """A line of a CSV file, with its place."""

    def __init__(self, values: dict[str, str], source: str, line: int) -> None:
        self._values = values
        self._source = source
        self._line = line

    def error(self, column: str, reason: str) -> TraceError:
        return TraceError(f"{self._source}:{self._line}: column {column}: {reason}")

    def text(self, column: str, *, required: bool = True) -> str:
        value = self._values[column]
        if required and not value:
            raise self.error(column, "is empty")
        return value

    def whole(self, column: str) -> int:
        value = self.text(column)
        if not (value.isascii() and value.isdecimal()) or len(value) > 16 or int(value) > _LARGEST:
            raise self.error(column, f"{value!r} is not a whole number in range")
        return int(value)


def _rows(file: TraceText, columns: tuple[str, ...]) -> Iterator[_Row]:
    lines = csv.reader(StringIO(file.text), strict=True)
    try:
        header = [name.strip().removeprefix("\ufeff") for name in next(lines, [])]
        for column in columns:
            if column not in header:
                raise TraceError(f"{file.source}: column {column} is missing")
        for cells in lines:
            if not cells:
                continue
            if len(cells) != len(header):
                raise TraceError(
                    f"{file.source}:{lines.line_num}: {len(cells)} values in a table of "
                    f"{len(header)} columns"
                )
            values = {name: cell.strip() for name, cell in zip(header, cells, strict=True)}
            yield _Row(values, file.source, lines.line_num)
    except csv.Error as error:
        raise TraceError(f"{file.source}:{lines.line_num}: not CSV: {error}") from error
