"""Features: what a policy names, and a cluster may do without. Each is one folder of `features/`.

A feature brings *hooks* and *indexes*. A hook is an object of a class that stands beside the code that calls it: a
placement strategy, an observed kind, rows of a view, a ConfigMap that is written. All features are in one table
(`features/table.py`), which State is given. Of a feature that the policy in force does not name there is no index, and no
hook is called; only what its objects say is read with them, so that a later policy finds it there.
"""

from collections.abc import Callable, Iterable, Iterator
from typing import TypeVar

from msgspec import Struct

from projections.policy.placement_rules import STRATEGIES, NamedStrategy
from projections.policy.plugin_config import PolicyPlugin
from projections.policy.policy import Policy
from projections.policy.policy_table import PolicyTable
from projections.pool_members import PoolMembers
from projections.wakeup_events import WakeupFollower

HookT = TypeVar("HookT")


def always(_policy: Policy) -> bool:
    """Return True: any policy names the feature."""
    return True


class Feature(Struct, frozen=True, kw_only=True):
    """What one feature brings."""

    name: str
    is_named: Callable[[Policy], bool] = always
    """Returns whether a policy names it. One that objects name instead, such as a device family, is there always."""
    plugins: tuple[type[PolicyPlugin], ...] = ()
    """Plugins that policies can name because of it."""
    hooks: tuple[object, ...] = ()
    """Objects of the classes that other modules ask for (`Features.of`), in the order in which they are called."""
    tables: tuple[type[Struct], ...] = ()
    """Tables of facts (`projections/tables.py`) that no object states."""
    indexes: tuple[Callable[[], object], ...] = ()
    """Each returns an index (`projections/index.py`), empty; later ones may read earlier ones."""


class Features:
    """Some features, in their order in the table."""

    def __init__(self, features: Iterable[Feature] = (), hooks: Iterable[object] = ()) -> None:
        self._features = tuple(features)
        found: dict[type[object], list[object]] = {}
        for one in (*hooks, *(one for feature in self._features for one in feature.hooks)):
            for kind in type(one).__mro__:
                found.setdefault(kind, []).append(one)
        self._by_hook = {kind: tuple(of_kind) for kind, of_kind in found.items()}

    def __iter__(self) -> Iterator[Feature]:
        """Yield the features in their order."""
        return iter(self._features)

    def of(self, hook: type[HookT]) -> tuple[HookT, ...]:
        """Return the hooks of a class: those that belong to no feature, then those that the features bring, in their order."""
        return self._by_hook.get(hook, ())  # type: ignore[return-value]  # each is an instance of the hook

    @property
    def tables(self) -> tuple[type[Struct], ...]:
        """Return the types of the tables of the features."""
        return tuple([one for feature in self._features for one in feature.tables])

    @property
    def indexes(self) -> tuple[Callable[[], object], ...]:
        """Return what makes the indexes of the features."""
        return tuple([one for feature in self._features for one in feature.indexes])


class FeatureTable(Features):
    """All features that there are, and the plugins and hooks that belong to none."""

    def __init__(
        self,
        features: Iterable[Feature] = (),
        plugins: Iterable[type[PolicyPlugin]] = (),
        hooks: Iterable[object] = (),
    ) -> None:
        super().__init__(features, hooks)
        brought = (one for feature in self for one in feature.plugins)
        strategies = (*(one.name for one in self.of(NamedStrategy)), *STRATEGIES)
        self.policy_table = PolicyTable((*plugins, *brought), strategies)
        """What policies can name."""

    def named_by(self, policy: Policy) -> "NamedFeatures":
        """Return the features that a policy names."""
        return NamedFeatures(self, [one for one in self if one.is_named(policy)])


class NamedFeatures(Features):
    """The features that the policy in force names."""

    def __init__(self, table: FeatureTable, features: Iterable[Feature] = ()) -> None:
        super().__init__(features)
        self.table = table
        """All features that there are."""
        self.wakeup_followers = self.of(WakeupFollower)
        self.pool_members = next(iter(self.of(PoolMembers)), None)
        """What divides nodes and pod groups among pools; None if all are in one."""
