"""What the vendor's scheduler writes about faults for people and other programs: nodes and retries in
`vcjob-fault-npu-cm`, restarts of jobs and their reasons in `job-reschedule-reason`. Only where the policy has `volcano-npu`.
"""

from abc import abstractmethod
from collections.abc import Iterator
from datetime import UTC, datetime
from typing import Final

import msgspec

from events.duration import SECOND
from events.messages import ConfigMapRequest
from events.normalize import Json, JsonObject
from features.ascend.inventory import DOMAIN
from projections.cluster import Cluster
from projections.device_report import HEALTHY
from projections.faulty_pods import FaultyPods
from projections.node_faults import health_of
from projections.nodes import NodeFacts
from projections.reschedule_records import JobRecords, RescheduleRecord
from projections.written_config_map import WrittenConfigMap

FAULTS: Final = "faults"
RESTARTS: Final = "restarts"
"""Values of `what` in outcomes."""

BYTES_MAX: Final = 950 * 1024
"""Maximum bytes of a text (the vendor's): a ConfigMap holds 1 MiB."""
RETRIES_BYTES_MAX: Final = 64 * 1024
NODES_BYTES_MAX: Final = BYTES_MAX - RETRIES_BYTES_MAX

_DROPPED: Final = "the oldest records were left out: together they were larger than 950 KiB"


class FaultConfigMap(WrittenConfigMap):
    """One of these ConfigMaps. What is written, and up to where, is in the reports of `Cluster.reschedulings`."""

    def is_due(self, cluster: Cluster) -> bool:
        """Return whether it has changed since it was written."""
        reports = cluster.reschedulings.reports
        changed_at = reports.changed_at.get(self.what)
        return changed_at is not None and reports.written_at.get(self.what, 0) < changed_at

    def requests(self, cluster: Cluster) -> Iterator[ConfigMapRequest]:
        """Yield the request to write it, if it is due."""
        if self.is_due(cluster):
            position = cluster.reschedulings.reports.changed_at[self.what]
            data = self.data(cluster)
            yield ConfigMapRequest(position, self.namespace, self.name, data, self.what)

    def written(self, cluster: Cluster, position: int) -> None:
        """Record up to which position it was written."""
        cluster.reschedulings.reports.written_at[self.what] = position

    @abstractmethod
    def data(self, cluster: Cluster) -> dict[str, str]:
        """Return its data."""


class FaultNodes(FaultConfigMap):
    """Nodes with faults, and the retries that are left to jobs."""

    what = FAULTS
    namespace, name = "volcano-system", "vcjob-fault-npu-cm"

    def data(self, cluster: Cluster) -> dict[str, str]:
        """Return nodes and retries, as JSON."""
        return {
            "fault-node": self.nodes_text(cluster),
            "remain-retry-times": self.retries_text(cluster),
        }

    def nodes_text(self, cluster: Cluster) -> str:
        """Return the nodes with chips that are not healthy, by name; as many as fit, without their faults if they do not."""
        entries = self._entries(cluster)
        text = _text(entries)
        if len(text) > NODES_BYTES_MAX:
            text = _text([{**one, "FaultDeviceList": []} for one in entries])
        while len(text) > NODES_BYTES_MAX:
            entries = entries[: len(entries) * NODES_BYTES_MAX // len(text)]
            text = _text([{**one, "FaultDeviceList": []} for one in entries])
        return text

    def retries_text(self, cluster: Cluster) -> str:
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

    def _entries(self, cluster: Cluster) -> list[JsonObject]:
        index = cluster.indexes.of(FaultyPods)
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
                if resource.startswith(DOMAIN)
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
                    "UpdateTime": cluster.now_ns // SECOND,
                }
            )
        return found


class RestartRecords(FaultConfigMap):
    """Restarts of jobs, and their reasons."""

    what = RESTARTS
    namespace, name = "mindx-dl", "job-reschedule-reason"

    def data(self, cluster: Cluster) -> dict[str, str]:
        """Return the latest restarts, as JSON."""
        return {"recent-reschedule-records": self.records_text(cluster)}

    def records_text(self, cluster: Cluster) -> str:
        """Return the restarts of jobs; if they are too many, without the oldest ones."""
        kept = dict(cluster.reschedulings.reports.records)
        text = _records_text(kept, "")
        while len(text) > BYTES_MAX:
            newest = sorted(one.records[0].at_ns for one in kept.values())
            least = newest[len(newest) - len(newest) * BYTES_MAX // len(text)]
            kept = {key: one for key, one in kept.items() if one.records[0].at_ns > least}
            text = _records_text(kept, _DROPPED)
        return text


def _has_chips(facts: NodeFacts) -> bool:
    return any(one.startswith(DOMAIN) for one in (*facts.devices, *facts.allocatable))


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
    at = datetime.fromtimestamp(record.at_ns // SECOND, UTC)
    micro = record.at_ns % SECOND // 1000
    return {
        "LogFileFormatTime": f"I{at:%m%d %H:%M:%S}.{micro:06}",
        "RescheduleTimeStamp": record.at_ns // SECOND,
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
