"""`make cluster`: a cluster to try things on, with an API server, controllers, nodes, and kubelets that run nothing.

python -m tests.control_plane [--nodes N] [--cards N] [--folder DIR] [--scheduler]

It prints which kubeconfig to use and runs until it is interrupted; then all of it is removed. In a folder that
is named, the kubeconfigs are always at the same place.
"""

import argparse
import asyncio
import signal
import sys
from pathlib import Path
from typing import Final

from tests.control_plane.api import Api
from tests.control_plane.build import BuildError, build, kubernetes_version
from tests.control_plane.cluster import Cluster, own_plane
from tests.control_plane.kubelet import Kubelet
from tests.control_plane.manifests import GPU, GPU_NAME

INTERRUPTED: Final = 130
HELP: Final = """\
Kubernetes {version} at {url}: {nodes} nodes, each with {cards} {gpu} ({model}).
Its pods start and end, but no container runs. The kinds of Volcano that muster reads are defined.

  export KUBECONFIG={admin}
  kubectl get nodes

  muster run --kubeconfig {muster} --log first.db

Ctrl-C stops the cluster and removes it.
"""


async def play(cluster: Cluster, nodes: int, cards: int) -> None:
    """Add nodes and run the pods that are bound to them, until interrupted."""
    ended = asyncio.Event()
    for number in (signal.SIGINT, signal.SIGTERM):
        asyncio.get_running_loop().add_signal_handler(number, ended.set)
    async with Api.of(cluster.admin) as api:
        kubelet = Kubelet(api)
        for index in range(nodes):
            await kubelet.add(f"node-{index + 1}", cards)
        async with kubelet.at_work():
            sys.stdout.write(
                HELP.format(
                    version=kubernetes_version(),
                    url=api.url,
                    nodes=nodes,
                    cards=cards,
                    gpu=GPU,
                    model=GPU_NAME,
                    admin=cluster.admin,
                    muster=cluster.muster,
                )
            )
            sys.stdout.flush()
            await ended.wait()


def run(nodes: int, cards: int, folder: Path | None, *, has_scheduler: bool) -> None:
    """Start the cluster, wait until it is interrupted, and remove it."""
    sys.stderr.write("Starting etcd, kube-apiserver and kube-controller-manager ...\n")
    with own_plane(folder=folder) as cluster:
        if has_scheduler:
            assert cluster.plane is not None
            cluster.plane.start_scheduler("--kubeconfig", str(cluster.admin))
        asyncio.run(play(cluster, nodes, cards))
        sys.stderr.write("Stopping ...\n")


def main() -> int:
    """Read the arguments and run the cluster; return the exit code."""
    parser = argparse.ArgumentParser(prog="python -m tests.control_plane")
    parser.add_argument("--nodes", type=int, default=2)
    parser.add_argument("--cards", type=int, default=8, help="of each node")
    parser.add_argument("--folder", type=Path, help="a new folder for all that is written")
    parser.add_argument("--scheduler", action="store_true", help="run kube-scheduler too")
    given = parser.parse_args()
    if given.folder is not None and given.folder.exists():
        sys.stderr.write(f"error: {given.folder} exists already; --folder names a new folder\n")
        return 2
    try:
        build()
        run(given.nodes, given.cards, given.folder, has_scheduler=given.scheduler)
    except BuildError as error:
        sys.stderr.write(f"error: {error}\n")
        return 3
    except KeyboardInterrupt:
        return INTERRUPTED
    return 0


if __name__ == "__main__":
    sys.exit(main())
