"""How many examples a property test draws: a part in `make test`, which must be quick, and all in `make soak`."""

from typing import Final

from hypothesis import settings

LESS: Final = 5
"""How many times fewer examples `make test` draws."""


def examples(count: int) -> int:
    """Return so many in `make soak`, a part of them otherwise."""
    if settings.get_current_profile_name() == "other-examples":
        return count
    return -(-count // LESS)
