"""The certificate of a listener is loaded again when its files change."""

import asyncio
import ssl
from collections.abc import Mapping, Sequence
from pathlib import Path

import pytest
from structlog.testing import capture_logs

from daemon.cluster.client.trust import keep_certificate, server_context
from events.errors import SettingsError
from tests.daemon.cluster.client.builders import Authority, Gate, served


async def presented(url: str) -> bytes:
    """The certificate that a listener shows."""
    context = ssl.create_default_context()
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE
    host, _, port = url.removeprefix("https://").partition(":")
    _, writer = await asyncio.open_connection(host, int(port), ssl=context)
    shown = writer.get_extra_info("ssl_object").getpeercert(binary_form=True)
    writer.close()
    await writer.wait_closed()
    assert isinstance(shown, bytes)
    return shown


async def test_a_renewed_certificate_is_shown_to_new_connections(
    tmp_path: Path, authority: Authority
) -> None:
    certificate, key = authority.client_pair(tmp_path, "muster")
    context = server_context(certificate, key)
    with capture_logs() as lines:
        async with served(Gate().answer, context) as url, asyncio.TaskGroup() as tasks:
            keeping = tasks.create_task(keep_certificate(context, certificate, key, 0.01))
            first = await presented(url)
            key.write_text("no key")
            async with asyncio.timeout(30):
                while not _said(lines, "a renewed certificate was not loaded"):  # noqa: ASYNC110
                    await asyncio.sleep(0.01)
                assert await presented(url) == first
                authority.client_pair(tmp_path, "muster")
                while not _said(lines, "a renewed certificate was loaded"):  # noqa: ASYNC110
                    await asyncio.sleep(0.01)
            assert await presented(url) != first
            keeping.cancel()


def _said(lines: Sequence[Mapping[str, object]], event: str) -> bool:
    return any(one["event"] == event for one in lines)


def test_a_file_without_a_certificate_is_named(tmp_path: Path) -> None:
    with pytest.raises(SettingsError, match="absent"):
        server_context(tmp_path / "absent.crt", tmp_path / "absent.key")
