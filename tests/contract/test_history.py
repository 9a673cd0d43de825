"""What a server says of its history: by this muster tells whether it still has the one that was seen."""

import asyncio
from typing import Any

from tests.contract.served import Served
from tests.control_plane.api import Object

EXACT = {"resourceVersionMatch": "Exact"}


def revision(found: Object) -> str:
    """Of an object or a list."""
    return str(found["metadata"]["resourceVersion"])


async def named(server: Served, name: str, **query: Any) -> list[Object]:
    """The pods of a name, as muster asks for one."""
    query["fieldSelector"] = f"metadata.name={name}"
    found: list[Object] = (await server.api.get(server.pods, **query)).expect(200)["items"]
    return found


async def set_back(server: Served, kept: object) -> None:
    """The restore of either server: one blocks, one has to stay in its event loop."""
    if asyncio.get_running_loop().is_running() and hasattr(kept, "exists"):
        await asyncio.to_thread(server.restore, kept)
    else:
        server.restore(kept)


async def test_an_object_is_found_by_name_as_it_was_at_a_revision(server: Served) -> None:
    """Also where it is gone since."""
    made = await server.pod("a")
    other = await server.pod("b")
    (await server.api.delete(server.path(made), {"gracePeriodSeconds": 0})).expect(200)
    at = {"resourceVersion": revision(other), **EXACT}
    [found] = await named(server, "a", limit="1", **at)
    assert (found["metadata"]["uid"], revision(found)) == (made["metadata"]["uid"], revision(made))
    assert await named(server, "a", limit="1") == []


async def test_a_list_at_a_revision_is_paged_at_that_revision(server: Served) -> None:
    last = [await server.pod(name) for name in ("a", "b", "c")][-1]
    at = {"resourceVersion": revision(last), **EXACT}
    first = (await server.api.get(server.pods, limit="2", **at)).expect(200)
    await server.pod("later")
    token = first["metadata"]["continue"]
    second = (await server.api.get(server.pods, limit="2", **{"continue": token})).expect(200)
    assert [one["metadata"]["name"] for one in second["items"]] == ["c"]
    assert revision(second) == revision(first) == revision(last)


async def test_a_server_that_is_set_back_is_at_an_earlier_revision(server: Served) -> None:
    """Objects and revisions are as they were; a watch from what was seen before stays open and silent."""
    await server.pod("kept")
    kept = await asyncio.to_thread(server.snapshot)
    lost = await server.pod("lost")
    # A real control plane writes by itself: its revision must not pass the last one meanwhile.
    last = [await server.pod(f"lost-{index}") for index in range(100)][-1]
    await set_back(server, kept)
    now = (await server.api.get(server.pods)).expect(200)
    assert int(revision(now)) < int(revision(last))
    assert [one["metadata"]["name"] for one in now["items"]] == ["kept"]
    assert (await server.api.get(server.path(lost))).status == 404
    async with server.api.watch(server.pods, resourceVersion=revision(last)) as watch:
        assert watch.status == 200
        assert await watch.silence(1.0)
    at = {"resourceVersion": revision(last), **EXACT}
    refused = await server.api.get(server.pods, limit="1", **at)
    assert refused.status == 504


async def test_a_server_that_was_set_back_gives_revisions_again(server: Served) -> None:
    """A watch from what was seen before goes on as if nothing had been, and what was seen is not there."""
    await server.pod("kept")
    kept = await asyncio.to_thread(server.snapshot)
    lost = await server.pod("lost")
    await set_back(server, kept)
    made: list[Object] = []
    while not made or int(revision(made[-1])) <= int(revision(lost)):
        made.append(await server.pod(f"new-{len(made)}"))
    after = await server.pod("after")
    async with server.api.watch(server.pods, resourceVersion=revision(lost)) as watch:
        lines = await watch.until("ADDED", "after")
    assert "lost" not in {line.name for line in lines}
    at = {"resourceVersion": revision(lost), **EXACT}
    assert await named(server, "lost", limit="1", **at) == []
    assert int(revision(after)) > int(revision(lost))
