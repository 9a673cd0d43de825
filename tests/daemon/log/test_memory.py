"""The log in memory."""

import pytest

from daemon.log.contract import Log
from daemon.log.memory import MemoryLog
from tests.daemon.log.contract import LogContract


@pytest.fixture
def log() -> MemoryLog:
    return MemoryLog()


class TestMemoryLog(LogContract):
    async def depose(self, log: Log) -> None:
        assert isinstance(log, MemoryLog)
        await MemoryLog(log.memory).take_over("other")
