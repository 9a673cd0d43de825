"""Volcano's queue controller: it opens and closes queues by Command (volcano A.1).

A closed queue is Closing while it has pod groups, and Closed when the last of them is gone.
"""

from typing import Final

from simulator.manifest import Manifest
from simulator.manifest_fields import changed, section, text_at
from simulator.object_store import Change, Key, Store
from simulator.scenario import kind_named
from simulator.volcano_job_constants import CLOSE_QUEUE

_QUEUE: Final = kind_named("Queue")
OPEN: Final = "Open"
CLOSING: Final = "Closing"
CLOSED: Final = "Closed"


class QueueController:
    """Keeps the state of closed queues."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._closing: dict[Key, None] = {}

    def command(self, name: str, action: str) -> None:
        """Open or close a queue."""
        key: Key = ("Queue", "", name)
        queue = self._store.find(key)
        if queue is None:
            return
        if action != CLOSE_QUEUE:
            self._closing.pop(key, None)
            self._update_status(queue, OPEN)
        elif self._has_groups(name):
            self._closing[key] = None
            self._update_status(queue, CLOSING)
        else:
            self._update_status(queue, CLOSED)

    def on_change(self, change: Change) -> None:
        """React to a changed object, which may be the last pod group of a closing queue."""
        if not self._closing or change.key[0] != "PodGroup":
            return
        for key in list(self._closing):
            queue = self._store.find(key)
            if queue is None or not self._has_groups(key[2]):
                del self._closing[key]
                if queue is not None:
                    self._update_status(queue, CLOSED)

    def _has_groups(self, name: str) -> bool:
        groups = self._store.objects().get("PodGroup", {}).values()
        return any((text_at(section(one, "spec"), "queue") or "default") == name for one in groups)

    def _update_status(self, queue: Manifest, state: str) -> None:
        if text_at(section(queue, "status"), "state") != state:
            self._store.put(_QUEUE, changed(queue, "status", state=state))
