"""The annotations and labels of pod groups and pods that say how pools decide about a job (docs/pools.md), as they stand.

They are kept of every object, so that a later policy with pools finds them. The feature `pools` says what they mean.
"""

from abc import ABC, abstractmethod
from collections.abc import Mapping
from typing import TYPE_CHECKING, Final

from projections.pod_terms import Labels

if TYPE_CHECKING:
    from projections.cluster import Cluster
    from projections.config_errors import Pairs

POOL: Final = "muster.sh/pool"
JOB: Final = "muster.sh/job"
TASK: Final = "muster.sh/task"
PRIORITY: Final = "muster.sh/priority"
WEIGHT: Final = "muster.sh/weight"
MAX_SLOTS: Final = "muster.sh/max-slots"
POSITION: Final = "muster.sh/queue-position"
SUBMITTED: Final = "muster.sh/submitted-at"
PREEMPTIBLE: Final = "muster.sh/preemptible"
TIMEOUT: Final = "muster.sh/preemption-timeout"
SINGLE_NODE: Final = "muster.sh/single-node"
RELEASE_REQUESTED: Final = "muster.sh/release-requested"
"""Annotation of a pod that is asked to exit: the time at which it is evicted, RFC 3339."""
OWN: Final = (
    POOL,
    JOB,
    TASK,
    PRIORITY,
    WEIGHT,
    MAX_SLOTS,
    POSITION,
    SUBMITTED,
    PREEMPTIBLE,
    TIMEOUT,
    SINGLE_NODE,
    RELEASE_REQUESTED,
)
"""Keys of annotations; labels count, too."""

DETERMINED_POOL: Final = "determined.ai/resource_pool"
DETERMINED_TYPE: Final = "determined.ai/task_type"
DETERMINED_TASK: Final = "determined.ai/task_id"
DETERMINED_POSITION: Final = "determined-queue-position"
DETERMINED: Final = (DETERMINED_POOL, DETERMINED_TYPE, DETERMINED_TASK, DETERMINED_POSITION)
"""Labels that the Determined master writes on its pods."""
JOB_OPTION_KEYS: Final = frozenset((*OWN, *DETERMINED))
VALUE_CHARS_MAX: Final = 256


class OptionProblems(ABC):
    """A hook that reads what these keys say."""

    @abstractmethod
    def problems(self, stated: Labels) -> "Pairs":
        """Return code and message of values that cannot be used."""


def option_problems(cluster: "Cluster", stated: Labels) -> "Pairs":
    """Return code and message of the values of an object that cannot be used, whether the policy has pools or not."""
    if not stated:
        return ()
    hooks = cluster.features.table.of(OptionProblems)
    return tuple([problem for one in hooks for problem in one.problems(stated)])


def job_option_keys(annotations: Mapping[str, str], labels: Mapping[str, str]) -> Labels:
    """Return the keys of an object that the pool deciders read, sorted; a value that is too long is cut."""
    found: dict[str, str] = {}
    for key in OWN:
        value = annotations.get(key, labels.get(key))
        if value is not None:
            found[key] = value[:VALUE_CHARS_MAX]
    for key in DETERMINED:
        if key in labels:
            found[key] = labels[key][:VALUE_CHARS_MAX]
    return tuple(sorted(found.items())) if found else ()
