"""Plugins that were installed beside muster: Python packages with an entry point in the group `muster.plugins`."""

from importlib.metadata import EntryPoint, entry_points
from typing import Final

from events.errors import SettingsError
from projections.plugin import Plugin
from projections.policy.policy_table import PolicyTable

GROUP: Final = "muster.plugins"


def load_plugins() -> None:
    """Add all installed plugins to the table.

    Raises:
        SettingsError: An entry point cannot be imported, is not a plugin, or its name is taken. It names the package.
    """
    found = sorted(entry_points(group=GROUP), key=lambda one: one.name)
    if not found:
        return
    from features.table import FEATURES  # takes time

    for one in found:
        FEATURES.policy_table.add(_plugin(one, FEATURES.policy_table))


def _plugin(entry: EntryPoint, table: PolicyTable) -> type[Plugin]:
    package = "?" if entry.dist is None else f"{entry.dist.name} {entry.dist.version}"
    where = f"plugin {entry.name} of package {package}"
    try:
        plugin = entry.load()
    except Exception as error:  # whatever a module raises when it is imported
        raise SettingsError(f"{where} cannot be imported: {error}") from error
    if not isinstance(plugin, type) or not issubclass(plugin, Plugin):
        raise SettingsError(
            f"{where}: {entry.value} is not a subclass of projections.plugin.Plugin"
        )
    if getattr(plugin, "name", "") != entry.name:
        raise SettingsError(
            f"{where}: its class has the name {getattr(plugin, 'name', '')!r}, not that of the entry point"
        )
    if table.plugins.get(entry.name, plugin) is not plugin:
        raise SettingsError(f"{where}: a plugin of that name exists already")
    if missing := sorted(getattr(plugin, "__abstractmethods__", ())):
        raise SettingsError(f"{where}: its class does not define {', '.join(missing)}")
    if not plugin.version:
        plugin.version = "0" if entry.dist is None else entry.dist.version
    return plugin
