"""The environment of the process. Read here and by the command's options, nowhere else."""

import os
from collections.abc import Mapping
from typing import Final

ENVIRONMENT: Final[Mapping[str, str]] = os.environ
