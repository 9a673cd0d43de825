"""Whether a SQLite log that is open is still the file of its name, and where it lies.

SQLite keeps a file open that was deleted or replaced meanwhile, and goes on writing to a file that no path leads to. So after each
append the inodes of the names are compared with those at the opening. The files themselves are not opened for that: closing a file of
SQLite's a second time would release the locks of the first.
"""

import os
from pathlib import Path
from typing import Final

REMOTE: Final = frozenset(
    {
        *(
            "9p",
            "afs",
            "ceph",
            "cifs",
            "fuse.cephfs",
            "fuse.glusterfs",
            "fuse.s3fs",
            "fuse.sshfs",
            "gfs2",
        ),
        *("glusterfs", "lustre", "nfs", "nfs4", "ocfs2", "smb3", "smbfs", "virtiofs"),
    }
)
"""File systems that other machines may write to, or whose locks and memory maps other machines do not see."""

_MOUNTS: Final = Path("/proc/self/mountinfo")


class FileIdentity:
    """The inodes of a log and of what SQLite keeps beside it, as they were when it was opened."""

    def __init__(self, path: Path) -> None:
        # SQLite follows a symbolic link, and keeps its other files beside what it leads to.
        real = path.resolve()
        self._names = (real, Path(f"{real}-wal"), Path(f"{real}-shm"))
        self._inodes: dict[Path, tuple[int, int]] = {}
        self.change()

    @property
    def links(self) -> int:
        """Names that the file of the log has."""
        try:
            return self._names[0].stat().st_nlink
        except OSError:
            return 0

    @property
    def is_same_log(self) -> bool:
        """Return True if the name of the log is still that of the file that was opened."""
        try:
            found = os.stat(self._names[0])
        except OSError:
            return False
        return self._inodes.get(self._names[0]) == (found.st_dev, found.st_ino)

    def forget_beside(self) -> None:
        """Take the files beside the log as they are found next: SQLite removes them with its last connection."""
        for name in self._names[1:]:
            self._inodes.pop(name, None)

    def change(self) -> str:
        """Return which file was deleted or replaced since it was first seen, or ""."""
        for name in self._names:
            try:
                found = os.stat(name)
            except FileNotFoundError:
                if name in self._inodes:
                    return f"{name} was deleted"
                continue
            except OSError:
                continue  # As for a file system that is away: the append says so.
            now = (found.st_dev, found.st_ino)
            if self._inodes.setdefault(name, now) != now:
                return (
                    f"{name} was replaced (it was inode {self._inodes[name][1]}, and is {now[1]})"
                )
        return ""


def remote_file_system(path: Path) -> str:
    """Return the type of the file system of a path if it is one of `REMOTE`, else ""."""
    try:
        lines = _MOUNTS.read_text(errors="replace").splitlines()
    except OSError:
        return ""
    real, best, found = str(path.resolve()), "", ""
    for line in lines:
        fields = line.split(" ")
        if "-" not in fields:
            continue
        point = fields[4].replace("\\040", " ")
        inside = real == point or real.startswith(point.rstrip("/") + "/")
        if inside and len(point) >= len(best):
            best, found = point, fields[fields.index("-") + 1]
    return found if found in REMOTE else ""
