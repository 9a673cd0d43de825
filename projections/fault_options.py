"""What a job wants done after a fault: labels and annotations of its PodGroup and pods, and the defaults of the policy.

The keys are those of the Ascend stack (`docs/faults.md`); they count for jobs of any accelerator. A key of the PodGroup
counts before the same key of a pod; of pods, the first one that has it counts.
"""

from collections.abc import Mapping
from typing import TYPE_CHECKING, Final

from msgspec import Struct

from events.limits import clipped, quoted, whole_number
from projections.pod_terms import Labels

if TYPE_CHECKING:
    from projections.policy.action_arguments import RescheduleArguments

MODE: Final = "fault-scheduling"
RETRY_TIMES: Final = "fault-retry-times"
POD_RESCHEDULING: Final = "pod-rescheduling"
PROCESS_RECOVER: Final = "process-recover-enable"
SUB_HEALTHY_STRATEGY: Final = "subHealthyStrategy"
ELASTIC: Final = "elastic-scheduling"
RECOVER_POLICY_PATH: Final = "huawei.com/recover_policy_path"
PROCESS_RECOVER_STRATEGY: Final = "ProcessRecoverStrategy"
FAULT_TYPE: Final = "fault-type"
"""Label of a pod by which a recovery controller says that it is faulty."""
INFERENCE_SERVICE: Final = "ome.io/inferenceservice"
APP: Final = "app"
_INFERENCE_APPS: Final = ("mindie-ms-controller", "mindie-ms-coordinator")

LABELS: Final = (
    MODE,
    RETRY_TIMES,
    POD_RESCHEDULING,
    PROCESS_RECOVER,
    SUB_HEALTHY_STRATEGY,
    ELASTIC,
    INFERENCE_SERVICE,
    APP,
)
OPERATION: Final = "needVolcanoOpe"
"""Annotation of a pod by which a recovery controller asks for its deletion (`delete`)."""
BACKUP: Final = "backupNewPodName"
"""Annotation of a pod that names the one which is to take its place."""
BACKUP_OF: Final = "backupSourcePodName"
"""Annotation of that one, which names the pod whose place it takes."""
ANNOTATIONS: Final = (
    RECOVER_POLICY_PATH,
    PROCESS_RECOVER_STRATEGY,
    OPERATION,
    BACKUP,
    BACKUP_OF,
)
VALUE_CHARS_MAX: Final = 128
"""Maximum length of a value; a longer one is cut."""

OFF: Final = "off"
FORCE: Final = "force"
GRACE: Final = "grace"
EXTERNAL_FORCE: Final = "external-force"
EXTERNAL_GRACE: Final = "external-grace"
MODES: Final = (OFF, FORCE, GRACE, EXTERNAL_FORCE, EXTERNAL_GRACE)

IGNORE: Final = "ignore"
GRACE_EXIT: Final = "graceExit"
FORCE_EXIT: Final = "forceExit"
HOT_SWITCH: Final = "hotSwitch"
STRATEGIES: Final = (IGNORE, GRACE_EXIT, FORCE_EXIT, HOT_SWITCH)


class FaultOptions(Struct, frozen=True):
    """What a job wants done after a fault."""

    mode: str = OFF
    """One of `MODES`."""
    retry_times: int = 0
    """Number of restarts because pods failed."""
    moves_pods_only: bool = False
    """Whether healthy pods stay, as long as the job is complete in time."""
    recovers_processes: bool = False
    """Whether a recovery controller restarts processes: healthy pods stay."""
    sub_healthy_strategy: str = IGNORE
    """One of `STRATEGIES`."""
    recovers_outside: bool = False
    """Whether another controller handles all faults of the job."""
    is_stated: bool = False
    """Whether the job states its mode itself."""
    never_escalates: bool = False
    """Whether healthy pods stay, whatever happens."""

    @property
    def is_on(self) -> bool:
        """Return whether pods are deleted or marked after faults."""
        return self.mode != OFF and not self.recovers_outside

    @property
    def is_external(self) -> bool:
        """Return whether pods are marked instead of deleted."""
        return self.mode in (EXTERNAL_FORCE, EXTERNAL_GRACE)


def stated_options(annotations: Mapping[str, str], labels: Mapping[str, str]) -> Labels:
    """Return the keys of an object that say what is wanted after a fault, sorted."""
    found = {key: annotations[key][:VALUE_CHARS_MAX] for key in ANNOTATIONS if key in annotations}
    for key in LABELS:
        if key in labels:
            found[key] = labels[key][:VALUE_CHARS_MAX]
    return tuple(sorted(found.items())) if found else ()


def mode_problem(stated: Labels) -> str:
    """Return why a stated mode cannot be used; "" if it can, or if none is stated."""
    mode = dict(stated).get(MODE, OFF)
    if mode in MODES:
        return ""
    return clipped(
        f"label {MODE}: not support {quoted(mode)} to reschedule job: nothing is done after a fault"
    )


def read_options(given: Mapping[str, str], defaults: "RescheduleArguments") -> FaultOptions:
    """Return the options that keys and values state, with defaults for those that they do not."""
    mode = given.get(MODE, defaults.mode)
    retries = whole_number(given[RETRY_TIMES]) if RETRY_TIMES in given else defaults.retry_times
    strategy = given.get(SUB_HEALTHY_STRATEGY, IGNORE)
    is_inference = INFERENCE_SERVICE in given or given.get(APP) in _INFERENCE_APPS
    moves_pods = given.get(POD_RESCHEDULING)
    return FaultOptions(
        mode=mode if mode in MODES else OFF,
        retry_times=max(0, retries or 0),
        moves_pods_only=defaults.moves_pods_only if moves_pods is None else moves_pods == "on",
        recovers_processes=given.get(PROCESS_RECOVER) == "on",
        sub_healthy_strategy=strategy if strategy in STRATEGIES else IGNORE,
        is_stated=MODE in given,
        recovers_outside=PROCESS_RECOVER_STRATEGY in given or given.get(ELASTIC) == "on",
        never_escalates=is_inference or given.get(RECOVER_POLICY_PATH) == "pod",
    )
