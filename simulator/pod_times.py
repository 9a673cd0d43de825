"""How long pods take to start, run and stop in the simulated cluster, and how they end."""

from simulator.manifest import Manifest
from simulator.manifest_fields import run_ns, stop_ns


class PodTimes:
    """The times of a scenario: one start delay for all pods, the rest from the annotations of each pod.

    The `remaining_` times are those of a pod that was there when the simulation began.
    """

    def __init__(self, start_delay_ns: int = 0) -> None:
        self._start_delay_ns = start_delay_ns

    def start_ns(self, pod: Manifest) -> int:
        """Return the time from the binding of a pod until it runs."""
        return self._start_delay_ns

    def run_ns(self, pod: Manifest) -> int | None:
        """Return how long a pod runs; None for ever."""
        return run_ns(pod)

    def stop_ns(self, pod: Manifest) -> int | None:
        """Return how long a pod takes to stop; None if that is not stated."""
        return stop_ns(pod)

    def exit_code(self, pod: Manifest) -> int:
        """Return the exit code with which a pod ends by itself."""
        return 0

    def remaining_start_ns(self, pod: Manifest, now_ns: int) -> int:
        """Return the time until a pod runs that was bound before the simulation began."""
        return self.start_ns(pod)

    def remaining_run_ns(self, pod: Manifest, now_ns: int) -> int | None:
        """Return how much longer a pod runs that ran when the simulation began; None for ever."""
        return self.run_ns(pod)

    def remaining_stop_ns(self, pod: Manifest, now_ns: int) -> int | None:
        """Return how much longer a pod takes to stop that was stopping when the simulation began."""
        return self.stop_ns(pod)
