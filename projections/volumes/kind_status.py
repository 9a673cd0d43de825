"""Whether the kinds are listed that say where pods with claims may run."""

from typing import TYPE_CHECKING, Final

from projections.volumes.claim_users import wake_for_volumes
from projections.wakeup_events import ALL_VOLUMES

if TYPE_CHECKING:
    from projections.cluster import Cluster

NOT_LISTED: Final = "not listed yet"
NOT_SERVED: Final = "not served by the API server"
FORBIDDEN: Final = "forbidden to muster: its role lacks list and watch"


def set_kind_status(cluster: "Cluster", kind: str, why_not: str) -> None:
    """Record why a kind is not listed, or "" if it is; nothing for a kind that does not matter to claims. Once it is listed,
    all pods with claims are tried again."""
    known = cluster.volume_kinds.get(kind)
    if known is None or known == why_not:
        return
    cluster.volume_kinds[kind] = why_not
    wake_for_volumes(cluster, ALL_VOLUMES)
