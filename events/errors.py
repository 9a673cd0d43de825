"""What can go wrong, and whose fault it is.

Errors of the log, of the outside and of the user are distinct, because each ends the command with
its own exit code. What the domain allows (a refused bind, a pod that fits nowhere) is never an error.
"""


class MusterError(Exception):
    """Something went wrong that the caller could not have known."""

    exit_code = 70


class UsageError(MusterError):
    """An input of the user's is wrong: it names the file, the line or the key."""

    exit_code = 2


class DocumentError(UsageError):
    """A document (a scenario, a policy, settings) cannot be read: it names the file, the line and the reason."""


class SettingsError(UsageError):
    """A setting is wrong: it names the key and the file."""


class PolicyError(UsageError):
    """A value in the policy is malformed: it names the path inside the policy."""


class ManifestError(UsageError):
    """A Kubernetes object cannot be read: it names the object and the field."""


class LogError(MusterError):
    """The log cannot be trusted or written."""

    exit_code = 3


class DamagedLogError(LogError):
    """The log is damaged: it names the position."""

    exit_code = 4


class LostRecordsError(DamagedLogError):
    """The log ends before a record that it is known to have had, or has another one there: it names both positions."""


class UnreadableRecordError(DamagedLogError):
    """A record cannot be decoded: it names the position."""


class NewerRecordError(LogError):
    """A record or a log was written by a newer release: stop; the bytes stay as they are."""

    exit_code = 5


class FencedError(LogError):
    """Another leader holds the log: stop all effects."""


class LogUnavailableError(LogError):
    """The log cannot be reached or written just now: stop deciding, keep observing."""


class LogLockedError(LogError):
    """Another daemon holds the lock on this log."""


class ClusterError(MusterError):
    """The cluster did not answer as it should."""

    exit_code = 3
