"""Exit codes of the command that are not those of an error class."""

from typing import Final

FAILED: Final = 3
"""An error outside of muster: database, API server, file system."""
BUG: Final = 70
INTERRUPTED: Final = 130
PIPE_CLOSED: Final = 141
"""The exit code that shells expect of a program whose pipe was closed."""
