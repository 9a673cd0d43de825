"""The Lease of the leader election, as an object of the API server (rules K14.1, K14.3).

What stands in it is read and written here; what it means is `daemon/leadership.py`. Times are written for
people and for other programs: nothing of ours reads them (K14.2).
"""

from collections.abc import Callable
from datetime import UTC, datetime
from typing import Final, Protocol

import msgspec
from msgspec import Struct

from daemon.cluster.client.calls import CREATE_LEASE, GET_LEASE, LEASES, UPDATE_LEASE, Call
from daemon.cluster.client.errors import NotFoundError
from events.errors import ClusterError
from events.revision import is_older

MICRO: Final = 1_000
SECOND: Final = 1_000_000_000


LOG_ANCHOR: Final = "muster.sh/log-anchor"
"""Annotation of the Lease: POSITION:DIGEST of a record that was durable in the leader's log."""

LOG_IDENTITY: Final = "muster.sh/log"
"""Annotation of the Lease: the first digits of the digest that the log begins with, which tells logs apart."""


class Lease(Struct, frozen=True):
    """The fields of a Lease. `holder` is empty when it is not held."""

    holder: str = ""
    duration_seconds: int = 0
    """Seconds; unchanged for so long, it has expired."""
    acquired: str = ""
    """When the holder got it, as `micro_time` writes it."""
    renewed: str = ""
    """When it was last renewed."""
    transitions: int = 0
    """How often the holder changed."""
    anchor: str = ""
    """The annotation LOG_ANCHOR, or ""."""
    log: str = ""
    """The annotation LOG_IDENTITY, or ""."""
    version: str = ""
    """The resourceVersion that was read, and that a write expects to find."""
    document: bytes = b""
    """The object as it was read: a write changes our fields in it and keeps the others (K1.6)."""


class Asks(Protocol):
    """The part of the client that is needed here."""

    async def request(
        self,
        call: Call,
        *,
        name: str = "",
        namespace: str = "",
        body: bytes | None = None,
        deadline_seconds: float = 30.0,
    ) -> bytes:
        """Make a request, and return the body of the answer."""


class ApiLease:
    """One Lease on an API server. Nothing is retried here: the caller bounds the time."""

    def __init__(
        self, client: Asks, namespace: str, name: str, doubt: Callable[[str], None] = lambda _: None
    ) -> None:
        self._client = client
        self._namespace = namespace
        self._name = name
        self._doubt = doubt
        """Told where the Lease is older than it was: the server may have been set back."""
        self._highest = ""

    @property
    def place(self) -> str:
        """Which Lease it is, for messages."""
        return f"Lease/{self._namespace}/{self._name}"

    async def read(self) -> Lease | None:
        """What it says now; None where there is none."""
        try:
            answer = await self._ask(GET_LEASE, name=self._name)
        except NotFoundError:
            return None
        return self._parsed(answer)

    async def create(self, lease: Lease) -> Lease:
        """Make it. `AlreadyExistsError` where someone else was faster."""
        return self._parsed(await self._ask(CREATE_LEASE, body=self._body(lease)))

    async def update(self, lease: Lease) -> Lease:
        """Write it over the version that was read. `ConflictError` where that is no longer the last."""
        assert lease.version, "a write without the version just read would win every race"
        answer = await self._ask(UPDATE_LEASE, name=self._name, body=self._body(lease))
        return self._parsed(answer)

    def _parsed(self, answer: bytes) -> Lease:
        lease = parse_lease(answer, self.place)
        if is_older(lease.version, self._highest):
            self._doubt(
                f"{self.place} is at revision {lease.version}, and {self._highest} was seen"
            )
        self._highest = lease.version
        return lease

    async def _ask(self, call: Call, *, name: str = "", body: bytes | None = None) -> bytes:
        return await self._client.request(call, name=name, namespace=self._namespace, body=body)

    def _body(self, lease: Lease) -> bytes:
        document = _DECODER.decode(lease.document) if lease.document else _Document()
        metadata = {**document.metadata, "namespace": self._namespace, "name": self._name}
        if lease.version:
            metadata["resourceVersion"] = lease.version
        if lease.anchor:
            annotations = metadata.get("annotations")
            kept = annotations if isinstance(annotations, dict) else {}
            metadata["annotations"] = {**kept, LOG_ANCHOR: lease.anchor, LOG_IDENTITY: lease.log}
        spec = {
            **document.spec,
            "holderIdentity": lease.holder,
            "leaseDurationSeconds": lease.duration_seconds,
            "acquireTime": lease.acquired or None,
            "renewTime": lease.renewed or None,
            "leaseTransitions": lease.transitions,
        }
        return msgspec.json.encode(
            {
                "apiVersion": LEASES.api_version,
                "kind": LEASES.kind,
                "metadata": metadata,
                "spec": spec,
            }
        )


def micro_time(at_ns: int) -> str:
    """A moment as Kubernetes' MicroTime: UTC, exactly six fractional digits, `Z` (K14.1)."""
    second, rest = divmod(at_ns, SECOND)
    day = datetime.fromtimestamp(second, UTC).strftime("%Y-%m-%dT%H:%M:%S")
    return f"{day}.{rest // MICRO:06d}Z"


def parse_lease(answer: bytes, place: str) -> Lease:
    """What a Lease says. One that was made empty, or by another program, may lack any field."""
    try:
        document = _DECODER.decode(answer)
        spec = msgspec.convert(document.spec, _Spec)
        version = msgspec.convert(document.metadata.get("resourceVersion"), str)
        noted = msgspec.convert(document.metadata.get("annotations") or {}, dict[str, str])
    except msgspec.MsgspecError as error:
        raise ClusterError(f"{place}: the answer is no Lease: {error}") from error
    return Lease(
        holder=spec.holderIdentity or "",
        duration_seconds=spec.leaseDurationSeconds or 0,
        acquired=spec.acquireTime or "",
        renewed=spec.renewTime or "",
        transitions=spec.leaseTransitions or 0,
        anchor=noted.get(LOG_ANCHOR, ""),
        log=noted.get(LOG_IDENTITY, ""),
        version=version,
        document=answer,
    )


class _Document(Struct):
    metadata: dict[str, object] = {}
    spec: dict[str, object] = {}


class _Spec(Struct):
    """Field names as Kubernetes spells them; each may be null."""

    holderIdentity: str | None = None  # noqa: N815
    leaseDurationSeconds: int | None = None  # noqa: N815
    acquireTime: str | None = None  # noqa: N815
    renewTime: str | None = None  # noqa: N815
    leaseTransitions: int | None = None  # noqa: N815


_DECODER: Final = msgspec.json.Decoder(_Document)
