"""Daemons in trouble."""

from contextlib import AbstractAsyncContextManager
from pathlib import Path

import pytest

from tests.daemon.trouble.rig import Given, StartTrial, Trial, trial


@pytest.fixture
def trouble(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> StartTrial:
    """Begins a trial."""

    def begin(given: Given | None = None) -> AbstractAsyncContextManager[Trial]:
        return trial(tmp_path, monkeypatch, given)

    return begin
