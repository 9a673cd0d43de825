"""Check that the packages of muster are its own, before anything of them is imported.

They have plain names (`events`, `engine`, ...). Another distribution in the same environment may bring a package of the
same name, and then either comes first on the path, or has replaced files of muster. Nothing but the standard library is
imported here; a check takes about a millisecond.
"""

import base64
import sys
from hashlib import sha256
from importlib.util import find_spec
from pathlib import Path
from typing import Final

PACKAGES: Final = (
    "daemon",
    "engine",
    "events",
    "features",
    "migrations",
    "projections",
    "replay",
    "scheduling",
    "simulator",
)
USAGE_ERROR: Final = 2


def refuse_foreign_packages() -> None:
    """End the process with one line on stderr if a package is not that of this installation."""
    problem = foreign_package()
    if problem is not None:
        sys.stderr.write(f"error: {problem}\n")
        sys.exit(USAGE_ERROR)


def foreign_package(home: Path | None = None) -> str | None:
    """Return what is wrong with the first package that is not beside this one, or not as installed; None if all are.

    `home` is the folder that holds all of them.
    """
    home = (home or Path(__file__).parent.parent).resolve()
    digests = _installed_digests(home)
    for name in PACKAGES:
        spec = find_spec(name)
        found = None if spec is None or spec.origin is None else Path(spec.origin).resolve()
        own = home / name / "__init__.py"
        is_ours = found == own and digests.get(name) in (None, _digest(own))
        if not is_ours:
            where = f"is {found}" if found is not None else f"is missing in {home}"
            return (
                f"the Python package `{name}` {where}, which is not that of muster{_owners(name)}: "
                "install muster in an environment of its own, from its wheel or its checkout (`pipx install PATH` or "
                "`uv tool install PATH`; without a path, the name is that of another project)"
            )
    return None


def _installed_digests(home: Path) -> dict[str, str]:
    """Return the digest of each package as it was installed; nothing in a checkout."""
    digests = {}
    for record in home.glob("muster-*.dist-info/RECORD"):
        for line in record.read_text(encoding="utf-8").splitlines():
            path, _, rest = line.partition(",")
            name, _, file = path.partition("/")
            if file == "__init__.py" and name in PACKAGES:
                digests[name] = rest.partition(",")[0]
    return digests


def _digest(path: Path) -> str:
    """Return the digest of a file as a RECORD has it."""
    digest = base64.urlsafe_b64encode(sha256(path.read_bytes()).digest())
    return f"sha256={digest.decode().rstrip('=')}"


def _owners(name: str) -> str:
    """Return the other distributions that bring a package, as far as they say so. Slow, and only for an error."""
    from importlib.metadata import packages_distributions

    owners = sorted(set(packages_distributions().get(name, ())) - {"muster"})
    return f" but of {', '.join(owners)}" if owners else ""
