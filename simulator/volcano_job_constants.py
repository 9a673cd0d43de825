"""The events and actions that policies of Volcano Jobs are made of (volcano A.3)."""

from typing import Final

SYNC: Final = ""
"""No policy says anything: the job is kept as it should be."""
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
"""Those that a policy may name."""
INTERNAL_EVENTS: Final = ("OutOfSync", "CommandIssued", "JobUpdated")
"""Those that the controller keeps to itself."""

OPEN_QUEUE: Final = "OpenQueue"
CLOSE_QUEUE: Final = "CloseQueue"
QUEUE_ACTIONS: Final = (OPEN_QUEUE, CLOSE_QUEUE)
"""What a command may demand of a queue."""
