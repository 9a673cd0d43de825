"""Which credentials to use: what was said, else the cluster we are in, else the user's kubeconfig."""

import os
from collections.abc import Mapping
from pathlib import Path

from daemon.cluster.client.credentials import Access, Source
from daemon.cluster.client.in_cluster import InCluster
from daemon.cluster.client.kubeconfig import Kubeconfig


def source_for(access: Access, environment: Mapping[str, str]) -> Source:
    """As kubectl does: a file that is named comes first, then the cluster, then KUBECONFIG."""
    if access.kubeconfig is not None:
        return Kubeconfig((access.kubeconfig,), access.context, environment)
    cluster = InCluster(environment)
    if access.context is None and cluster.is_present:
        return cluster
    named = [Path(name) for name in environment.get("KUBECONFIG", "").split(os.pathsep) if name]
    files = named or [Path("~/.kube/config")]
    return Kubeconfig(tuple(file.expanduser() for file in files), access.context, environment)
