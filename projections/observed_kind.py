"""What muster knows of one kind of Kubernetes object: its resource, and how State applies its objects."""

from collections.abc import Callable
from typing import Final, TypeVar

from msgspec import Struct, structs

from events.limits import CUT, DEPTH_MAX, SPEC_FIELD_BYTES_MAX, TOO_LONG
from projections.api_resource import Resource
from projections.cluster import Cluster
from projections.config_errors import Pairs as Faults
from projections.group_facts import GroupFacts
from projections.hyper_nodes import HyperNodeFacts, HyperNodeObject
from projections.internal_error import OnError, report
from projections.nodes import NodeFacts
from projections.objects import Metadata, NodeObject, PlainObject, PodGroupObject, read

T = TypeVar("T")
WholeT = TypeVar("WholeT", PodGroupObject, HyperNodeObject, NodeObject)
FaultedT = TypeVar("FaultedT", GroupFacts, HyperNodeFacts, NodeFacts)

UNREADABLE: Final = "Unreadable"
"""Code of the error of an object that could not be read because of a bug of muster."""

LEFT_OUT: Final = "NestedTooDeep"
"""Code of the error of an object that is nested too deep."""

INVALID: Final = "InvalidObject"
"""Code of the error of an object without facts, because a field cannot be read."""

LONG_FIELD: Final = "FieldTooLong"
"""Code of the error of a pod with a field in its spec that was left out because of its length."""

CUT_BYTES: Final = CUT.encode()
TOO_LONG_BYTES: Final = TOO_LONG.encode()
"""What stands in an object for what was left out of it."""


def cut_faults(content: bytes) -> Faults:
    """Return the errors of what was left out of an object, as code and message."""
    found: Faults = ()
    if CUT_BYTES in content:
        found = ((LEFT_OUT, f"what is nested deeper than {DEPTH_MAX} levels was left out"),)
    if TOO_LONG_BYTES in content:
        text = f"a field of the spec that is longer than {SPEC_FIELD_BYTES_MAX} bytes was left out"
        found = (*found, (LONG_FIELD, text))
    return found


class Reading:
    """Read one observed object, before anything is changed.

    If a reader raises (a bug of muster, not of the object), only the name and UID of the object are used, and an
    error is recorded. The log keeps the object, so a release in which the reader is repaired reads it again.
    """

    def __init__(
        self, subject: str, digest: str, uid: str, content: bytes, on_error: OnError
    ) -> None:
        self.subject = subject
        self.digest = digest
        self.uid = uid
        self.counts = True
        """Whether the object replaces the one before; False if it cannot be used and the one before still counts."""
        self._content = content
        self._on_error = on_error
        self._problem = ""

    @property
    def is_failed(self) -> bool:
        """Return whether the reader raised."""
        return bool(self._problem)

    @property
    def faults(self) -> Faults:
        """Return the errors of the reading itself, as code and message."""
        found: Faults = ((UNREADABLE, self._problem),) if self._problem else ()
        return (*found, *cut_faults(self._content))

    def of(self, whole: Callable[[bytes], T], bare: Callable[[str, Metadata], T]) -> T:
        """Return what `whole` reads; if it raises, what `bare` makes of the reason and the metadata."""
        try:
            return whole(self._content)
        except Exception as error:  # any bug: the other objects must still be handled
            return bare(self.fail(error), self.names())

    def fail(self, error: Exception) -> str:
        """Report that reading the object raised; return the problem."""
        what = report(error, self.subject, "read", self._on_error)
        self._problem = f"object {self.digest[:12]} cannot be read: {what}"
        return self._problem

    def facts_of(self, kind: type[WholeT], facts_of: Callable[[WholeT, str], FaultedT]) -> FaultedT:
        """Return the facts of the object; if it cannot be read, the facts that its metadata gives, with the
        problem."""

        def bare(problem: str, metadata: Metadata) -> FaultedT:
            return facts_of(kind(metadata=metadata), problem)

        def whole(content: bytes) -> FaultedT:
            obj = read(kind, content)
            return bare(obj, self.metadata()) if isinstance(obj, str) else facts_of(obj, "")

        facts = self.of(whole, bare)
        if not self.faults:
            return facts
        own: Faults = () if self.is_failed else facts.faults
        return structs.replace(facts, faults=(*self.faults, *own))

    def metadata(self) -> Metadata:
        """Return the metadata, or only the names if the metadata cannot be read."""
        plain = read(PlainObject, self._content)
        return self.names() if isinstance(plain, str) else plain.metadata

    def names(self) -> Metadata:
        """Return the metadata as far as the record says it."""
        _, namespace, name = self.subject.split("/", 2)
        return Metadata(name=name, namespace=namespace or None, uid=self.uid)


def _apply_nothing(_cluster: Cluster, _reading: Reading) -> None:
    """Apply an object of which only the identity is kept."""


def _drop_nothing(_cluster: Cluster, _subject: str, _uid: str) -> None:
    """Apply the deletion of an object of which only the identity is kept."""


class ObservedKind(Struct, frozen=True, kw_only=True):
    """One kind of Kubernetes object. Without more than a resource and a reason, its objects are listed and watched,
    and State keeps their names, UIDs and digests."""

    resource: Resource
    why: str
    """What its objects are read for, in a few words for the page of roles."""
    is_watched: bool = True
    is_required: bool = False
    """Whether it must be listed whole before anything is decided; if it is not served, it counts as listed."""
    records_heartbeats: bool = True
    """Whether an object is recorded that differs from the last one in its heartbeats only."""
    has_own_table: bool = False
    """Whether its objects are kept in a table of Cluster with their UIDs and digests; else only their identities are,
    in `Cluster.others`."""
    apply: Callable[[Cluster, Reading], None] = _apply_nothing
    """Applies an object that was added or modified."""
    drop: Callable[[Cluster, str, str], None] = _drop_nothing
    """Applies the deletion of the object of a subject and UID."""
    facts: type[Struct] | None = None
    """The type of its facts, frozen, if `facts_of` or `apply` reads any. They are in `Cluster.object_facts` and in snapshots."""
    facts_of: Callable[[bytes], Struct | str] | None = None
    """Returns the facts of an object, or why it cannot be read: it then counts as absent, with an error."""
    summarize: Callable[[bytes], list[str]] = lambda _content: []
    """Returns the fields of an object that matter to scheduling, each in a few words; empty ones are left out."""
