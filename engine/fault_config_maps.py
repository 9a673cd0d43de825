"""What the vendor's scheduler writes about faults for people and other programs: nodes and retries in
`vcjob-fault-npu-cm`, restarts of jobs and their reasons in `job-reschedule-reason`. Only where the policy has `volcano-npu`.
"""

from collections.abc import Iterator
from datetime import UTC, datetime
from typing import Final

import msgspec

from events.messages import ConfigMapRequest
from events.normalize import Json, JsonObject
from projections.cluster import Cluster
from projections.device_report import HEALTHY
from projections.faulty_pods import FaultyPods
from projections.node_faults import health_of
from projections.nodes import NodeFacts
from projections.reschedule_records import JobRecords, RescheduleRecord
from projections.state import State
from scheduling.plugins.volcano_npu import npu_arguments

FAULTS: Final = "faults"
RESTARTS: Final = "restarts"
"""Values of `what` in outcomes."""

FAULTS_NAME: Final = ("volcano-system", "vcjob-fault-npu-cm")
RESTARTS_NAME: Final = ("mindx-dl", "job-reschedule-reason")
"""Namespace and name of the ConfigMaps."""

BYTES_MAX: Final = 950 * 1024
"""Maximum bytes of a text (the vendor's): a ConfigMap holds 1 MiB."""
RETRIES_BYTES_MAX: Final = 64 * 1024
NODES_BYTES_MAX: Final = BYTES_MAX - RETRIES_BYTES_MAX

_DOMAIN: Final = "huawei.com/"
_SECOND: Final = 1_000_000_000
_DROPPED: Final = "the oldest records were left out: together they were larger than 950 KiB"


def are_fault_config_maps_due(state: State) -> bool:
    """Return whether one of them has changed since it was written."""
    return any(True for _ in _due(state))


def fault_config_maps(state: State) -> Iterator[ConfigMapRequest]:
    """Yield the requests to write those that have changed."""
    for what in _due(state):
        position = state.cluster.reschedulings.reports.changed_at[what]
        if what == FAULTS:
            data = {
                "fault-node": fault_nodes_text(state),
                "remain-retry-times": retries_text(state.cluster),
            }
            yield ConfigMapRequest(position, *FAULTS_NAME, data, what)
        else:
            data = {"recent-reschedule-records": records_text(state.cluster)}
            yield ConfigMapRequest(position, *RESTARTS_NAME, data, what)


def _due(state: State) -> Iterator[str]:
    reports = state.cluster.reschedulings.reports
    for what, changed_at in reports.changed_at.items():
        if reports.written_at.get(what, 0) < changed_at:
            if npu_arguments(state.cluster.plugins) is None:
                return
            yield what


def fault_nodes_text(state: State) -> str:
    """Return the nodes with chips that are not healthy, by name; as many as fit, without their faults if they do not."""
    entries = _fault_nodes(state)
    text = _text(entries)
    if len(text) > NODES_BYTES_MAX:
        text = _text([{**one, "FaultDeviceList": []} for one in entries])
    while len(text) > NODES_BYTES_MAX:
        entries = entries[: len(entries) * NODES_BYTES_MAX // len(text)]
        text = _text([{**one, "FaultDeviceList": []} for one in entries])
    return text


def _fault_nodes(state: State) -> list[JsonObject]:
    cluster, index = state.cluster, state.cluster.indexes.of(FaultyPods)
    found: list[JsonObject] = []
    for name in sorted(index.nodes):
        node = cluster.nodes.nodes.get(name)
        facts = None if node is None else node.facts
        state_of_node = health_of(index.nodes[name])
        if facts is None or state_of_node == HEALTHY or not _has_chips(facts):
            continue
        chips = [
            device
            for resource, one in facts.devices.items()
            if resource.startswith(_DOMAIN)
            for device in one.devices
        ]
        found.append(
            {
                "FaultDeviceList": _fault_objects(facts),
                "NodeName": name,
                "UnhealthyNPU": [one.name for one in chips if not one.is_healthy],
                "NetworkUnhealthyNPU": [
                    one.name for one in chips if one.is_healthy and not one.is_network_healthy
                ],
                "NodeHealthState": state_of_node,
                "UpdateTime": state.now_ns // _SECOND,
            }
        )
    return found


def _has_chips(facts: NodeFacts) -> bool:
    return any(one.startswith(_DOMAIN) for one in (*facts.devices, *facts.allocatable))


def _fault_objects(facts: NodeFacts) -> list[Json]:
    return [
        {
            "fault_type": one.type,
            "npu_name": one.device,
            "fault_handling": one.handling,
            "fault_code": one.codes,
        }
        for one in facts.health.faults
    ]


def retries_text(cluster: Cluster) -> str:
    """Return how often jobs may still be restarted because pods failed, those that used one last; as many as fit."""
    entries = {
        key: {"UUID": one.owner, "Times": one.left}
        for key, one in cluster.reschedulings.retries.items()
    }
    text = _text(entries)
    while len(text) > RETRIES_BYTES_MAX:
        count = len(entries) * RETRIES_BYTES_MAX // len(text)
        entries = dict(list(entries.items())[-count:])
        text = _text(entries)
    return text


def records_text(cluster: Cluster) -> str:
    """Return the restarts of jobs; if they are too many, without the oldest ones."""
    kept = dict(cluster.reschedulings.reports.records)
    text = _records_text(kept, "")
    while len(text) > BYTES_MAX:
        newest = sorted(one.records[0].at_ns for one in kept.values())
        least = newest[len(newest) - len(newest) * BYTES_MAX // len(text)]
        kept = {key: one for key, one in kept.items() if one.records[0].at_ns > least}
        text = _records_text(kept, _DROPPED)
    return text


def _records_text(kept: dict[str, JobRecords], additional: str) -> str:
    return _text(
        {
            key: {
                "JobID": key,
                "TotalRescheduleTimes": one.total,
                "RescheduleRecords": [_record(record) for record in one.records],
                "AdditionalInfo": additional,
            }
            for key, one in kept.items()
        }
    )


def _record(record: RescheduleRecord) -> JsonObject:
    at = datetime.fromtimestamp(record.at_ns // _SECOND, UTC)
    micro = record.at_ns % _SECOND // 1000
    return {
        "LogFileFormatTime": f"I{at:%m%d %H:%M:%S}.{micro:06}",
        "RescheduleTimeStamp": record.at_ns // _SECOND,
        "ReasonOfTask": [
            {
                "RescheduleReason": one.fault,
                "PodName": one.pod.rpartition("/")[2],
                "NodeName": one.node,
                "NodeRankIndex": str(one.rank) if one.rank >= 0 else "",
            }
            for one in record.reasons
        ],
    }


def _text(value: object) -> str:
    return msgspec.json.encode(value).decode()
