"""Shared GPUs filled by the default list of the openb trace, as the FGD paper counts it (`docs/reference/gpu-sharing.md`).

MUSTER_TRACES names a folder with `openb/openb_node_list_gpu_node.csv`, `openb/openb_pod_list_default.csv` and
`openb/saturation_default_seed42.csv.gz` (the published order of arrivals); without it nothing is measured.
`python -m benchmarks.sharing ORDERS` measures that many orders: the published one, then seeded shuffles.
"""

import asyncio
import gzip
import logging
import os
import random
import sys
from pathlib import Path
from typing import Final

import structlog
from msgspec import structs

from benchmarks.figures import Figure, show
from benchmarks.scale import Scale
from daemon.log.opening import open_log
from daemon.simulation import simulate
from events.duration import SECOND
from events.normalize import Json, JsonObject
from simulator.generated_workload import with_workload
from simulator.openb import PodShape, build_workload, policy_for_shares
from simulator.openb_trace import TraceText, read_nodes, read_order, read_pods
from simulator.scenario import Scenario

OFFERED_PERCENT: Final = 130
"""What the pods of an order ask for together, in percent of the GPUs."""

BEST_FIT: Final = "binpack"
FORMULA: Final = "FGD formula"
STRANDING: Final = "FGD formula, stranding.weight 1"
PUBLISHED: Final = {BEST_FIT: 93.13, FORMULA: 95.29, STRANDING: 95.29}
"""Allocated percent of the published order: best fit, and FGD."""


def policies(target: list[PodShape]) -> dict[str, JsonObject]:
    """Return the policies that are compared. They differ in the plugin that scores nodes."""
    best = policy_for_shares(target)
    tiers = best["tiers"]
    assert isinstance(tiers, list)
    others, filters = tiers
    assert isinstance(filters, dict)
    plugins = filters["plugins"]
    assert isinstance(plugins, list)
    scoring = plugins[-1]
    assert isinstance(scoring, dict)
    arguments = scoring["arguments"]
    assert isinstance(arguments, dict)
    formula: Json = {**scoring, "arguments": {**arguments, "stranding.weight": 0}}
    binpack: Json = {
        "name": "binpack",
        "arguments": {
            "binpack.weight": 1,
            "binpack.cpu": 0,
            "binpack.memory": 0,
            "binpack.resources": "muster.sh/gpu-milli",
            "binpack.resources.muster.sh/gpu-milli": 1,
        },
    }
    found: dict[str, JsonObject] = {STRANDING: best}
    for name, last in ((BEST_FIT, binpack), (FORMULA, formula)):
        found[name] = {**best, "tiers": [others, {"plugins": [*plugins[:-1], last]}]}
    return found


class Trace:
    """The files of the trace, or a part of them."""

    def __init__(self, folder: Path, percent: int) -> None:
        step = 100 // percent
        self.nodes = read_nodes(_text(folder / "openb_node_list_gpu_node.csv"))[::step]
        pods = read_pods(
            _text(folder / "openb_pod_list_default.csv"), with_times=False, with_shares=True
        )
        self.pods = {one.name: one.shape for one in list(pods)[::step]}
        self.capacity = 1000 * sum(node.cards for _, node in self.nodes)
        self._published = folder / "saturation_default_seed42.csv.gz"

    def order(self, seed: int) -> list[tuple[str, PodShape]]:
        """Return names and requests in the published order (seed 0), or shuffled and then drawn again until enough is
        asked for."""
        if not seed:
            names = read_order(_text(self._published), self.pods)
            return [(name, self.pods[source]) for name, source in names]
        draw = random.Random(seed)  # noqa: S311
        order = list(self.pods.items())
        draw.shuffle(order)
        listed, asked = list(order), sum(map(milli, self.pods.values()))
        while asked * 100 < OFFERED_PERCENT * self.capacity:
            name, shape = draw.choice(listed)
            order.append((f"{name}-again-{len(order)}", shape))
            asked += milli(shape)
        return order


def milli(shape: PodShape) -> int:
    """Return the thousandths of GPUs that a pod asks for."""
    return shape.cards * shape.gpu_milli


def _text(path: Path) -> TraceText:
    content = path.read_bytes()
    unpacked = gzip.decompress(content) if path.suffix == ".gz" else content
    return TraceText(path.name, unpacked.decode())


async def allocated_percent(trace: Trace, seed: int, policy: JsonObject) -> float:
    """Return the percentage of the thousandths of all GPUs that placed pods have in the end."""
    order = trace.order(seed)
    offered = [(index * SECOND, name, shape, None) for index, (name, shape) in enumerate(order)]
    workload = build_workload(trace.nodes, list(offered), "openb", policy, with_shares=True)
    scenario = with_workload(Scenario(name="sharing"), workload)
    log = await open_log("memory:", "write")
    done = await simulate(scenario, log, with_views=False)
    await log.close()
    pods = done.state.cluster.pods.values()
    placed = dict.fromkeys(pod.facts.name for pod in pods if pod.node)
    return sum(milli(shape) for name, shape in order if name in placed) * 100 / trace.capacity


async def measure(scale: Scale, orders: int = 1) -> list[Figure]:
    """The share of the GPUs that is allocated, by policy and order; nothing without the trace."""
    folder = Path(os.environ.get("MUSTER_TRACES") or "") / "openb"
    if not os.environ.get("MUSTER_TRACES") or not folder.is_dir():
        print("sharing: MUSTER_TRACES does not name a folder that holds openb", file=sys.stderr)
        return []
    trace = Trace(folder, scale.sharing_percent)
    first = 0 if scale.sharing_percent == 100 else 1
    figures: list[Figure] = []
    for seed in range(first, first + orders):
        order = f"shuffle {seed}" if seed else "published order"
        for name, policy in policies(list(trace.pods.values())).items():
            figure = Figure(
                benchmark="sharing",
                name=f"openb default list, {order}, GPUs allocated: {name}",
                value=await allocated_percent(trace, seed, policy),
                unit="%",
            )
            if not seed:
                figure = structs.replace(figure, bound="at least", target=PUBLISHED[name])
            figures.append(figure)
    return figures


if __name__ == "__main__":
    from benchmarks.scale import SCALES

    structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(logging.WARNING))
    show(asyncio.run(measure(SCALES["full"], int(sys.argv[1]))))
