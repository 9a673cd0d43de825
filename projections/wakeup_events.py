"""What changed: since the last cycle (for deciding), and since the views were last written (for rows)."""

from typing import Final

from msgspec import Struct, field

ALL_RESOURCES: Final = "*"
"""In place of a resource: all of them."""

ALL_PODS: Final = "*"
"""In place of a kind of pod: all of them."""

Names = dict[str, None]
"""An ordered set of names."""


class WakeupEvents(Struct):
    """What happened since the last cycle that could change an answer."""

    groups: Names = field(default_factory=dict)
    """Keys of pod groups that changed."""
    nodes_freed: dict[str, int] = field(default_factory=dict)
    """Nodes that came, changed, or got something back, and the position of the record of that."""
    nodes_updated: Names = field(default_factory=dict)
    """Nodes whose objects came or changed."""
    nodes_freed_at: int = 0
    """Position of the record that did so last."""
    quota_released: dict[str, Names] = field(default_factory=dict)
    """Queues that got something back or were allowed more, and of what; or of EVERYTHING."""
    quota_released_at: dict[str, int] = field(default_factory=dict)
    """Queue to the position of the record that did so last."""
    victims_added: dict[str, int] = field(default_factory=dict)
    """Queues with pods that came to stand where they may be evicted, and the lowest priority of these."""
    met: Names = field(default_factory=dict)
    """Kinds of pods that came to stand on a node or left one (`regards.met_key`), or EVERYONE; kept only where
    pods look at each other."""
    hyper_nodes_changed_at: int = 0
    """Position of the record that changed HyperNodes last; 0 where none did."""
    everything: bool = False
    """Whether the rules themselves changed."""

    @property
    def is_empty(self) -> bool:
        """Whether nothing happened."""
        happened = (
            self.groups or self.nodes_freed or self.quota_released or self.victims_added or self.met
        )
        return not (happened or self.hyper_nodes_changed_at or self.everything)


class ChangedRows(Struct):
    """Keys whose rows may have changed since the views were last written."""

    queues: Names = field(default_factory=dict)
    nodes: Names = field(default_factory=dict)
    groups: Names = field(default_factory=dict)
    pods: Names = field(default_factory=dict)
    topology: Names = field(default_factory=dict)
