"""Events of the core group: the same objects as those of `events.k8s.io`, with the field names of `v1`.

kube-apiserver stores an Event once and serves it in both groups; muster writes `events.k8s.io`, kubectl reads
`v1`. Objects are stored as `events.k8s.io/v1`.
"""

from collections.abc import Mapping
from typing import Final

from events.normalize import Json
from simulator.api_server.served_resources import EVENT, ServedResource
from simulator.api_server.version_store import Version
from simulator.manifest import Manifest

_CORE_NAMES: Final = {
    "regarding": "involvedObject",
    "note": "message",
    "reportingController": "reportingComponent",
    "deprecatedSource": "source",
    "deprecatedFirstTimestamp": "firstTimestamp",
    "deprecatedLastTimestamp": "lastTimestamp",
    "deprecatedCount": "count",
}
_NAMES: Final = {core: name for name, core in _CORE_NAMES.items()}
_ALWAYS: Final[Mapping[str, Json]] = {
    "involvedObject": {},
    "source": {},
    "firstTimestamp": None,
    "lastTimestamp": None,
    "eventTime": None,
    "reportingComponent": "",
    "reportingInstance": "",
}
"""Fields of `v1` that are never left out."""


def to_core(event: Manifest) -> Manifest:
    """Return a stored Event as the core group shows it."""
    named = {_CORE_NAMES.get(key, key): value for key, value in event.items()}
    return {**_ALWAYS, **named, "apiVersion": "v1"}


def from_core(event: Manifest) -> Manifest:
    """Return an Event of the core group as it is stored."""
    named = {
        _NAMES.get(key, key): value
        for key, value in event.items()
        if value is not None and (value or key not in _ALWAYS)
    }
    return {**named, "apiVersion": EVENT.api_version, "kind": EVENT.kind}


def represented(served: ServedResource, version: Version) -> Version:
    """Return a stored version in the form in which a resource shows it."""
    if not served.is_core_event:
        return version
    before = version.before
    if before is not None:
        before = _shown(before, None)
    return _shown(version, before)


def _shown(version: Version, before: Version | None) -> Version:
    return Version(version.key, to_core(version.manifest), is_gone=version.is_gone, before=before)
