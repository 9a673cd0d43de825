"""Who stands beside the server and sees what really happens to pods."""

from events.normalize import normalize
from projections.state import State
from simulator.api_server.api import Api
from simulator.manifest_fields import name_of, node_of, section, uid_of
from simulator.object_store import Change

PATHS = {"Node": "nodes", "Pod": "pods", "PodGroup": "groups", "Queue": "queues"}


class Witness:
    """Notes each pod that is given a node, when it happens."""

    def __init__(self, api: Api) -> None:
        self.bound: dict[str, tuple[str, str]] = {}
        """UID to the pod's name and node, of every pod that was ever given one."""
        self.doubled: list[str] = []
        self._api = api
        api.simulated.store.listen(self._note)

    def _note(self, change: Change) -> None:
        if change.key[0] != "Pod":
            return
        if change.is_restored:
            # What happened since the snapshot did not happen.
            for one in filter(None, (change.before, change.after)):
                self.bound.pop(uid_of(one), None)
        if change.after is None or not node_of(change.after):
            return
        if section(change.after, "spec").get("schedulerName") != "muster":
            return
        uid, found = uid_of(change.after), (name_of(change.after), node_of(change.after))
        if self.bound.setdefault(uid, found) != found:
            self.doubled.append(f"{self.bound[uid]} became {found}")

    def there(self) -> dict[str, dict[str, str]]:
        """What the server holds, by kind: UID to the digest of what the log would hold of it."""
        versions = self._api.versions
        return {
            kind: {
                uid_of(one.manifest): normalize(one.raw).stored.digest for one in versions.now(kind)
            }
            for kind in PATHS
        }


def known(state: State) -> dict[str, dict[str, str]]:
    """What muster knows, in the same shape."""
    cluster = state.cluster
    nodes = [node for node in cluster.nodes.nodes.values() if node.facts is not None]
    groups = [group for group in cluster.groups.values() if group.observed.facts is not None]
    queues = [queue for queue in cluster.queues.values() if queue.facts is not None]
    return {
        "Node": {one.facts.uid: one.digest for one in nodes if one.facts},
        "Pod": {uid: one.digest for uid, one in cluster.pods.items()},
        "PodGroup": {
            one.observed.facts.uid: one.observed.digest for one in groups if one.observed.facts
        },
        "Queue": {one.facts.uid: one.digest for one in queues if one.facts},
    }
