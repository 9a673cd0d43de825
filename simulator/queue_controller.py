"""Queues that are opened and closed by command, as Volcano's queue controller does (volcano A.1).

A queue that is closed while it has pod groups is Closing, and Closed when the last of them is gone.
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
    """It keeps the state of queues that somebody closed."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._closing: dict[Key, None] = {}

    def command(self, name: str, action: str) -> None:
        """Somebody opens or closes a queue."""
        key: Key = ("Queue", "", name)
        queue = self._store.find(key)
        if queue is None:
            return
        if action != CLOSE_QUEUE:
            self._closing.pop(key, None)
            self._tell(queue, OPEN)
        elif self._has_groups(name):
            self._closing[key] = None
            self._tell(queue, CLOSING)
        else:
            self._tell(queue, CLOSED)

    def on_change(self, change: Change) -> None:
        """An object changed; it may have been the last pod group of a queue that is closing."""
        if not self._closing or change.key[0] != "PodGroup":
            return
        for key in list(self._closing):
            queue = self._store.find(key)
            if queue is None or not self._has_groups(key[2]):
                del self._closing[key]
                if queue is not None:
                    self._tell(queue, CLOSED)

    def _has_groups(self, name: str) -> bool:
        groups = self._store.objects().get("PodGroup", {}).values()
        return any((text_at(section(one, "spec"), "queue") or "default") == name for one in groups)

    def _tell(self, queue: Manifest, state: str) -> None:
        if text_at(section(queue, "status"), "state") != state:
            self._store.put(_QUEUE, changed(queue, "status", state=state))
