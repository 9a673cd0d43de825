"""Cases that once ended or misled the daemon: each was found by the fuzzer and made as small as it could be."""

from pathlib import Path

import pytest

from tests.fuzz.case import read
from tests.fuzz.running import run_case

CASES = sorted((Path(__file__).parent / "cases").glob("*.json"))


@pytest.mark.parametrize("path", CASES, ids=lambda path: path.stem)
def test_what_was_found_once_is_survived(path: Path) -> None:
    run_case(read(path.read_text()))
