"""Listening for requests, for as long as a block lasts."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Final

from aiohttp import web

from daemon.address import Address
from events.errors import MusterError

LEAVE_SECONDS: Final = 1.0
"""How long an answer under way is waited for when the daemon stops."""


class ListenError(MusterError):
    """The address cannot be listened on."""

    exit_code = 3


@asynccontextmanager
async def listening(address: Address, app: web.Application) -> AsyncIterator[Address]:
    """Answer requests; the address is told with the port that was given where 0 was asked for."""
    runner = web.AppRunner(
        app, access_log=None, handle_signals=False, shutdown_timeout=LEAVE_SECONDS
    )
    await runner.setup()
    try:
        try:
            await web.TCPSite(runner, address.host, address.port).start()
        except OSError as error:
            raise ListenError(f"cannot listen on {address}: {error.strerror or error}") from error
        yield Address(host=address.host, port=runner.addresses[0][1])
    finally:
        await runner.cleanup()
