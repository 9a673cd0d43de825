"""Write the scenario of a week of faults, and changes of its policy to ask `muster what-if` about.

python -m benchmarks.week_of_faults FOLDER [--nodes 1000] [--seed 1]

Two gangs of 128 nodes, six of 48 and sixteen of 16 run all week on four fifths of the cluster. On the rest there are batch jobs
of one to four nodes, of which a little more arrive than fit, so that a node which a gang gives up finds a taker. Nodes, cards
and links break at the rates of `faults: {preset: mid}`. The policy of the scenario restarts a gang at once, wherever there is
room.
"""

import argparse
from collections.abc import Iterator
from pathlib import Path
from typing import Final

HALF_HOURS: Final = 7 * 48
GANGS: Final = (("large", 2, 128), ("middle", 6, 48), ("small", 16, 16))
"""Name, number and nodes of the gangs that run all week, on 1,000 nodes."""
BATCH: Final = (("a", 1, 7980, 6), ("b", 1, 18420, 4), ("c", 4, 12660, 3.5), ("d", 2, 4620, 8))
"""Name, nodes, seconds and number in half an hour of the batch jobs, on 1,000 nodes."""
CHANGES: Final = {
    "return": ("30m", "0s", "0s"),
    "filter": ("0s", "60s", "2m"),
    "both": ("30m", "60s", "2m"),
}
"""Change to how long nodes are reserved, what a fault must last, and how long a node settles."""

_POLICY: Final = """\
policy:
  actions: "enqueue, reschedule, allocate, backfill"
  configurations:
    - name: reschedule
      arguments:
        mode: grace
        graceOverTime: 60s
        conditions: [GpuUnhealthy]
        reservation: {reservation}
        tolerance: {tolerance}
        settle: {settle}
  tiers:
    - plugins: [{{name: priority}}, {{name: gang}}]
    - plugins: [{{name: predicates}}]
"""
_FAULTS: Final = "faults: {{preset: mid, seed: {seed}, {after}card_condition: GpuUnhealthy}}\n"
_CLUSTER: Final = """\
cluster:
  - apiVersion: v1
    kind: Node
    metadata: {{name: "n{{i}}", labels: {{nvidia.com/gpu.product: H100}}}}
    status:
      capacity: {{cpu: "128", nvidia.com/gpu: "8"}}
      allocatable: {{cpu: "128", nvidia.com/gpu: "8"}}
      conditions: [{{type: Ready, status: "True"}}]
    count: {nodes}
steps:
  - at: 1s
    apply:
"""
_JOB: Final = """\
      - apiVersion: batch.volcano.sh/v1alpha1
        kind: Job
        metadata: {{name: "{name}-{{i}}"}}
        count: {count}
        spec:
          schedulerName: muster
          minAvailable: {nodes}
          tasks:
            - name: worker
              replicas: {nodes}
              template:
                metadata: {{annotations: {{muster.sh/stop-seconds: "20"{runs}}}}}
                spec: {{containers: [{{name: main, resources: {{limits: {{nvidia.com/gpu: "8"}}}}}}]}}
"""


def week(nodes: int, seed: int) -> Iterator[str]:
    """Yield the parts of the scenario."""
    yield f"scenario: a week of {nodes} nodes with faults at published rates\n"
    yield "until: 168h\nstart_delay: 60s\n"
    yield _FAULTS.format(seed=seed, after="after: 10m, ")
    yield _POLICY.format(reservation="0s", tolerance="0s", settle="0s")
    yield _CLUSTER.format(nodes=nodes)
    for name, count, wanted in GANGS:
        yield _JOB.format(name=name, count=count, nodes=max(1, wanted * nodes // 1000), runs="")
    for half_hour in range(HALF_HOURS):
        yield f"  - at: {half_hour * 1800 + 5}s\n    apply:\n"
        for name, wanted, seconds, many in BATCH:
            # Of 3.5 there are 3 and 4 in turns.
            count = int(many * (half_hour + 1)) - int(many * half_hour)
            yield _JOB.format(
                name=f"batch-{name}-{half_hour}",
                count=max(1, count * nodes // 1000),
                nodes=wanted,
                runs=f', muster.sh/run-seconds: "{seconds}"',
            )


def change(name: str, seed: int) -> str:
    """Return a change: another policy for the same faults."""
    reservation, tolerance, settle = CHANGES[name]
    policy = _POLICY.format(reservation=reservation, tolerance=tolerance, settle=settle)
    return policy + _FAULTS.format(seed=seed, after="") + "drop: [{kind: Node}]\n"


def main() -> None:
    """Write the files."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.week_of_faults")
    parser.add_argument("folder", type=Path)
    parser.add_argument("--nodes", type=int, default=1000)
    parser.add_argument("--seed", type=int, default=1)
    given = parser.parse_args()
    given.folder.mkdir(parents=True, exist_ok=True)
    text = "".join(week(given.nodes, given.seed))
    (given.folder / "week.yaml").write_text(text, encoding="utf-8")
    for name in CHANGES:
        text = change(name, given.seed)
        (given.folder / f"{name}.yaml").write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()
