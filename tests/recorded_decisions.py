"""The decisions of every scenario, as digests that stand beside the scenarios.

A change that is to keep all decisions keeps the file as it is; one that is to change some writes it again, and the review shows of which scenarios:

python -m tests.recorded_decisions write               write tests/scenarios/decisions.txt
python -m tests.recorded_decisions dump FILE           write all decisions of this checkout
python -m tests.recorded_decisions compare FILE FILE   say which scenarios differ, and in what
python -m tests.recorded_decisions traces FILE         the same as dump, of the published traces that MUSTER_TRACES names

What counts is what was decided: kind, time, pod or pod group, node, cards, devices, and in favour of which group; neither positions nor texts. Refusals
are counted apart: how often a pod group is refused says nothing about what became of it.
"""

import asyncio
import sys
from collections.abc import Iterable
from pathlib import Path
from typing import Final

import msgspec

from daemon.cli.inputs import complete
from daemon.log.memory import MemoryLog
from daemon.simulation import simulate
from events.codec import event_of
from simulator.scenario import Scenario, parse_scenario
from tests.scenarios.decided import Decided, Decisions
from tests.scenarios.play import FILES, HERE, name_of, scenario_of

RECORDED: Final = HERE / "decisions.txt"
EQUAL: Final = "equal"
HEADING: Final = "# scenario, number of decisions, their digest, number of refusals (tests/recorded_decisions.py)"
EXAMPLES: Final = Path(__file__).parents[1] / "docs/examples"
TRACES: Final = ("openb", "openb_saturate", "openb_saturate_gpuspec33")
SPOT_GPU_DAY: Final = """
scenario: a day of spot-gpu
workload: {name: spot-gpu, scale: 0.05, window: 24h, load: 1.2, spot: 0.5}
until: 24h
"""


def recorded() -> dict[str, str]:
    """Return the recorded line of each scenario."""
    lines = RECORDED.read_text(encoding="utf-8").splitlines()
    return dict(line.split(" ", 1) for line in lines if not line.startswith("#"))


async def decisions_of(scenario: Scenario) -> Decisions:
    """Play a scenario and return what was decided."""
    log, found = MemoryLog(), Decisions()
    await simulate(scenario, log, with_views=False)
    async for entries in log.read():
        for entry in entries:
            found.add(entry.record, event_of(entry.record))
    return found


def dump(scenarios: dict[str, Scenario]) -> dict[str, Decisions]:
    """Play scenarios; return what each decided."""
    return {name: asyncio.run(decisions_of(one)) for name, one in scenarios.items()}


def of_traces() -> dict[str, Scenario]:
    """Return openb by time and saturated, with and without named models, and a day of spot-gpu."""
    scenarios = {name: (EXAMPLES / f"{name}.yaml").read_text(encoding="utf-8") for name in TRACES}
    scenarios["spot_gpu_day"] = SPOT_GPU_DAY
    return {
        name: complete(parse_scenario(text, name), EXAMPLES).scenario
        for name, text in scenarios.items()
    }


def write(found: dict[str, Decisions]) -> str:
    """Return the text of the file of digests."""
    lines = [f"{name} {one.line}" for name, one in sorted(found.items())]
    return "\n".join([HEADING, *lines, ""])


def save(path: Path, found: dict[str, Decisions]) -> None:
    """Write all decisions."""
    path.write_bytes(
        msgspec.json.encode({name: (one.all, one.refusals) for name, one in found.items()})
    )


def differences(before: Path, after: Path) -> Iterable[str]:
    """Yield how the decisions of two checkouts differ, by kind of difference."""
    read = msgspec.json.Decoder(dict[str, tuple[list[Decided], int]])
    was, now = read.decode(before.read_bytes()), read.decode(after.read_bytes())
    kinds: dict[str, list[str]] = {}
    for name in sorted(was.keys() | now.keys()):
        kinds.setdefault(_difference(was.get(name), now.get(name)), []).append(name)
    for kind, names in kinds.items():
        yield f"{kind}: {len(names)}"
        if kind != EQUAL:
            yield from (f"    {name}" for name in names)
    fewer = sum(was[name][1] - now[name][1] for name in was.keys() & now.keys())
    yield f"refusals: {fewer} fewer"


def _difference(
    was: tuple[list[Decided], int] | None, now: tuple[list[Decided], int] | None
) -> str:
    if was is None or now is None:
        return "new" if was is None else "gone"
    if was[0] == now[0]:
        return EQUAL if was[1] == now[1] else "refusals only"
    if _sorted(was[0]) == _sorted(now[0]):
        return "order within a moment"
    if _sorted(was[0], votes=False) == _sorted(now[0], votes=False):
        return "votes only"
    return "placements or evictions"


def _sorted(decided: list[Decided], *, votes: bool = True) -> list[bytes]:
    return sorted(msgspec.json.encode(one) for one in decided if votes or one.kind != "enqueue")


def main(arguments: list[str]) -> None:
    """Run the command that the module's text names."""
    match arguments:
        case ["write"]:
            found = dump({name_of(path): scenario_of(path) for path in FILES})
            RECORDED.write_text(write(found), encoding="utf-8")
        case ["dump", path]:
            save(Path(path), dump({name_of(one): scenario_of(one) for one in FILES}))
        case ["traces", path]:
            save(Path(path), dump(of_traces()))
        case ["compare", before, after]:
            sys.stdout.writelines(f"{line}\n" for line in differences(Path(before), Path(after)))
        case _:
            sys.exit(__doc__)


if __name__ == "__main__":
    main(sys.argv[1:])
