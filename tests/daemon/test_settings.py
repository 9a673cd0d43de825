"""Settings of what an operator sees."""

from pathlib import Path

import pytest

from daemon.settings import Settings, read_settings
from events.errors import SettingsError


def read(folder: Path, text: str) -> Settings:
    path = folder / "muster.yaml"
    path.write_text(text, encoding="utf-8")
    return read_settings(path)


def test_probes_listen_on_loopback_by_default(tmp_path: Path) -> None:
    assert read(tmp_path, "").listen == "127.0.0.1:8080"
    assert read(tmp_path, "listen: '[::]:9090'").listen == "[::]:9090"
    assert read(tmp_path, "listen: ''").listen == ""


@pytest.mark.parametrize("listen", ["8080", ":8080", "localhost", "127.0.0.1:http"])
def test_an_address_that_is_none_names_file_and_key(listen: str, tmp_path: Path) -> None:
    with pytest.raises(SettingsError, match=r"muster\.yaml: listen: .*127\.0\.0\.1:8080"):
        read(tmp_path, f"listen: '{listen}'")


def test_a_level_that_is_none_names_file_and_key(tmp_path: Path) -> None:
    assert read(tmp_path, "log_level: debug").log_level == "debug"
    with pytest.raises(SettingsError, match=r"muster\.yaml: .*log_level"):
        read(tmp_path, "log_level: chatty")


def test_labels_that_cannot_be_shown_name_file_and_key(tmp_path: Path) -> None:
    assert read(tmp_path, "pod_labels: [team, cost-centre]").pod_labels == ("team", "cost-centre")
    many = ", ".join(f"label-{number}" for number in range(33))
    for text in ("pod_labels: ['']", f"pod_labels: [{many}]"):
        with pytest.raises(SettingsError, match=r"muster\.yaml: pod_labels must name at most 32"):
            read(tmp_path, text)
