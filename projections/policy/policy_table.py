"""What policies can name: plugins and placement strategies."""

import re
from collections.abc import Iterable

from projections.policy.plugin_config import PolicyPlugin


class PolicyTable:
    """The plugins and the placement strategies that there are."""

    def __init__(
        self, plugins: Iterable[type[PolicyPlugin]] = (), strategies: Iterable[str] = ()
    ) -> None:
        self.plugins: dict[str, type[PolicyPlugin]] = {}
        """Name in the policy to the plugin: those of muster, and those that were installed beside it."""
        self.strategies = tuple(strategies)
        """Names of the placement strategies, in the order in which they are tried without rules."""
        self.add(*plugins)

    def add(self, *plugins: type[PolicyPlugin]) -> None:
        """Add plugins, before the first policy is read."""
        for one in plugins:
            self.plugins[one.name] = one

    def plugin_named(self, name: str) -> type[PolicyPlugin] | None:
        """Return the plugin that a policy means by a name, if there is one."""
        if name in self.plugins:
            return self.plugins[name]
        found = (one for one in self.plugins.values() if one.name_pattern)
        return next((one for one in found if re.fullmatch(one.name_pattern, name)), None)
