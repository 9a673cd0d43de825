"""Logs that earlier releases wrote; they replay without divergence for ever."""
