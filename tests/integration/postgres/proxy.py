"""A proxy that lets a commit through to the server and loses the answer."""

import asyncio
from pathlib import Path


class Proxy:
    """Stands between a client and the server's socket."""

    def __init__(self, upstream: Path) -> None:
        self._upstream = upstream
        self._writers: list[asyncio.StreamWriter] = []
        self.lose_next_commit = False
        self.lost = 0

    async def start(self) -> int:
        """Listen on a port of the loopback; which one."""
        self._server = await asyncio.start_server(self._serve, "127.0.0.1", 0)
        port: int = self._server.sockets[0].getsockname()[1]
        return port

    async def close(self) -> None:
        """Drop everyone."""
        self._server.close()
        for writer in self._writers:
            writer.close()
        await self._server.wait_closed()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        server_reader, server_writer = await asyncio.open_unix_connection(self._upstream)
        self._writers += [writer, server_writer]
        try:
            async with asyncio.TaskGroup() as group:
                group.create_task(_copy(server_reader, writer))
                group.create_task(self._to_server(reader, server_writer, writer))
        except* OSError:
            server_writer.close()

    async def _to_server(
        self,
        reader: asyncio.StreamReader,
        server: asyncio.StreamWriter,
        client: asyncio.StreamWriter,
    ) -> None:
        """The driver prepares the statement by its text first, and has it executed next."""
        prepared = False
        while data := await reader.read(1 << 16):
            server.write(data)
            await server.drain()
            if prepared:
                self.lost += 1
                self.lose_next_commit = prepared = False
                client.transport.abort()
            prepared = self.lose_next_commit and b"COMMIT" in data
        server.close()


async def _copy(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    while data := await reader.read(1 << 16):
        writer.write(data)
        await writer.drain()
    writer.close()
