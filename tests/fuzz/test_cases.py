"""Cases that once ended or misled the daemon: each was found by the fuzzer and reduced as far as possible."""

from pathlib import Path

import pytest

from tests.fuzz.case import read
from tests.fuzz.databases import databases
from tests.fuzz.running import run_case

CASES = sorted((Path(__file__).parent / "cases").glob("*.json"))


@pytest.mark.parametrize("path", CASES, ids=lambda path: path.stem)
def test_a_case_that_once_failed_passes(path: Path) -> None:
    run_case(read(path.read_text()))


def test_cases_that_once_failed_pass_on_sqlite(tmp_path: Path) -> None:
    with databases("sqlite", tmp_path) as fresh:
        for path in CASES:
            run_case(read(path.read_text()), fresh)


@pytest.mark.postgres
def test_cases_that_once_failed_pass_on_postgresql(tmp_path: Path) -> None:
    with databases("postgresql", tmp_path) as fresh:
        for path in CASES:
            run_case(read(path.read_text()), fresh)
