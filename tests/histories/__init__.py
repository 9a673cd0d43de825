"""Logs that releases wrote. Today's code must agree with every one of them."""
