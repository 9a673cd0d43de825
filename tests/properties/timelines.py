"""Random timelines: small clusters in which pods, queues, groups and nodes come, change and go, under any policy.

At rest two things must hold. A fresh daemon that lists the same objects decides nothing more: nothing was overlooked,
in whatever order the policy names its actions. And nothing is reserved for a group that cannot have it: neither room
on nodes nor quota. A timeline is plain data made from a seed, so that a failing one can be cut down and kept.
"""

import json
import random
from collections import Counter
from typing import Final, TypeAlias

import msgspec
from msgspec import Struct

from engine.batch import Batch
from engine.engine import Engine
from events.codec import event_of
from events.daemon import DaemonStarted, PolicyChanged
from events.decisions.enqueue import EnqueueDecided
from events.decisions.eviction import EvictionDecided
from events.decisions.gang_bind import GangBindDecided
from events.decisions.pipeline import PipelineDecided
from events.messages import Answer, BindRequest, EvictRequest, PodGroupPhaseRequest, Reply
from events.normalize import Json, JsonObject
from events.record import GENESIS
from features.table import FEATURES
from projections.internal_error import InternalError
from projections.pod_groups import PodGroup
from projections.snapshot import restore, take
from projections.state import State
from scheduling.plugins.overcommit import Backlogs
from tests.properties.api import Api
from tests.properties.reached import reached

SECOND: Final = 1_000_000_000
ROUNDS_MAX: Final = 120
FRESH_CYCLES: Final = 6
"""Cycles that a fresh daemon is given: what it decides may let it decide more."""

KIND: Final = 60
"""So many characters of two failures are equal where they are of one kind."""

Deed: TypeAlias = tuple[str, int, Json]
"""What happens; which of those there are it happens to; and how."""

QUEUES: Final = ("qa", "qb", "qc")
CLASSES: Final = {"low": 1, "mid": 5, "high": 9}
ACTIONS: Final = ("enqueue", "backfill", "preempt", "reclaim", "gangpreempt", "gangreclaim")
FIRST_TIERS: Final = (
    '{"name":"priority"},{"name":"gang","enablePreemptable":false},{"name":"conformance"}',
    '{"name":"priority"},{"name":"gang"},{"name":"conformance"}',
    '{"name":"gang"},{"name":"conformance"}',
    '{"name":"priority"},{"name":"gang","enablePreemptable":false},{"name":"drf"}',
)
SECOND_TIERS: Final = (
    '{"name":"predicates"},{"name":"capacity"},{"name":"binpack"}',
    '{"name":"predicates"},{"name":"capacity"},{"name":"nodeorder"},{"name":"overcommit"}',
    '{"name":"predicates"},{"name":"proportion"},{"name":"nodeorder"}',
    '{"name":"predicates"},{"name":"capacity-card"},{"name":"binpack"}',
    '{"name":"predicates"},{"name":"nodeorder"}',
)


DEEDS: Final = (
    "end", "end", "lose", "node", "cordon", "cordon", "close", "close", "queue", "queue gone", "group gone",
    "minimum", "roles", "move", "class", "topology", "stop", "stop", "stop", "pause", "pause", "pod gone",
)  # fmt: skip

CROSSED: Final = 0.4
"""Part of the days on which a promise is crossed."""

CROSSES: Final = (
    "close",
    "queue gone",
    "group gone",
    "minimum",
    "roles",
    "topology",
    "end",
    "capability",
)


class Timeline(Struct):
    """A policy, a cluster, and what happens to it day by day."""

    policy: str
    nodes: list[JsonObject]
    queues: list[JsonObject]
    days: list[list[Deed]]


def timeline(seed: int) -> Timeline:
    """The timeline of a seed."""
    chance = random.Random(seed)
    actions = [one for one in ACTIONS if chance.random() < 0.55]
    actions.insert(0, "allocate")
    if not any(one.endswith(("preempt", "reclaim")) for one in actions):
        actions.append(chance.choice(["preempt", "reclaim"]))
    chance.shuffle(actions)
    tiers = f'[{{"plugins":[{chance.choice(FIRST_TIERS)}]}},{{"plugins":[{chance.choice(SECOND_TIERS)}]}}]'
    nodes = [_node(chance) for _ in range(chance.randint(1, 3))]
    queues = [_queue(chance) for _ in QUEUES[: chance.randint(1, 3)]]
    days = [
        [_deed(chance, is_first=not day) for _ in range(chance.randint(2, 6) - bool(day))]
        for day in range(chance.randint(2, 6))
    ]
    for day in days:
        if chance.random() < CROSSED:
            # Pods terminate slowly, a group is nominated to their room, and then something keeps the group from it.
            day += [("stop", chance.randrange(4), 3), ("group", 0, _group(chance)), ("pause", 0, 1)]
            day.append(("cross", chance.randrange(8), chance.choice(CROSSES)))
    return Timeline(f'{{"actions":"{", ".join(actions)}","tiers":{tiers}}}', nodes, queues, days)


def _node(chance: random.Random) -> JsonObject:
    return {
        "cpu": str(chance.choice([2, 3, 4])),
        "memory": chance.choice(["2Gi", "4Gi", "4Gi"]),
        "pods": str(chance.choice([2, 4, 110, 110])),
    }


def _queue(chance: random.Random) -> JsonObject:
    spec: JsonObject = {"weight": chance.choice([1, 1, 3])}
    if chance.random() < 0.6:
        spec["deserved"] = {"cpu": str(chance.choice([0, 1, 2, 4])), "memory": "2Gi"}
    if chance.random() < 0.3:
        spec["capability"] = {"cpu": str(chance.choice([1, 2, 4]))}
    if chance.random() < 0.15:
        spec["reclaimable"] = False
    return spec


def _group(chance: random.Random) -> JsonObject:
    """Its pods, as cpu, memory in Gi and role of each; its minimum, roles, queue, class, and where it begins."""
    kinds = [(chance.choice([0, 1, 1, 2, 2, 3]), chance.choice([0, 0, 1]), role) for role in "mw"]
    size = chance.choice([1, 1, 1, 2, 2, 3, 4])
    is_uneven = chance.random() < 0.4
    chosen = [
        kinds[0 if not index or not is_uneven else chance.randrange(2)] for index in range(size)
    ]
    pods: list[Json] = [list(one) for one in chosen]
    found: JsonObject = {
        "pods": pods,
        "least": chance.randint(1, size),
        "queue": chance.choice(QUEUES),
        "class": chance.choice(["", "low", "low", "mid", "high"]),
        "phase": chance.choice(["Inqueue", "Inqueue", "Pending"]),
    }
    if chance.random() < 0.2:
        found["roles"] = {"m": 1}
    if chance.random() < 0.15:
        found["tier"] = chance.choice(["1", "rack"])
    if chance.random() < 0.4:
        found["states"] = True
    return found


def _deed(chance: random.Random, *, is_first: bool) -> Deed:
    if is_first or chance.random() < 0.4:
        return "group", 0, _group(chance)
    what = chance.choice(DEEDS)
    how: Json = None
    match what:
        case "queue":
            how = _queue(chance)
        case "node":
            how = _node(chance)
        case "minimum":
            how = chance.randint(0, 6)
        case "roles":
            how = {chance.choice("mwv"): chance.randint(0, 3)}
        case "move":
            how = chance.choice(QUEUES)
        case "class":
            how = chance.choice([0, 3, 7, 12])
        case "topology":
            how = chance.choice(["racks", "none", "broken", "renamed"])
        case "stop" | "pause":
            how = chance.randint(1, 3)
        case _:
            pass
    return what, chance.randrange(12), how


class SlowApi(Api):
    """Terminating pods stay for some rounds, so that nominations stand meanwhile."""

    def __init__(self) -> None:
        super().__init__()
        self.grace_rounds = 1
        self.left: dict[str, int] = {}

    def run_on(self) -> None:
        """What kubelets and owners do; a pod whose grace period is not over stays."""
        kept = {}
        for name in self.names("Pod"):
            if "deletionTimestamp" not in self.section("Pod", name, "metadata"):
                continue
            rounds = self.left.setdefault(name, self.grace_rounds)
            if rounds > 0:
                self.left[name] = rounds - 1
                kept[name] = self.objects.pop(("Pod", name))
            else:
                del self.left[name]
        super().run_on()
        for name, obj in kept.items():
            self.objects["Pod", name] = obj

    @property
    def is_ending(self) -> bool:
        """Whether any pod is still to go."""
        return bool(self.left)


class Played:
    """A timeline that is being played."""

    def __init__(self, line: Timeline) -> None:
        self.line = line
        self.api = SlowApi()
        self.seen: Counter[str] = Counter()
        self.now_ns = 0
        self.made = 0
        for name, value in CLASSES.items():
            self.api.put("PriorityClass", name, {"value": value})
        for index, amounts in enumerate(line.nodes):
            self._put_node(f"n{index}", amounts)
        for name, spec in zip(QUEUES, line.queues, strict=False):
            self.api.put("Queue", name, {"spec": spec, "status": {"state": "Open"}})
        self.step = self._daemon()

    def _daemon(self) -> Engine:
        """A daemon that has listed all there is."""
        step = Engine(State(FEATURES), GENESIS, on_error=_raise)
        started = DaemonStarted(
            holder="test", version="0", period_ns=SECOND, scheduler_names=("muster",)
        )
        changed = PolicyChanged(source="test", policy=msgspec.Raw(self.line.policy.encode()))
        step.start(started, changed, 1, self.now_ns)
        step.begin_listing()
        step.observe(self.api.listing(), self.now_ns)
        return step

    def play(self) -> None:
        """Play it through."""
        for day in self.line.days:
            for deed in day:
                self._happen(*deed)
            self._rest()
            self._ask_fresh_daemon()

    # What happens

    def _happen(self, what: str, which: int, how: Json) -> None:
        api = self.api
        groups = api.names("PodGroup")
        pods = [one for one in api.names("Pod") if api.section("Pod", one, "spec").get("nodeName")]
        nodes, queues = api.names("Node"), api.names("Queue")
        match what:
            case "group":
                assert isinstance(how, dict)
                self._put_group(how)
            case "end" if groups:
                name = groups[which % len(groups)]
                for pod in [one for one in api.names("Pod") if one.startswith(f"{name}-")]:
                    self._remove_pod(pod)
                api.remove("PodGroup", name)
            case "lose" if pods:
                api.put("Pod", pods[which % len(pods)], {"status": {"phase": "Failed"}})
            case "pod gone" if api.names("Pod"):
                self._remove_pod(api.names("Pod")[which % len(api.names("Pod"))])
            case "node" if len(nodes) > 1 and which % 2:
                api.remove("Node", nodes[which % len(nodes)])
            case "node":
                assert isinstance(how, dict)
                self._put_node(f"n{which % 4}", how)
            case "cordon" if nodes:
                name = nodes[which % len(nodes)]
                is_closed = bool(api.section("Node", name, "spec").get("unschedulable"))
                api.put("Node", name, {"spec": {"unschedulable": not is_closed}})
            case "close" if queues:
                name = queues[which % len(queues)]
                is_open = api.section("Queue", name, "status").get("state") == "Open"
                api.put("Queue", name, {"status": {"state": "Closed" if is_open else "Open"}})
            case "queue":
                body: JsonObject = {"spec": how, "status": {"state": "Open"}}
                api.put("Queue", QUEUES[which % len(QUEUES)], body)
            case "queue gone" if queues:
                api.remove("Queue", queues[which % len(queues)])
            case "group gone" if groups:
                api.remove("PodGroup", groups[which % len(groups)])
            case "minimum" if groups:
                self._change_group(groups[which % len(groups)], {"minMember": how})
            case "roles" if groups:
                self._change_group(groups[which % len(groups)], {"minTaskMember": how})
            case "move" if groups:
                self._change_group(groups[which % len(groups)], {"queue": how})
            case "class":
                api.put("PriorityClass", list(CLASSES)[which % len(CLASSES)], {"value": how})
            case "topology":
                self._put_topology(str(how))
            case "stop":
                assert isinstance(how, int)
                api.grace_rounds = how
                for pod in pods[which % 4 : which % 4 + 2]:
                    if "deletionTimestamp" not in api.section("Pod", pod, "metadata"):
                        api.put("Pod", pod, {}, {"deletionTimestamp": "1970-01-01T01:00:00Z"})
            case "cross":
                self._cross(str(how))
            case "pause":
                assert isinstance(how, int)
                for _ in range(how):
                    self._round()
            case _:
                pass

    def _cross(self, how: str) -> None:
        """Keep the first nominated group from being bound."""
        nominated = [
            one for one in self.step.state.cluster.groups.values() if one.decided.nominations
        ]
        api = self.api
        for group in nominated[:1]:
            name, queue = group.key.partition("/")[2], group.queue
            self.seen[f"a promise is crossed: {how}"] += 1
            match how:
                case "close" if queue in api.names("Queue"):
                    api.put("Queue", queue, {"status": {"state": "Closed"}})
                case "queue gone" if queue in api.names("Queue"):
                    api.remove("Queue", queue)
                case "capability" if queue in api.names("Queue"):
                    body: JsonObject = {"spec": {"weight": 1, "capability": {"cpu": "1"}}}
                    api.put("Queue", queue, body)
                case "end":
                    self._happen("end", api.names("PodGroup").index(name), None)
                case "group gone":
                    api.remove("PodGroup", name)
                case "minimum":
                    self._change_group(name, {"minMember": 9})
                case "roles":
                    self._change_group(name, {"minTaskMember": {"v": 1}})
                case "topology":
                    bound: JsonObject = {"mode": "hard", "highestTierName": "nowhere"}
                    self._change_group(name, {"networkTopology": bound})
                case _:
                    pass

    def _change_group(self, name: str, change: JsonObject) -> None:
        spec = self.api.section("PodGroup", name, "spec")
        self.api.put("PodGroup", name, {"spec": {**spec, **change}})

    def _remove_pod(self, name: str) -> None:
        self.api.left.pop(name, None)
        self.api.remove("Pod", name)

    def _put_node(self, name: str, amounts: JsonObject) -> None:
        self.api.put("Node", name, {"status": {"allocatable": amounts}})

    def _put_topology(self, how: str) -> None:
        """Two racks of nodes; without `none` they are there, and not usable when `broken`."""
        for name in self.api.names("HyperNode"):
            self.api.remove("HyperNode", name)
        if how == "none":
            return
        for index in range(2):
            members: Json = [
                {"type": "Node", "selector": {"exactMatch": {"name": f"n{node}"}}}
                for node in range(index * 2, index * 2 + 2)
            ]
            tier = "shelf" if how == "renamed" else "rack"
            spec: JsonObject = {"tier": 1, "tierName": tier, "members": members}
            self.api.put("HyperNode", f"rack{index}", {"spec": spec})
        for index in range(2 if how == "broken" else 0):
            inner: Json = [{"type": "HyperNode", "selector": {"exactMatch": {"name": "rack0"}}}]
            self.api.put("HyperNode", f"row{index}", {"spec": {"tier": 2, "members": inner}})

    def _put_group(self, how: JsonObject) -> None:
        name, pods = f"g{self.made}", how["pods"]
        self.made += 1
        assert isinstance(pods, list)
        least = how["least"]
        spec: JsonObject = {
            "minMember": least,
            "queue": how["queue"],
            "priorityClassName": how["class"],
        }
        if how.get("roles"):
            spec["minTaskMember"] = how["roles"]
        if tier := how.get("tier"):
            bound: JsonObject = (
                {"highestTierName": tier} if tier == "rack" else {"highestTierAllowed": 1}
            )
            spec["networkTopology"] = {"mode": "hard", **bound}
        if how.get("states"):
            assert isinstance(least, int)
            cpu = sum(
                one[0] for one in pods[:least] if isinstance(one, list) and isinstance(one[0], int)
            )
            spec["minResources"] = {"cpu": str(cpu)}
        self.api.put("PodGroup", name, {"spec": spec, "status": {"phase": how["phase"]}})
        for index, pod in enumerate(pods):
            assert isinstance(pod, list)
            cpu_asked, memory, role = pod
            requests: JsonObject = {}
            if cpu_asked:
                requests["cpu"] = str(cpu_asked)
            if memory:
                requests["memory"] = f"{memory}Gi"
            body: JsonObject = {
                "spec": {
                    "schedulerName": "muster",
                    "containers": [{"name": "m", "resources": {"requests": requests}}],
                },
                "status": {"phase": "Pending"},
            }
            marks: JsonObject = {"scheduling.k8s.io/group-name": name, "volcano.sh/task-spec": role}
            self.api.put("Pod", f"{name}-{index}", body, {"annotations": marks, "labels": {}})

    # What the daemon does

    def _take(self, batch: Batch | None) -> None:
        for record in () if batch is None else batch.records:
            for what in reached(self.step.state, record, event_of(record)):
                self.seen[what] += 1

    def _round(self) -> bool:
        """See, decide, carry out. Whether anything came of it."""
        shown, self.api.unseen = self.api.unseen, []
        self._take(self.step.observe(shown, self.now_ns))
        self.now_ns += SECOND
        batch = self.step.cycle(self.now_ns)
        self._take(batch)
        requests = list(self.step.requests())
        for request in requests:
            self._take(self.step.report([Answer(request, self._reply(request))], self.now_ns))
        self.api.run_on()
        return bool(shown or batch or requests or self.api.unseen)

    def _reply(self, request: object) -> Reply:
        if isinstance(request, BindRequest):
            return self.api.bind(request)
        if isinstance(request, EvictRequest):
            return self.api.evict(request)
        assert isinstance(request, PodGroupPhaseRequest)
        return self.api.tell(request)

    def _rest(self) -> None:
        """Let all come to rest, and hold that nothing is reserved in vain whenever it does."""
        for _ in range(ROUNDS_MAX):
            if self._round():
                continue
            self._judge_reservations()
            deadline = self.step.state.next_deadline_ns
            if deadline is not None:
                self.now_ns = max(self.now_ns, deadline - SECOND)
            elif not self.api.is_ending:
                self.step.state.validate()
                return
        raise AssertionError(
            f"no rest after {ROUNDS_MAX} rounds: {self.step.state.next_deadline_ns}"
        )

    # What must hold

    def _judge_reservations(self) -> None:
        cluster = self.step.state.cluster
        for key, group in cluster.groups.items():
            reason = self._standing_reason(group)
            if group.decided.nominations:
                self.seen["at rest with a promise"] += 1
                assert not reason, f"{key} is nominated: {reason}"
                assert all(uid in group.pods for uid in group.decided.nominations), (
                    f"{key}: a pod is gone"
                )
            if reason and "pods" not in reason:
                self.seen["at rest with a group that is blocked"] += 1
                assert not group.reservation.inqueue, f"{key} has quota reserved: {reason}"
                for index in cluster.indexes.all:
                    has_room = isinstance(index, Backlogs) and key in index.of_group
                    assert not has_room, f"{key} has room reserved: {reason}"

    def _standing_reason(self, group: PodGroup) -> str:
        """Why a group cannot be scheduled whatever room there is, by the objects of the API server."""
        name = group.key.partition("/")[2]
        if name not in self.api.names("PodGroup"):
            return "its PodGroup is gone"
        spec = self.api.section("PodGroup", name, "spec")
        queue = str(spec["queue"])
        if queue not in self.api.names("Queue"):
            return "its queue is gone"
        if self.api.section("Queue", queue, "status").get("state") != "Open":
            return "its queue is closed"
        topology = spec.get("networkTopology")
        if isinstance(topology, dict):
            hyper = self.api.names("HyperNode")
            tiers = [self.api.section("HyperNode", one, "spec").get("tierName") for one in hyper]
            if not hyper or "row0" in hyper:
                return "the HyperNodes are not usable"
            if topology.get("highestTierName", tiers[0]) not in tiers:
                return "the tier is unknown"
        live = [
            one for one in self.api.names("Pod") if one.startswith(f"{name}-") and self._counts(one)
        ]
        least, roles = spec["minMember"], spec.get("minTaskMember") or {}
        assert isinstance(least, int)
        assert isinstance(roles, dict)
        if len(live) < least:
            return "it has too few pods"
        needed = {role: one for role, one in roles.items() if isinstance(one, int)}
        if sum(needed.values()) <= least:
            have = Counter(self._role(one) for one in live)
            if any(have[role] < one for role, one in needed.items()):
                return "it has too few pods of a role"
        return ""

    def _counts(self, pod: str) -> bool:
        phase = self.api.section("Pod", pod, "status").get("phase")
        return phase != "Failed" and "deletionTimestamp" not in self.api.section(
            "Pod", pod, "metadata"
        )

    def _role(self, pod: str) -> str:
        annotations = self.api.section("Pod", pod, "metadata")["annotations"]
        assert isinstance(annotations, dict)
        return str(annotations["volcano.sh/task-spec"])

    def _is_unknown(self, key: str) -> bool:
        name = key.partition("/")[2]
        if name not in self.api.names("PodGroup"):
            return True
        return self.api.section("PodGroup", name, "status").get("phase") == "Unknown"

    def _ask_fresh_daemon(self) -> None:
        """A daemon that remembers no refusal, and one that lists the same objects, must decide nothing but refusals.

        One that lists does not know the queue of pods whose PodGroup is gone, nor the queue that admitted running pods of a group
        that names another queue since.
        """
        self._must_rest(self._forgetful(), "a daemon without its refusals")
        has_groups = all(
            self._group_of(pod) in self.api.names("PodGroup") for pod in self.api.names("Pod")
        )
        groups = self.step.state.cluster.groups.values()
        if has_groups and all(
            one.observed.facts is None or one.queue == one.observed.facts.queue for one in groups
        ):
            self.seen["a fresh daemon is asked"] += 1
            self._must_rest(self._daemon(), "a fresh daemon")

    def _forgetful(self) -> Engine:
        step = Engine(restore(take(self.step.state), FEATURES), self.step.head, on_error=_raise)
        cluster = step.state.cluster
        for group in list(cluster.groups.values()):
            group.decided = group.decided.without_refusals()
        cluster.wakeup_events.everything = True
        cluster.pod_groups.mark_all(cluster.groups, cluster.position)
        cluster.pod_groups.settle(cluster)
        return step

    def _group_of(self, pod: str) -> str:
        return pod.rpartition("-")[0]

    def _must_rest(self, step: Engine, what: str) -> None:
        now_ns, found = self.now_ns, []
        for _ in range(FRESH_CYCLES):
            now_ns += SECOND
            # Every cycle looks at all, or a cycle that does not follow would be missed here, too.
            step.state.cluster.wakeup_events.everything = True
            batch = step.cycle(now_ns)
            for record in () if batch is None else batch.records:
                event = event_of(record)
                if isinstance(event, EnqueueDecided) and self._is_unknown(event.pod_group):
                    continue  # Unknown for a refusal that this daemon has not made yet.
                if isinstance(
                    event, EnqueueDecided | GangBindDecided | PipelineDecided | EvictionDecided
                ):
                    found.append(f"{record.kind} {record.subject} {record.body.decode()}")
        assert not found, f"{what} would go on: {found}"


def _raise(error: InternalError) -> None:
    raise AssertionError(f"internal error: {error}") from error.error


def cut_down(line: Timeline, tries: int = 400) -> Timeline:
    """A smaller timeline that still fails: without days and deeds that do not matter to that."""
    kept, kind = line, failure(line)[:KIND]
    is_smaller = True
    while is_smaller and tries > 0:
        is_smaller = False
        for smaller in _smaller(kept):
            tries -= 1
            if tries <= 0:
                break
            if failure(smaller)[:KIND] == kind:
                kept, is_smaller = smaller, True
                break
    return kept


def _smaller(line: Timeline) -> list[Timeline]:
    found = [
        msgspec.structs.replace(line, days=line.days[:at] + line.days[at + 1 :])
        for at in range(len(line.days))
    ]
    found += [
        msgspec.structs.replace(
            line, days=[*line.days[:at], [*day[:one], *day[one + 1 :]], *line.days[at + 1 :]]
        )
        for at, day in enumerate(line.days)
        for one in range(len(day))
    ]
    found += [msgspec.structs.replace(line, nodes=line.nodes[:-1]) for _ in line.nodes[1:2]]
    return found


def failure(line: Timeline) -> str:
    """What of a timeline does not hold; empty where all holds."""
    try:
        Played(line).play()
    except AssertionError as error:
        return str(error) or "an assertion"
    return ""


def text_of(line: Timeline) -> str:
    """A timeline to be read, or to be played again by hand."""
    days = "\n".join(f"  {json.dumps(deed)}" for day in [*line.days] for deed in [*day, ["--"]])
    return f"{line.policy}\nnodes {line.nodes}\nqueues {line.queues}\n{days}"
