"""The code that writes snapshots, as a digest over its source.

A snapshot is a cache: rows and indexes as this code lays them out. Other code, be it another release or the same with one line changed, does not read it,
and folds what stands where the log begins, and the records behind that.
"""

from functools import cache
from hashlib import sha256
from importlib import import_module
from pathlib import Path
from typing import Final

PACKAGES: Final = ("events", "projections", "scheduling", "features", "engine")
"""The packages whose code State depends on."""

KEPT_BASE: Final = "base"
"""Stands for all code: under it a base is kept beside the snapshots (`daemon/kept_base.py`), which any release reads."""

SUFFIXES: Final = (".py", ".so", ".pyd")


@cache
def code_key() -> str:
    """Return the digest of the core packages; it is computed once."""
    found = sha256()
    for package in PACKAGES:
        for folder in import_module(package).__path__:
            root = Path(folder)
            for path in sorted(one for one in root.rglob("*") if one.suffix in SUFFIXES):
                content = path.read_bytes()
                found.update(
                    f"{package}/{path.relative_to(root).as_posix()} {len(content)} ".encode()
                )
                found.update(content)
    return found.hexdigest()
