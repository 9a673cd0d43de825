"""Answers for tenants are computed by `muster why` in a process of its own, bounded in time and size.

So folding the log for one tenant neither holds up the loop nor can outlive its deadline.
"""

import asyncio
import os
import sys
from typing import Final

from events.errors import LogError, UsageError

ANSWER_SECONDS: Final = 20.0
"""After which the process is killed."""
ANSWER_BYTES_MAX: Final = 1 << 20
"""A longer answer is given up."""


async def answer_for_tenant(log: str, subject: str, seconds: float = ANSWER_SECONDS) -> bytes:
    """Return the JSON of `muster why SUBJECT --tenant`.

    Raises UsageError if there is no such subject, LogError if the log cannot be read or the answer is too long,
    and TimeoutError.
    """
    process = await asyncio.create_subprocess_exec(
        sys.executable,
        *("-m", "daemon", "why", subject, "--tenant", "--output", "json"),
        stdin=asyncio.subprocess.DEVNULL,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.DEVNULL,
        # Not an argument: the URL of a log may hold a password.
        env={**os.environ, "MUSTER_LOG": log},
    )
    assert process.stdout is not None
    try:
        async with asyncio.timeout(seconds):
            body = await _bounded(process.stdout)
            code = await process.wait()
    finally:
        if process.returncode is None:
            process.kill()
            await process.wait()
    if code == UsageError.exit_code:
        raise UsageError(f"no {subject}")
    if code != 0:
        raise LogError(f"muster why {subject} ended with exit code {code}")
    return body


async def _bounded(stream: asyncio.StreamReader) -> bytes:
    body = b""
    while part := await stream.read(1 << 16):
        body += part
        if len(body) > ANSWER_BYTES_MAX:
            raise LogError(f"the answer has more than {ANSWER_BYTES_MAX:,} bytes")
    return body
