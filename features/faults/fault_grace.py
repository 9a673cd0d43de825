"""Hook: how long pods that are deleted after a fault may take to end."""

from abc import abstractmethod

from projections.plugin import Plugin


class FaultGrace(Plugin):
    """Hook: how long pods that are deleted after a fault may take to end."""

    @property
    @abstractmethod
    def grace_ns(self) -> int:
        """Return the time until such pods are deleted by force, where the policy states none."""
