"""Volcano Jobs: which policy answers, which phase follows, and what holds whatever befalls a job."""

from collections import Counter

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from events.messages import BindRequest, PodGroupPhaseRequest
from events.normalize import Json, JsonObject
from simulator.cluster import SimulatedCluster
from simulator.job_events import JobEvent
from simulator.manifest import VOLCANO_JOB, Manifest
from simulator.manifest_fields import (
    changed,
    name_of,
    namespace_of,
    node_of,
    phase_of,
    section,
    uid_of,
    whole_at,
)
from simulator.owned_objects import ChildState, OwnedObjects
from simulator.scenario import Apply, Delete, Fail, Scenario, Step, kind_named
from simulator.volcano_job_constants import ACTIONS
from simulator.volcano_job_phases import LIVE, JobStatus, next_phase, phase_after
from simulator.volcano_job_policies import action_for
from tests.simulator.builders import simulated

SECOND = 1_000_000_000
ONE_NODE: Manifest = {
    "apiVersion": "v1",
    "kind": "Node",
    "metadata": {"name": "n1"},
    "status": {"allocatable": {"cpu": "1", "pods": "110"}},
}


def job(policies: list[Json], task_policies: list[Json], **spec: Json) -> Manifest:
    """A job of two tasks, the first of which has policies of its own."""
    tasks: list[Json] = [
        {"name": "a", "replicas": 2, "policies": task_policies},
        {"name": "b", "replicas": 2, "minAvailable": 1},
    ]
    metadata: JsonObject = {"name": "j", "namespace": "default", "uid": "u"}
    whole: JsonObject = {"policies": policies, "tasks": tasks, **spec}
    return {
        "apiVersion": VOLCANO_JOB.api_version,
        "kind": "Job",
        "metadata": metadata,
        "spec": whole,
    }


@pytest.mark.parametrize(
    ("job_event", "action"),
    [
        (JobEvent("PodFailed", "a"), "RestartTask"),
        (JobEvent("PodFailed", "b"), "RestartJob"),
        (JobEvent("PodFailed", "b", exit_code=7), "AbortJob"),
        (JobEvent("PodFailed", "a", exit_code=7), "RestartTask"),
        (JobEvent("Unknown"), "TerminateJob"),
        (JobEvent("TaskCompleted", "a"), "CompleteJob"),
        (JobEvent("TaskCompleted", "b"), "TerminateJob"),
        (JobEvent("PodRunning", "b"), ""),
        (JobEvent("", "b"), ""),
        (JobEvent("CommandIssued", action="ResumeJob"), "ResumeJob"),
    ],
)
def test_the_first_rule_that_fits_answers_and_those_of_the_task_come_first(
    job_event: JobEvent, action: str
) -> None:
    owner = job(
        [
            {"exitCode": 7, "action": "AbortJob"},
            {"events": ["PodFailed", "PodEvicted"], "action": "RestartJob"},
            {"event": "*", "action": "TerminateJob"},
        ],
        [
            {"event": "PodFailed", "action": "RestartTask"},
            {"event": "TaskCompleted", "action": "CompleteJob"},
        ],
    )
    assert action_for(owner, job_event) == (action, 0)


def test_an_action_may_have_to_wait() -> None:
    owner = job([{"event": "PodEvicted", "action": "AbortJob", "timeout": "1m"}], [])
    assert action_for(owner, JobEvent("PodEvicted", "a")) == ("AbortJob", 60 * SECOND)


def test_a_time_that_cannot_be_read_is_none() -> None:
    owner = job([{"event": "PodEvicted", "action": "AbortJob", "timeout": "soon"}], [])
    assert action_for(owner, JobEvent("PodEvicted", "a")) == ("AbortJob", 0)


@pytest.mark.parametrize(
    ("priority", "cpu"),
    [(0, "20"), (5, "22")],
    ids=["a ps and a worker more", "two workers more, which go first"],
)
def test_beyond_the_minimums_of_tasks_further_pods_count_by_priority(
    priority: int, cpu: str
) -> None:
    made = simulated(f"""
        cluster:
          - apiVersion: batch.volcano.sh/v1alpha1
            kind: Job
            metadata: {{name: j, uid: u}}
            spec:
              minAvailable: 6
              tasks:
                - name: ps
                  replicas: 2
                  minAvailable: 1
                  template: {{spec: {{containers: [{{resources: {{limits: {{cpu: 2}}}}}}]}}}}
                - name: worker
                  replicas: 5
                  minAvailable: 3
                  template:
                    spec: {{priority: {priority}, containers: [{{resources: {{limits: {{cpu: 4}}}}}}]}}
        """)
    group = made.find("PodGroup", "default", "j-u") or {}
    assert section(group, "spec", "minResources")["cpu"] == cpu
    assert section(group, "spec", "minResources")["pods"] == "6"


@pytest.mark.parametrize(
    ("phase", "fare", "spec", "following"),
    [
        ("Pending", {"a": "RR", "b": ""}, {"minAvailable": 3}, "Pending"),
        ("Pending", {"a": "RR", "b": "F"}, {"minAvailable": 3}, "Running"),
        ("Running", {"a": "SS", "b": "SR"}, {}, "Running"),
        ("Running", {"a": "SS", "b": "SF"}, {}, "Completed"),
        ("Running", {"a": "SF", "b": "SS"}, {}, "Failed"),
        ("Running", {"a": "SF", "b": "SS"}, {"minAvailable": 2}, "Completed"),
        ("Running", {"a": "FF", "b": "SF"}, {"minAvailable": 2}, "Failed"),
        ("Running", {"a": "SR", "b": "RR"}, {"minSuccess": 1}, "Completed"),
        ("Running", {"a": "SS", "b": "FF"}, {"minSuccess": 3}, "Failed"),
        ("Restarting", {"a": "TT", "b": "RR"}, {}, "Restarting"),
        ("Restarting", {"a": "TT", "b": "RR"}, {"minAvailable": 2}, "Pending"),
        ("Restarting", {"a": "RR", "b": "RR"}, {"maxRetry": 1}, "Failed"),
        ("Aborting", {"a": "TT", "b": "SF"}, {}, "Aborting"),
        ("Aborting", {"a": "", "b": "SF"}, {}, "Aborted"),
        ("Completing", {"a": "", "b": "F"}, {}, "Completed"),
        ("Terminating", {"a": "F", "b": ""}, {}, "Terminated"),
        ("Aborted", {"a": "RR", "b": "RR"}, {}, "Aborted"),
    ],
)
def test_the_next_phase_follows_from_how_the_pods_fare(
    phase: str, fare: dict[str, str], spec: dict[str, Json], following: str
) -> None:
    fates = {
        "R": ChildState.RUNNING,
        "S": ChildState.SUCCEEDED,
        "F": ChildState.FAILED,
        "T": ChildState.STOPPING,
    }
    children = OwnedObjects()
    for role, letters in fare.items():
        for index, letter in enumerate(letters):
            children.update(("Pod", "default", f"j-{role}-{index}"), fates[letter], role)
    job_status = JobStatus(phase=phase, retry_count=1, version=0)
    assert next_phase(job([], [], **spec), job_status, children) == following


def test_what_is_over_is_moved_by_no_action() -> None:
    for phase in ("Completed", "Failed", "Terminated", "Terminating", "Completing"):
        job_status = JobStatus(phase=phase, retry_count=0, version=0)
        assert [phase_after(job_status, action) for action in ACTIONS] == [None] * len(ACTIONS)
    aborted = JobStatus(phase="Aborted", retry_count=0, version=0)
    assert [one for one in ACTIONS if phase_after(aborted, one)] == ["ResumeJob"]


ENDS = {"AbortJob": "Aborted", "TerminateJob": "Terminated", "CompleteJob": "Completed"}
ONCE = ("PodFailed", "PodEvicted", "Unknown")
"""Events that do not happen again by themselves after a restart."""


def befall(made: SimulatedCluster, event: str) -> None:
    """Let something happen to a job whose pods were let in."""
    pod = kind_named("Pod")
    if event == "PodFailed":
        found = made.find("Pod", "default", "j-a-0") or {}
        made.put(pod, changed(found, "status", phase="Failed"))
    elif event == "PodEvicted":
        made.remove(("Pod", "default", "j-a-0"))
    elif event == "Unknown":
        made.set_phase(PodGroupPhaseRequest(1, "default", "j-u", "", "Unknown"))


@pytest.mark.parametrize("action", ACTIONS)
@pytest.mark.parametrize("event", [*ONCE, "TaskCompleted", "PodRunning", "PodPending"])
def test_every_action_answers_every_event(event: str, action: str) -> None:
    rule: JsonObject = {"event": event, "action": action}
    if event == "PodPending":
        rule["timeout"] = "2s"
    made = SimulatedCluster(
        Scenario(name="a test", steps=(Apply(0, VOLCANO_JOB, job([rule], [])),))
    )
    made.put(kind_named("Node"), ONE_NODE)
    for second in range(30):
        made.advance(second * SECOND)
        schedule(made, is_unknown=False, binds=event != "PodPending")
        if event == "TaskCompleted":
            for name in ("j-a-0", "j-a-1"):
                if phase_of(found := made.find("Pod", "default", name) or {}) == "Running":
                    made.put(kind_named("Pod"), changed(found, "status", phase="Succeeded"))
        if second == 5:
            befall(made, event)
    status = section(made.find("Job.batch.volcano.sh", "default", "j") or {}, "status")
    told = (section(status, "state").get("phase"), status.get("retryCount", 0))
    if action in ENDS:
        assert told == (ENDS[action], 0)
    elif action == "ResumeJob":
        assert told == ("Pending" if event == "PodPending" else "Running", 0)
    else:
        # What happens again after each restart fails the job in the end.
        assert told == (("Running", 1) if event in ONCE else ("Failed", 3))


EVENTS = ["*", "PodFailed", "PodEvicted", "Unknown", "TaskCompleted", "PodRunning", "PodPending"]
RULES = st.fixed_dictionaries(
    {
        "event": st.sampled_from(EVENTS),
        "action": st.sampled_from(ACTIONS),
        "timeout": st.sampled_from(["0s", "2s", "5s"]),
    }
)
STEPS = st.tuples(
    st.integers(0, 9), st.sampled_from(["fail", "delete", "command"]), st.integers(0, 3)
)


def steps_of(drawn: list[tuple[int, str, int]], actions: list[str]) -> tuple[Step, ...]:
    """What befalls the job: pods that fail or are deleted, and commands."""
    steps: list[Step] = []
    for at, what, index in sorted(drawn):
        name = f"j-{'ab'[index // 2]}-{index % 2}"
        if what == "fail":
            steps.append(Fail(at * SECOND, "default", name, index))
        elif what == "delete":
            steps.append(Delete(at * SECOND, kind_named("Pod"), "default", name))
        else:
            target: JsonObject = {"kind": "Job", "name": "j"}
            command: Manifest = {
                "apiVersion": "bus.volcano.sh/v1alpha1",
                "kind": "Command",
                "metadata": {"name": f"c{len(steps)}", "namespace": "default"},
                "action": actions[index % len(actions)],
                "target": target,
            }
            steps.append(Apply(at * SECOND, kind_named("Command"), command))
    return tuple(steps)


def schedule(made: SimulatedCluster, *, is_unknown: bool, binds: bool = True) -> None:
    """A scheduler that lets everyone in and has room for all: only the controllers matter here."""
    for group in list(made.store.objects()["PodGroup"].values()):
        phase = "Unknown" if is_unknown and phase_of(group) == "Inqueue" else "Inqueue"
        if phase_of(group) == "Unknown":
            continue
        made.set_phase(PodGroupPhaseRequest(1, namespace_of(group), name_of(group), "", phase))
    for pod in list(made.store.objects()["Pod"].values()):
        if binds and not node_of(pod):
            made.bind(BindRequest(1, namespace_of(pod), name_of(pod), uid_of(pod), "n1"))


@settings(max_examples=150, deadline=None)
@given(
    policies=st.lists(RULES, max_size=2),
    task_policies=st.lists(RULES, max_size=1),
    drawn=st.lists(STEPS, max_size=6),
    actions=st.lists(st.sampled_from(ACTIONS), min_size=1, max_size=3),
    retries=st.integers(1, 3),
)
def test_whatever_befalls_a_job_it_comes_to_rest_and_leaves_nothing_behind(
    policies: list[Json],
    task_policies: list[Json],
    drawn: list[tuple[int, str, int]],
    actions: list[str],
    retries: int,
) -> None:
    owner = job(policies, task_policies, maxRetry=retries)
    first = Apply(0, VOLCANO_JOB, owner)
    made = SimulatedCluster(Scenario(name="a test", steps=(first, *steps_of(drawn, actions))))
    made.put(kind_named("Node"), ONE_NODE)
    for second in range(30):
        made.advance(second * SECOND)
        schedule(made, is_unknown=second == 5)
    assert made.settled
    found = made.find("Job.batch.volcano.sh", "default", "j") or {}
    status = section(found, "status")
    phase = section(status, "state").get("phase")
    pods = Counter(phase_of(pod) for pod in made.store.objects()["Pod"].values())
    assert pods["Running"] == whole_at(status, "running", 0)
    assert pods["Failed"] == whole_at(status, "failed", 0)
    assert pods["Succeeded"] == whole_at(status, "succeeded", 0)
    assert whole_at(status, "retryCount", 0) <= retries
    groups = made.store.objects()["PodGroup"]
    if phase in LIVE:
        assert len(groups) == 1
        assert pods.total() == 4
    else:
        assert phase in ("Completed", "Failed", "Terminated", "Aborted")
        assert not groups
        assert not pods["Running"] + pods["Pending"]
    assert not made.store.objects()["Command"]
