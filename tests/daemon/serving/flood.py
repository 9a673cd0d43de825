"""A process that floods a listener with connections from many loopback addresses, and keeps them open.

`python -m tests.daemon.serving.flood PORT COUNT`: `COUNT` connections from addresses in 127.0.0.0/8, of each kind of
`KINDS` in turn. It prints a line once all were opened, then holds what the server leaves open until stdin ends.
"""

import asyncio
import sys
from collections.abc import Awaitable
from contextlib import suppress
from typing import Final

HALF_HEAD: Final = b"GET /livez HTTP/1.1\r\nHost: 127.0.0.1\r\nX-Slow: "
WHOLE: Final = b"GET /livez HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n"

CLIENT_HELLO: Final = b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03" + b"\x00" * 32
"""The first bytes of a TLS handshake that announces more."""

ADDRESSES: Final = 250
AT_ONCE: Final = 200

KINDS: Final = {
    "nothing": b"",
    "half a handshake": CLIENT_HELLO,
    "half a head": HALF_HEAD,
    "pipelined heads": WHOLE * 500,
    "not HTTP": b"\x00\xff" * 64,
}
"""The bytes that connections begin with."""


async def flood(port: int, count: int) -> list[asyncio.StreamWriter]:
    """Open connections; return those that could be opened."""
    kinds = list(KINDS.values())
    places = asyncio.Semaphore(AT_ONCE)
    opened: list[asyncio.StreamWriter] = []

    async def one(first: bytes, address: str, *, is_half_closed: bool) -> None:
        async with places:
            try:
                async with asyncio.timeout(5):
                    _, writer = await asyncio.open_connection(
                        "127.0.0.1", port, local_addr=(address, 0)
                    )
            except (OSError, TimeoutError):
                return
            opened.append(writer)
            writer.write(first)
            if is_half_closed:
                with suppress(OSError):  # It may be closed by now.
                    writer.write_eof()

    each: list[Awaitable[None]] = []
    for number in range(count):
        address = f"127.0.{1 + number % ADDRESSES}.1"
        kind = kinds[number % len(kinds)]
        each.append(one(kind, address, is_half_closed=number % 11 == 0))
    await asyncio.gather(*each)
    return opened


async def _main(port: int, count: int) -> None:
    opened = await flood(port, count)
    sys.stdout.write(f"{len(opened)}\n")
    sys.stdout.flush()
    await asyncio.to_thread(sys.stdin.read)


if __name__ == "__main__":
    asyncio.run(_main(*map(int, sys.argv[1:])))
