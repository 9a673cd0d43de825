"""Which pods use a claim on which node: a volume that one node or one pod may use at a time limits the others."""

from typing import TYPE_CHECKING, ClassVar, Final

from projections.deltas import PodWithClaimsChanged
from projections.index import Index
from projections.pods import FAILED, SUCCEEDED, Pod
from projections.volumes.facts import CLAIM
from projections.wakeup_events import ALL_VOLUMES

if TYPE_CHECKING:
    from projections.cluster import Cluster

SUBJECTS_MAX: Final = 10_000
"""If more claims, volumes, classes and drivers than this have changed since the last cycle, all count as changed."""


class ClaimUsers(Index):
    """Claims of pods that have a node, and are not over; a pod that is terminating still uses its claims."""

    name = "users of claims"
    COMPARED: ClassVar[tuple[str, ...]] = ("pods", "waiting")

    def __init__(self) -> None:
        self.pods: dict[str, dict[str, str]] = {}
        """Claim (`namespace/name`) to the UIDs of its pods and their nodes."""
        self.waiting: dict[str, int] = {}
        """Claim to the number of pods that name it and have no node yet."""
        self.version = 0
        """Grows with every change that could matter to a pod with claims."""
        self.trial: dict[str, dict[str, str]] = {}
        """Claim to the pods that a decision tries on a node, UID to node; and under an empty UID the node for which it is
        kept."""

    def rebuilt(self, cluster: "Cluster", /) -> "ClaimUsers":
        """Find the users of all claims again."""
        twin = ClaimUsers()
        for pod in cluster.pods.values():
            if pod.pod_class.claims:
                twin._add(pod, 1)
        return twin

    def on_pod_with_claims(self, cluster: "Cluster", delta: PodWithClaimsChanged) -> None:
        """Update the users of the claims of a pod; wake those that wait for one that is no longer used there."""
        self.version += 1
        before = {} if delta.old is None else self._add(delta.old, -1)
        after = {} if delta.new is None else self._add(delta.new, 1)
        for claim, node in before.items():
            if after.get(claim) != node:
                wake_for_volumes(cluster, f"{CLAIM}/{claim}")

    def _add(self, pod: Pod, sign: int) -> dict[str, str]:
        """Add (1) or remove (-1) a pod; return the claims that it uses, with its node."""
        uid, is_over = pod.facts.uid, pod.status in (SUCCEEDED, FAILED)
        claims = {one.claim: pod.node for one in pod.pod_class.claims}
        if is_over:
            return {}
        for claim, node in claims.items():
            if not node:
                self.waiting[claim] = self.waiting.get(claim, 0) + sign
                if not self.waiting[claim]:
                    del self.waiting[claim]
            elif sign > 0:
                self.pods.setdefault(claim, {})[uid] = node
            elif uid in self.pods.get(claim, {}):
                del self.pods[claim][uid]
                if not self.pods[claim]:
                    del self.pods[claim]
        return {claim: node for claim, node in claims.items() if node}

    def try_pod(self, pod: Pod, node: str) -> None:
        """Let a pod that a decision tries on a node use its claims."""
        self.version += 1
        for one in pod.pod_class.claims:
            self.trial.setdefault(one.claim, {})[pod.facts.uid] = node

    def keep(self, claim: str, node: str) -> None:
        """Keep a claim for a node before the first of the pods that share it is tried there."""
        self.version += 1
        self.trial.setdefault(claim, {})[""] = node

    def leave_out(self, pod: Pod) -> None:
        """Undo `try_pod`."""
        self.version += 1
        for one in pod.pod_class.claims:
            self._drop(one.claim, pod.facts.uid)

    def stop_keeping(self, claim: str) -> None:
        """Undo `keep`."""
        self.version += 1
        self._drop(claim, "")

    def _drop(self, claim: str, uid: str) -> None:
        tried = self.trial.get(claim, {})
        tried.pop(uid, None)
        if not tried:
            self.trial.pop(claim, None)


def wake_for_volumes(cluster: "Cluster", subject: str) -> None:
    """Record that a claim, volume, storage class or driver has changed, for pods that wait for it; nothing is recorded
    while no pod with a claim waits."""
    users = cluster.indexes.of(ClaimUsers)
    users.version += 1  # Also where no pod waits: a mask that is kept may be out of date.
    changed = cluster.wakeup_events.volumes_changed
    if not users.waiting:
        return
    cluster.follow_change_of_all()
    if ALL_VOLUMES in changed:
        return
    if len(changed) >= SUBJECTS_MAX:
        changed.clear()
        subject = ALL_VOLUMES
    changed[subject] = None
