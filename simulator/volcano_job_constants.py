"""The events and actions of Volcano Job policies (volcano A.3)."""

from typing import Final

SYNC: Final = ""
"""No policy applies: the job is reconciled."""
RESTART_TASK: Final = "RestartTask"
RESTART_POD: Final = "RestartPod"
RESTART_PARTITION: Final = "RestartPartition"
RESTART_JOB: Final = "RestartJob"
ABORT_JOB: Final = "AbortJob"
TERMINATE_JOB: Final = "TerminateJob"
COMPLETE_JOB: Final = "CompleteJob"
RESUME_JOB: Final = "ResumeJob"

ACTIONS: Final = (
    *(ABORT_JOB, RESTART_JOB, RESTART_TASK, RESTART_POD, RESTART_PARTITION),
    *(TERMINATE_JOB, COMPLETE_JOB, RESUME_JOB),
)
EVENTS: Final = (
    *("*", "PodFailed", "PodEvicted", "PodPending", "PodRunning"),
    *("Unknown", "TaskCompleted", "TaskFailed"),
)
"""Events that a policy may name."""
INTERNAL_EVENTS: Final = ("OutOfSync", "CommandIssued", "JobUpdated")
"""Events internal to the controller."""

OPEN_QUEUE: Final = "OpenQueue"
CLOSE_QUEUE: Final = "CloseQueue"
QUEUE_ACTIONS: Final = (OPEN_QUEUE, CLOSE_QUEUE)
"""Actions of a Command on a queue."""
