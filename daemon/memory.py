"""The garbage collector, set for a process whose State is large and long-lived."""

import gc
from typing import Final

YOUNG: Final = 100_000
"""Objects made before the collector looks at the young ones: a batch makes tens of thousands."""


def collect_rarely() -> None:
    """Next to nothing that muster makes is part of a circle: there is little to be found."""
    gc.set_threshold(YOUNG, 20, 100)
