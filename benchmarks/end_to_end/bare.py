"""A bare client as a process: posts the bindings it is given, so many at a time, and does nothing else.

python -m benchmarks.end_to_end.bare KUBECONFIG BINDINGS IN_FLIGHT
"""

import asyncio
import json
import sys
from collections.abc import Iterator
from pathlib import Path

import aiohttp

from benchmarks.end_to_end.arena import NAMESPACE
from projections.kinds.pod import PODS
from tests.control_plane.api import token_of, trusted


async def post(kubeconfig: Path, bindings: dict[str, tuple[str, str]], in_flight: int) -> None:
    """Post each binding: a pod's name to its UID and node."""
    url, context = trusted(kubeconfig)
    headers = {
        "Authorization": f"Bearer {token_of(kubeconfig)}",
        "Content-Type": "application/json",
    }
    connector = aiohttp.TCPConnector(limit=0, ssl=context if context is not None else True)
    async with aiohttp.ClientSession(connector=connector, headers=headers) as session:
        bodies = iter([(name, body(name, uid, node)) for name, (uid, node) in bindings.items()])

        async def work(bodies: Iterator[tuple[str, bytes]]) -> None:
            for name, data in bodies:
                path = PODS.object_path(name, NAMESPACE, "binding")
                async with session.post(url + path, data=data) as answer:
                    await answer.read()
                    assert answer.status == 201, f"{name}: {answer.status}"

        async with asyncio.TaskGroup() as tasks:
            for _ in range(in_flight):
                tasks.create_task(work(bodies))


def body(name: str, uid: str, node: str) -> bytes:
    """A Binding."""
    metadata = {"name": name, "namespace": NAMESPACE, "uid": uid}
    target = {"apiVersion": "v1", "kind": "Node", "name": node}
    binding = {"apiVersion": "v1", "kind": "Binding", "metadata": metadata, "target": target}
    return json.dumps(binding).encode()


def main() -> None:
    """Read the arguments, post."""
    kubeconfig, bindings, in_flight = sys.argv[1:]
    known = json.loads(Path(bindings).read_text(encoding="utf-8"))
    asyncio.run(post(Path(kubeconfig), known, int(in_flight)))


if __name__ == "__main__":
    main()
