"""Status updates write what is true and nothing else, they end, and the watch events of them change nothing."""

import msgspec
from hypothesis import given, settings
from hypothesis import strategies as st

from events.messages import (
    Accepted,
    Answer,
    ObjectSeen,
    OutcomeUnknown,
    PodConditionRequest,
    PodGroupConditionRequest,
    PodGroupCountsRequest,
    PodGroupPhaseRequest,
    QueueStatusRequest,
    Rejected,
    Reply,
    Request,
)
from events.normalize import JsonObject
from scheduling.conditions import condition_of
from tests.scheduling.builders import EngineHarness, gone, node, pod, raw

ROUNDS_MAX = 12
GROUPED: JsonObject = {"annotations": {"scheduling.k8s.io/group-name": "g"}}
NAMES = ("p-0", "p-1", "p-2")


class Server:
    """The objects of one gang as an API server has them; each status update comes back as a watch event."""

    def __init__(self, least: int, cpus: int) -> None:
        self.least = least
        self.pods: dict[str, tuple[str, bool]] = {}
        """Name to phase, and whether it has the node."""
        self.conditions: dict[str, list[JsonObject]] = {}
        self.status: JsonObject = {}
        self.queue: JsonObject = {}
        self.told = EngineHarness(updates_status=True)
        self.told.show_all("Node", node("n1", cpu=cpus))
        self.told.show_all("Queue", raw("Queue", "default", spec={}))
        self.told.show_all("PodGroup", self.group())
        self.told.show_the_rest()

    def group(self) -> bytes:
        return raw("PodGroup", "g", spec={"minMember": self.least}, status=self.status)

    def pod(self, name: str) -> bytes:
        phase, is_placed = self.pods[name]
        harness: JsonObject = {"conditions": list(self.conditions.get(name, []))}
        return pod(
            name, phase=phase, on="n1" if is_placed else "", metadata=GROUPED, status=harness
        )

    def move(self, name: str, engine: str) -> None:
        """A pod comes, is where it is meant to be, ends, or goes."""
        here = self.told.state.cluster.pods.get(f"uid-{name}")
        match engine:
            case "comes" if name not in self.pods:
                self.pods[name] = ("Pending", False)
            case "goes" if name in self.pods:
                before = self.pod(name)
                del self.pods[name]
                self.conditions.pop(name, None)
                self.told.see(gone(before))
                return
            case "Running" | "Succeeded" | "Failed" if here is not None and here.node:
                self.pods[name] = (engine, True)
            case _:
                return
        self.told.see(ObjectSeen(self.pod(name)))

    def take(self, request: Request, reply: Reply) -> None:
        """Do what is asked and show it, or do nothing, and answer."""
        if isinstance(reply, Accepted):
            self._do(request)
        self.told.engine.report([Answer(request, reply)], self.told.now_ns)

    def _do(self, request: Request) -> None:
        match request:
            case PodGroupPhaseRequest():
                self._say(request.running, request.succeeded, request.failed, phase=request.phase)
            case PodGroupCountsRequest():
                self._say(request.running, request.succeeded, request.failed)
            case PodGroupConditionRequest():
                harness = {"type": request.type, "status": "True", "reason": request.reason}
                self.status["conditions"] = [{**harness, "message": request.message}]
                self.told.see(ObjectSeen(self.group()))
            case PodConditionRequest() if request.name in self.pods:
                harness = {"type": "PodScheduled", "status": "False", "reason": request.reason}
                self.conditions[request.name] = [{**harness, "message": request.message}]
                self.told.see(ObjectSeen(self.pod(request.name)))
            case QueueStatusRequest():
                self.queue = {"allocated": dict(request.allocated)}
                self.told.see(ObjectSeen(raw("Queue", "default", spec={}, status=self.queue)))
            case _:
                pass

    def _say(self, running: int, succeeded: int, failed: int, **phase: str) -> None:
        self.status |= {"running": running, "succeeded": succeeded, "failed": failed, **phase}
        self.told.see(ObjectSeen(self.group()))

    def settle(self) -> None:
        """Answer whatever is asked until nothing is, and then nothing is due."""
        asked: list[Request] = []
        for _ in range(ROUNDS_MAX):
            self.told.cycle()
            asked = list(self.told.engine.requests())
            if not asked:
                break
            for request in asked:
                self.take(request, Accepted())
            assert not self.told.engine.is_due(self.told.now_ns), "our own words are no news"
        else:
            raise AssertionError(f"the telling does not end: {asked}")
        assert not self.told.engine.has_status_updates


steps = st.tuples(st.sampled_from(NAMES), st.sampled_from(["comes", "Running", "Failed", "goes"]))
replies = st.sampled_from([OutcomeUnknown("no answer"), Rejected("Unavailable", "not now")])


@settings(max_examples=150, deadline=None)
@given(
    least=st.integers(0, 3),
    cpus=st.integers(0, 3),
    history=st.lists(st.one_of(steps, st.just("settle"), replies), max_size=14),
)
def test_objects_report_the_true_status_once_all_updates_are_made(
    least: int, cpus: int, history: list[object]
) -> None:
    server = Server(least, cpus)
    for one in history:
        if isinstance(one, tuple):
            server.move(*one)
        elif one == "settle":
            server.settle()
        else:
            for request in list(server.told.engine.requests()):
                assert isinstance(one, OutcomeUnknown | Rejected)
                server.take(request, one)
    server.settle()
    group = server.told.state.cluster.groups["default/g"]
    said = server.status
    assert said.get("phase", "Pending") == group.decided.phase
    counts = tuple(said.get(name, 0) for name in ("running", "succeeded", "failed"))
    assert counts == group.status_now[1:]
    condition = condition_of(group)
    if condition is not None:
        [harness] = msgspec.convert(said["conditions"], list[dict[str, str]])
        assert (harness["type"], harness["reason"]) == (condition.type, condition.reason)
    for waiting in group.pending:
        assert waiting.facts.scheduled_message or condition is None or condition.type == "Scheduled"
