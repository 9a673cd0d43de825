"""How long pods take to start, run and stop in a branch of a recorded past, as the record teaches."""

from statistics import median_low

from simulator.job_events import TASK_SPEC
from simulator.manifest import Manifest
from simulator.manifest_fields import controller_of, run_ns, section, stop_ns, text_at, uid_of
from simulator.pod_times import PodTimes
from simulator.what_if_history import RecordedPod


class RecordedTimes(PodTimes):
    """The recorded times of each pod.

    What is not recorded of a pod is taken from its annotations. Otherwise it starts and stops like the median pod, runs
    as long as the longest pod of its workload and role that ended by itself, or else for ever.
    """

    def __init__(self, pods: dict[str, RecordedPod]) -> None:
        self._pods = pods
        starts = [found for one in pods.values() if (found := _start_ns(one)) is not None]
        stops = [found for one in pods.values() if (found := _stop_ns(one)) is not None]
        self._start = median_low(starts) if starts else 0
        self._stop = median_low(stops) if stops else None
        self._runs: dict[tuple[str, str], int] = {}
        for one in pods.values():
            run = _run_ns(one)
            if run is not None and one.owner and not one.exit_code:
                key = one.owner, one.role
                self._runs[key] = max(run, self._runs.get(key, 0))

    def start_ns(self, pod: Manifest) -> int:
        """Return the time from the binding of a pod until it runs."""
        known = self._pods.get(uid_of(pod))
        found = None if known is None else _start_ns(known)
        return self._start if found is None else found

    def run_ns(self, pod: Manifest) -> int | None:
        """Return how long a pod runs; None for ever."""
        known = self._pods.get(uid_of(pod))
        found = None if known is None else _run_ns(known)
        if found is None:
            found = run_ns(pod)
        if found is None:
            role = text_at(section(pod, "metadata", "annotations"), TASK_SPEC)
            found = self._runs.get((controller_of(pod), role))
        return found

    def stop_ns(self, pod: Manifest) -> int | None:
        """Return how long a pod takes to stop; None if that is neither recorded nor stated."""
        known = self._pods.get(uid_of(pod))
        found = None if known is None else _stop_ns(known)
        if found is None:
            found = stop_ns(pod)
        return self._stop if found is None else found

    def exit_code(self, pod: Manifest) -> int:
        """Return the exit code with which a pod ends by itself."""
        known = self._pods.get(uid_of(pod))
        return 0 if known is None else known.exit_code

    def remaining_start_ns(self, pod: Manifest, now_ns: int) -> int:
        """Return the time until a pod runs that was bound before the branch begins."""
        known = self._pods.get(uid_of(pod))
        bound_ns = now_ns if known is None or known.bound_ns is None else known.bound_ns
        return max(0, bound_ns + self.start_ns(pod) - now_ns)

    def remaining_run_ns(self, pod: Manifest, now_ns: int) -> int | None:
        """Return how much longer a pod runs that ran when the branch begins; None for ever."""
        known = self._pods.get(uid_of(pod))
        since_ns = now_ns if known is None or known.running_ns is None else known.running_ns
        run = self.run_ns(pod)
        return None if run is None else max(0, since_ns + run - now_ns)

    def remaining_stop_ns(self, pod: Manifest, now_ns: int) -> int | None:
        """Return how much longer a pod takes to stop that was stopping when the branch begins. A pod that was never
        removed does not stop."""
        known = self._pods.get(uid_of(pod))
        since_ns = now_ns if known is None or known.stopping_ns is None else known.stopping_ns
        stop = _stop_ns(known) if known is not None else None
        stop = stop_ns(pod) if stop is None else stop
        return None if stop is None else max(0, since_ns + stop - now_ns)


def _start_ns(pod: RecordedPod) -> int | None:
    if pod.running_ns is None or pod.bound_ns is None:
        return None
    return max(0, pod.running_ns - pod.bound_ns)


def _run_ns(pod: RecordedPod) -> int | None:
    if pod.ended_ns is None or pod.running_ns is None:
        return None
    return pod.ended_ns - pod.running_ns


def _stop_ns(pod: RecordedPod) -> int | None:
    if pod.removed_ns is None or pod.stopping_ns is None:
        return None
    return max(0, pod.removed_ns - pod.stopping_ns)
