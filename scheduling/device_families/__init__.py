"""The device families of muster, one module for each; their table is `scheduling/device_family_table.py`."""
