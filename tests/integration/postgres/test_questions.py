"""The queries of the manual on PostgreSQL."""

import asyncio
from pathlib import Path

from daemon.log.opening import open_log
from daemon.log.store import Asked, SqlLog
from tests.daemon.cli.builders import muster, scenario
from tests.test_documents import DEMO, questions


async def asked(url: str) -> list[Asked]:
    """The answers to all of them."""
    log = await open_log(url)
    assert isinstance(log, SqlLog)
    try:
        return [await log.ask(query.rstrip().rstrip(";")) for query in questions()]
    finally:
        await log.close()


def test_every_question_of_the_manual_has_an_answer(url: str, tmp_path: Path) -> None:
    path = scenario(tmp_path, DEMO.partition("\n")[2])
    assert muster("simulate", path, "--log", url).exit_code == 0
    assert all(answer.rows for answer in asyncio.run(asked(url)))
