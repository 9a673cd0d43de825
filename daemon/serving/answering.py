"""Answers to tenants' questions, computed in another process: folding a log and explaining a cycle is computation of seconds,
and the process that decides has none to spare."""

import asyncio
import sys
from collections.abc import Awaitable, Callable
from typing import Final

from daemon.environment import ENVIRONMENT
from events.errors import LogUnavailableError, UsageError

ANSWER_SECONDS: Final = 20.0
"""A question that takes longer is not answered."""

ANSWER_BYTES_MAX: Final = 4 * 2**20
"""A longer answer is not passed on."""

COMPLAINT_BYTES: Final = 2048
"""Bytes of an error that the log of the daemon repeats."""


def answers_from(log: str) -> Callable[[str], Awaitable[bytes | None]]:
    """Return a function that answers about `Kind/namespace/name` from a log, as JSON; None for an unknown object.

    It raises LogUnavailableError if the log cannot be read, or not in time.
    """
    # The URL of a database has a password, and arguments can be read by every user of the machine.
    environment = {**ENVIRONMENT, "MUSTER_LOG": log}

    async def answer(subject: str) -> bytes | None:
        process = await asyncio.create_subprocess_exec(
            *(sys.executable, "-m", "daemon", "why", "--for-tenant", "--output", "json"),
            subject,
            stdin=asyncio.subprocess.DEVNULL,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.PIPE,
            env=environment,
            limit=ANSWER_BYTES_MAX,
        )
        try:
            async with asyncio.timeout(ANSWER_SECONDS):
                output, complaint = await asyncio.gather(
                    _read(process.stdout, ANSWER_BYTES_MAX), _read(process.stderr, COMPLAINT_BYTES)
                )
                code = await process.wait()
        except TimeoutError as error:
            raise LogUnavailableError(f"{subject}: no answer in {ANSWER_SECONDS:g} s") from error
        finally:
            if process.returncode is None:
                process.kill()
                await process.wait()
        if code == UsageError.exit_code and b"is not in the log" in complaint:
            return None
        if code:
            text = complaint.decode(errors="replace").strip()
            raise LogUnavailableError(f"{subject}: exit code {code}: {text}")
        return output

    return answer


async def _read(stream: asyncio.StreamReader | None, bytes_max: int) -> bytes:
    """Read a stream to its end; raises LogUnavailableError for a longer one."""
    assert stream is not None
    chunks: list[bytes] = []
    size = 0
    while chunk := await stream.read(65536):
        size += len(chunk)
        if size > bytes_max:
            raise LogUnavailableError(f"the answer is longer than {bytes_max} bytes")
        chunks.append(chunk)
    return b"".join(chunks)
