"""Worlds for tests: scenarios as short texts, and what a watch shows of them."""

from textwrap import dedent

import msgspec

from events.messages import (
    BindRequest,
    DeletionSeen,
    ListCompleted,
    ObjectSeen,
    PodGroupPhaseRequest,
    Reply,
)
from events.normalize import JsonObject
from simulator.cluster import SimulatedCluster
from simulator.manifest_fields import section
from simulator.scenario import Scenario, parse_scenario

SECOND = 1_000_000_000


def scenario(text: str) -> Scenario:
    """A scenario without its first line."""
    return parse_scenario("scenario: a test\n" + dedent(text), "test.yaml")


def simulated(text: str) -> SimulatedCluster:
    """The world of a scenario, whose first list has been taken."""
    made = SimulatedCluster(scenario(text))
    made.poll_watch()
    return made


def bind(made: SimulatedCluster, name: str, node: str = "n1", uid: str | None = None) -> Reply:
    """Bind a pod of the namespace default; its uid is the right one unless it is given."""
    if uid is None:
        uid = str(section(made.find("Pod", "default", name) or {}, "metadata").get("uid", ""))
    return made.bind(BindRequest(7, "default", name, uid, node))


def admit(made: SimulatedCluster, name: str, phase: str = "Inqueue") -> Reply:
    """Tell a PodGroup of the namespace default its phase."""
    return made.set_phase(PodGroupPhaseRequest(8, "default", name, "", phase))


def seen(made: SimulatedCluster) -> list[str]:
    """What the watch showed since the last look, one short text each: `Pod/a Running n1`."""
    texts = []
    for one in made.poll_watch():
        if isinstance(one, ListCompleted):
            texts.append(f"listed {one.resource} {one.count}")
            continue
        assert isinstance(one, ObjectSeen | DeletionSeen)
        manifest: JsonObject = msgspec.json.decode(one.raw)
        texts.append(("" if isinstance(one, ObjectSeen) else "gone ") + short(manifest))
    return texts


def short(manifest: JsonObject) -> str:
    """Kind, name, phase, node and whether it is being deleted."""
    metadata = section(manifest, "metadata")
    parts = [
        f"{manifest['kind']}/{metadata['name']}",
        section(manifest, "status").get("phase", ""),
        section(manifest, "spec").get("nodeName", ""),
        "terminating" if "deletionTimestamp" in metadata else "",
    ]
    return " ".join(str(part) for part in parts if part)
