"""Hook of features: a ConfigMap that muster writes for operators and other programs."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator
from typing import TYPE_CHECKING, ClassVar

from events.messages import ConfigMapRequest

if TYPE_CHECKING:
    from projections.cluster import Cluster


class WrittenConfigMap(ABC):
    """Hook: one ConfigMap, written whenever its content has changed."""

    what: ClassVar[str]
    """Value of `what` in the outcomes of writing it."""
    namespace: ClassVar[str]
    name: ClassVar[str]

    @abstractmethod
    def is_due(self, cluster: Cluster) -> bool:
        """Return whether it has changed since it was written."""

    @abstractmethod
    def requests(self, cluster: Cluster) -> Iterator[ConfigMapRequest]:
        """Yield the request to write it, if it is due."""

    @abstractmethod
    def written(self, cluster: Cluster, position: int) -> None:
        """Record that its content as of a position was written, or rejected for good."""
