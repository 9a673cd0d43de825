"""A cluster to try things on, by hand: an API server with controllers, nodes, and a kubelet on paper.

python -m tests.control_plane [--nodes N] [--cards N] [--folder DIR] [--scheduler]

Says which kubeconfig is the admin's and which is muster's, and goes on until it is interrupted; then
nothing of it is left. In a folder that is named, the kubeconfigs are always at the same place.
"""

import argparse
import asyncio
import signal
import sys
from pathlib import Path

from tests.control_plane.api import Api
from tests.control_plane.build import BuildError, build
from tests.control_plane.cluster import Cluster, own_plane
from tests.control_plane.kubelet import Kubelet
from tests.control_plane.manifests import GPU, GPU_NAME


async def play(cluster: Cluster, nodes: int, cards: int) -> None:
    """Add nodes and run what is bound to them, until interrupted."""
    ended = asyncio.Event()
    for number in (signal.SIGINT, signal.SIGTERM):
        asyncio.get_running_loop().add_signal_handler(number, ended.set)
    async with Api.of(cluster.admin) as api:
        kubelet = Kubelet(api)
        for index in range(nodes):
            await kubelet.add(f"node-{index + 1}", cards)
        async with kubelet.at_work():
            sys.stdout.write(
                f"server   {api.url}\n"
                f"admin    {cluster.admin}\n"
                f"muster   {cluster.muster}\n"
                f"nodes    {nodes}, with {cards} {GPU} ({GPU_NAME}) each\n"
            )
            sys.stdout.flush()
            await ended.wait()


def main() -> int:
    """Read the arguments, start, wait, end."""
    parser = argparse.ArgumentParser(prog="python -m tests.control_plane")
    parser.add_argument("--nodes", type=int, default=2)
    parser.add_argument("--cards", type=int, default=8, help="of each node")
    parser.add_argument("--folder", type=Path, help="a new folder for all that is written")
    parser.add_argument("--scheduler", action="store_true", help="run kube-scheduler too")
    given = parser.parse_args()
    try:
        build()
    except BuildError as error:
        sys.stderr.write(f"error: {error}\n")
        return 3
    with own_plane(folder=given.folder) as cluster:
        if given.scheduler:
            assert cluster.plane is not None
            cluster.plane.start_scheduler("--kubeconfig", str(cluster.admin))
        asyncio.run(play(cluster, given.nodes, given.cards))
    return 0


if __name__ == "__main__":
    sys.exit(main())
