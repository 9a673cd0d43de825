"""The plugins of muster, one module for each; their table is `scheduling/plugin_table.py`."""
