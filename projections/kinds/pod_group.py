"""PodGroup (scheduling.volcano.sh): pods that start together or not at all."""

from functools import partial
from typing import Final

from events.amount_text import amounts_text
from projections.api_resource import Resource
from projections.cluster import Cluster
from projections.config_errors import OPTION_CUT, QUEUE_CHANGED, REQUEST_DIFFERS, UNUSED_OPTION
from projections.device_families import DeviceFamilies
from projections.group_facts import GroupFacts, group_facts
from projections.job_option_keys import option_problems
from projections.objects import PodGroupObject, read
from projections.observed_kind import ObservedKind, Reading
from projections.pending_status import overwritten_faults
from projections.priority_classes import check_priority_class
from projections.rescheduling import owner_gone
from projections.session_priority import PRIORITY_CUT

POD_GROUPS: Final = Resource(
    "PodGroup",
    "podgroups",
    "scheduling.volcano.sh",
    "v1beta1",
    short_names=("pg",),
    is_custom=True,
    subresources=(),
)


def _apply(cluster: Cluster, reading: Reading) -> None:
    facts = read_pod_group(cluster, reading)
    group = cluster.groups.get(f"{facts.namespace}/{facts.name}")
    if group is None or group.observed.digest != reading.digest:
        cluster.pod_groups.put_object(cluster, facts, reading.digest)
        kept = (REQUEST_DIFFERS, UNUSED_OPTION, OPTION_CUT, PRIORITY_CUT, QUEUE_CHANGED)
        of_options = option_problems(cluster, facts.pool_options)
        overwritten = overwritten_faults(cluster.groups[f"{facts.namespace}/{facts.name}"])
        cluster.config_errors.put(
            reading.subject, (*facts.faults, *of_options, *overwritten), keeps=kept
        )
        check_priority_class(cluster, cluster.groups[f"{facts.namespace}/{facts.name}"])


def read_pod_group(cluster: Cluster, reading: Reading) -> GroupFacts:
    """Return the facts of a PodGroup."""

    def facts_of(obj: PodGroupObject, problem: str) -> GroupFacts:
        return group_facts(obj, cluster.device_families, problem)

    return reading.facts_of(PodGroupObject, facts_of)


def _drop(cluster: Cluster, subject: str, uid: str) -> None:
    key = subject.partition("/")[2]
    group = cluster.groups.get(key)
    if group is not None and group.observed.facts is not None and group.observed.facts.uid == uid:
        cluster.pod_groups.drop_object(cluster, key)
        owner_gone(cluster, uid)
        cluster.config_errors.put(subject, (), keeps=(UNUSED_OPTION, OPTION_CUT))


def _summary(families: DeviceFamilies, content: bytes) -> list[str]:
    obj = read(PodGroupObject, content)
    if isinstance(obj, str):
        return [obj]
    facts = group_facts(obj, families)
    least = amounts_text(facts.min_resources or {})
    return [
        facts.phase,
        f"needs {facts.min_available} pod{'s' * (facts.min_available != 1)}",
        f"and {least} at least" if least else "",
        f"queue {facts.queue}" if facts.queue else "",
        f"pods {facts.topology_constraint.text}" if facts.topology_constraint else "",
        *(f"sub-groups {rule.name} of {rule.size} pods" for rule in facts.sub_group_rules),
        facts.problem,
    ]


def pod_group_kind(families: DeviceFamilies) -> ObservedKind:
    """Return the kind, with what these families read of pod groups."""
    return ObservedKind(
        resource=POD_GROUPS,
        why="gangs; their phase, where the cluster keeps it in the object itself",
        is_required=True,
        has_own_table=True,
        apply=_apply,
        drop=_drop,
        summarize=partial(_summary, families),
    )
