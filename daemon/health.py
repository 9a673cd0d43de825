"""How the daemon is: whether it is ready, why not, and whether it still moves.

Two questions that must not be mixed up. *Ready* is what people and load balancers ask: is there a reason
why this daemon does not do what it is for? A standby that follows the log is ready. *Live* is what a
supervisor asks before it kills: does everything that has to move still move? An API server that is away
is a reason not to be ready, and none to be killed: a new process would not reach it either.
"""

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Final, Protocol

REASONS: Final[Mapping[str, str]] = {
    "start": "The log is being opened, or folded up to its end. A long log without a snapshot takes a "
    "while.",
    "log": "The log cannot be written (disk full, database away, lock held), or has lost its end. Nothing is decided or "
    "done until it can; what the cluster shows is kept within a bound. A log that lost its end ends the daemon, with exit code 4.",
    "cycle": "A cycle, or the intake of a batch of watch events, has taken more than 10 s. Nothing else is decided "
    "until it ends; the Lease is renewed and requests under way are answered.",
    "clock": "The machine's clock is more than a minute away from the time in which deadlines are kept: it was "
    "set, or an earlier clock was wrong. A warning only: time is corrected gradually, cycles and bindings go on, "
    "and the daemon stays ready.",
    "api": "The API server cannot be reached, its certificate is not trusted, or it does not take our "
    "credentials.",
    "lists": "The kinds named have not been listed since the start: nothing is decided before each is.",
    "watch": "The kind cannot be watched. Where a permission is missing, the verb and the resource are "
    "named; it is tried again each minute.",
    "behind": "Events of the kind named come more than a minute after the objects were written, so that what is decided is as old: the API "
    "server is overloaded, or its clock is wrong. A warning only.",
    "access": "The permissions named are missing, as the API server said when it was asked at the start.",
    "reports": "Device reports of the kind named were not updated for longer than their writers ever take (600 s for a device "
    "plugin, 60 s for ClusterD). A warning only: the devices last reported stand, and none becomes free.",
    "policy": "The policy file was changed, and its content cannot be put into force: it cannot be read, or it keeps no quotas and "
    "does not say so. A warning only: the policy in force is the one before.",
    "decisions": "Bound pods name decisions that this log does not have, as after the loss of its end. A warning and a hint only: the "
    "owner of a pod can write its annotation.",
    "rejections": "Kubelets rejected pods, so the nodes named are closed for a while to pods of the tenants named, or to all pods if "
    "pods of several tenants were rejected. A warning only.",
    "guarantees": "The guarantees of the queues named cannot be kept: alone or together they are more than the cluster has. They count as the "
    "[policy](policy.md#capacity) says, and stop no other queue. A warning only.",
    "use": "Queues or namespaces that rules of the policy or of a Queue name do not exist. A warning only: such a rule permits "
    "nothing, and takes effect as soon as they exist.",
    "leadership": "It is not known whether this daemon leads: its Lease can be neither read nor written.",
    "standby": "The log cannot be followed: taking over would begin with a fold. Or it ends before what the Lease states, as on a replica "
    "that lags: this daemon does not take over then.",
    "stop": "The daemon is stopping.",
}
"""Every reason there is. What follows a slash says of what, as in `watch/Pod`."""

WARNINGS: Final = frozenset(
    {"behind", "clock", "decisions", "guarantees", "policy", "rejections", "reports", "use"}
)
"""Reasons that are shown and do not make the daemon unready: it does what it is for. A stopped device plugin is that of a node; a correction of the time may
last for weeks, and a rolling update waits for readiness; with a policy file that is refused, the policy before it stays in force."""

REASONS_TELL: Final = (
    "Behind a slash stands what it is about, as in `watch/Pod`. The text beside it names the permission, the "
    "kinds, the address or the error."
)
"""Said below the list of reasons in the manual."""

LOOP_SECONDS: Final = 60.0
"""Within which the loop has to have turned, unless it said that it would take longer."""

_SECOND_NS: Final = 1_000_000_000


class Asked(Protocol):
    """A part that reports its health at any moment, at once and without side effects."""

    def reasons(self) -> Mapping[str, str]:
        """Reasons not to be ready, under keys as `Health.set` takes them."""

    def still(self) -> Mapping[str, float]:
        """What should move and does not, and for how many seconds."""


class Health:
    """Reasons why the daemon is not ready, and pulses of what has to keep moving.

    It begins with the reason `start`. Everything here is called from one thread and costs next to nothing.
    """

    def __init__(self, elapsed_ns: Callable[[], int]) -> None:
        self._elapsed_ns = elapsed_ns
        self._reasons = {"start": "the daemon has only begun"}
        self._pulses: dict[str, tuple[int, float]] = {}
        self._asked: list[Asked] = []
        self._noting: list[Callable[[], Mapping[str, str]]] = []
        self.role = "starting"
        """`starting`, `leader`, `standby` or `stopping`."""

    def set(self, key: str, reason: str) -> None:
        """There is a reason not to be ready; one of REASONS, with what it is about behind a slash."""
        assert key.partition("/")[0] in REASONS, f"{key} is not a reason that the manual explains"
        self._reasons[key] = reason

    def clear(self, key: str) -> None:
        """The reason is gone, if it was there."""
        self._reasons.pop(key, None)

    def stands(self, key: str) -> bool:
        """Whether this reason was set and is not gone."""
        return key in self._reasons

    @contextmanager
    def asking(self, asked: Asked) -> Iterator[None]:
        """Ask someone at each look, for as long as the block lasts."""
        self._asked.append(asked)
        try:
            yield
        finally:
            self._asked.remove(asked)

    @property
    def reasons(self) -> dict[str, str]:
        """Key to reason, by name; warnings included."""
        found = dict(self._reasons)
        for one in self._asked:
            found.update(one.reasons())
        return dict(sorted(found.items()))

    @contextmanager
    def noting(self, notes: Callable[[], Mapping[str, str]]) -> Iterator[None]:
        """Ask for notes at each look, for as long as the block lasts."""
        self._noting.append(notes)
        try:
            yield
        finally:
            self._noting.remove(notes)

    @property
    def notes(self) -> dict[str, str]:
        """Key to what people should know, by name: neither a reason nor a warning."""
        found = {key: text for ask in self._noting for key, text in ask().items()}
        return dict(sorted(found.items()))

    @property
    def blocking(self) -> dict[str, str]:
        """The reasons without the warnings."""
        return {
            key: text for key, text in self.reasons.items() if key.partition("/")[0] not in WARNINGS
        }

    @property
    def is_ready(self) -> bool:
        """Whether there is no reason against it."""
        return not self.blocking

    @property
    def has_begun(self) -> bool:
        """Whether the start is over, ready or not."""
        return "start" not in self._reasons

    def beat(self, key: str = "loop", within_seconds: float = LOOP_SECONDS) -> None:
        """What `key` names moves. Unless it does so again within the bound, it stands still.

        The loop beats with each turn and while it waits for the log; a watch with each line and each try.
        """
        self._pulses[key] = (self._elapsed_ns(), within_seconds)

    def rest(self, key: str = "loop") -> None:
        """It has ended in good order, or waits for something that may never come."""
        self._pulses.pop(key, None)

    @property
    def still(self) -> dict[str, float]:
        """What should move and does not, and for how many seconds now."""
        now = self._elapsed_ns()
        ages = ((key, (now - at) / _SECOND_NS, bound) for key, (at, bound) in self._pulses.items())
        found = {key: age for key, age, bound in ages if age > bound}
        for one in self._asked:
            found.update(one.still())
        return dict(sorted(found.items()))

    @property
    def is_live(self) -> bool:
        """Whether everything that has to move does."""
        return not self.still
