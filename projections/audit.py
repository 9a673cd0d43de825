"""Recounts."""

from projections.state import State


def audit(state: State) -> None:
    """Later."""
