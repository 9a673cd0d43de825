"""Read the jobs of the pool deciders from an API server, and write what an operator sets for them (docs/pools.md).

A job is what a user names: a PodGroup object, the pods of a group that has no object, or several of these that state one
job. What is set is written to a GroupOverride for each of its pod groups, and not to their objects, which their owners can
write, too. Requests are made with the credentials of the caller, so RBAC decides what is allowed.
"""

import re
from collections.abc import Callable, Iterable, Mapping
from fractions import Fraction
from typing import Final, Generic, TypeAlias, TypeVar

import msgspec
from msgspec import Struct, structs

from daemon.cluster.acting.request_budget import MERGE_PATCH
from daemon.cluster.client.answers import decoded
from daemon.cluster.client.calls import GET_POD_GROUP, LIST, OPERATOR_CALLS, Call
from daemon.cluster.client.errors import (
    ApiError,
    ConflictError,
    ForbiddenError,
    NotFoundError,
    UnansweredError,
)
from daemon.cluster.client.http_client import Client
from events.errors import ClusterError, UsageError
from features.pools.bounded_options import with_override
from features.pools.group_overrides import (
    GroupOverride,
    OverrideObject,
    OverrideSpec,
    override_facts,
    override_name,
)
from features.pools.job_options import JobOptions, job_options
from features.pools.override_kind import GROUP_OVERRIDES
from projections.device_families import NO_FAMILIES
from projections.job_option_keys import PRIORITY, job_option_keys
from projections.kinds.pod import PODS
from projections.kinds.pod_group import POD_GROUPS
from projections.objects import Metadata, nanoseconds_of
from projections.pod_terms import Labels
from projections.pods import metadata_facts

TRIES: Final = 4
"""A merge patch of values may be repeated: it has the same effect."""
PAGE_OBJECTS: Final = 500
PAGES_MAX: Final = 2_000
"""More pages are not a list: the server repeats its continue tokens."""
PAGE_SECONDS: Final = 60.0
ENDED: Final = ("Succeeded", "Failed", "Completed")
"""Phases of pods and PodGroups that are not scheduled any more."""
MICROSECOND: Final = 1000

FIELDS: Final = ("pool", "priority", "weight", "maxSlots", "position")
"""Fields of the spec of a GroupOverride that set something."""
NOT_INSTALLED: Final = (
    "the API server does not serve groupoverrides.muster.sh, in which changes of jobs are kept: apply"
    " deploy/kustomize/queue-operators, or set queueOperators.create of the Helm chart"
)

Value: TypeAlias = str | int | None
Counts: TypeAlias = Callable[[str], tuple[bool, bool]]
"""Returns of a pod group whether the policy lets it state a queue position, and a submission time."""

_OBJECT_NAME: Final = re.compile(r"[a-z0-9]([-a-z0-9.]{0,251}[a-z0-9])?")
"""Name of a Kubernetes object. The name of a group that a label states may have other characters."""


class _Status(Struct):
    phase: str | None = None


class _GroupSpec(Struct):
    priorityClassName: str | None = None  # noqa: N815


class _Group(Struct):
    metadata: Metadata
    spec: _GroupSpec | None = None
    status: _Status | None = None


class _PodSpec(Struct):
    schedulerName: str | None = None  # noqa: N815
    priorityClassName: str | None = None  # noqa: N815


class _Pod(Struct):
    metadata: Metadata
    spec: _PodSpec | None = None
    status: _Status | None = None


class _ListMetadata(Struct):
    next: str | None = msgspec.field(default=None, name="continue")


T = TypeVar("T", _Group, _Pod, msgspec.Raw)


class _List(Struct, Generic[T]):
    items: list[T] | None = None
    metadata: _ListMetadata = msgspec.field(default_factory=_ListMetadata)


_GROUP: Final = msgspec.json.Decoder(_Group)
_GROUPS: Final = msgspec.json.Decoder(_List[_Group])
_PODS: Final = msgspec.json.Decoder(_List[_Pod])
_OVERRIDES: Final = msgspec.json.Decoder(_List[msgspec.Raw])
_OVERRIDE: Final = msgspec.json.Decoder(OverrideObject)


class Override(Struct, frozen=True):
    """A GroupOverride of the API server."""

    name: str
    spec: OverrideSpec
    problem: str = ""
    """Why muster does not read it; "" if it does."""

    @property
    def group(self) -> str:
        """Return the key of its pod group."""
        return f"{self.spec.namespace}/{self.spec.name}"

    @property
    def values(self) -> dict[str, Value]:
        """Return the fields that set something."""
        found = {name: getattr(self.spec, name) for name in FIELDS}
        return {name: value for name, value in found.items() if value is not None}

    @property
    def facts(self) -> GroupOverride | None:
        """Return what muster reads of it."""
        content = msgspec.json.encode({"metadata": {"name": self.name}, "spec": self.spec})
        facts = override_facts(content)
        return None if isinstance(facts, str) else facts


class Member(Struct, frozen=True):
    """A PodGroup, or a pod of a group that has no PodGroup."""

    is_pod: bool
    namespace: str
    name: str
    uid: str
    group: str
    """`namespace/name` of its pod group."""
    stated: Labels
    """Keys that the pool deciders read."""
    created_ns: int
    scheduler: str = ""
    """`schedulerName` of a pod."""
    priority_class: str = ""
    """Name of its PriorityClass."""
    owner: str = ""
    """UID of the controlling owner of a pod."""

    @property
    def uids(self) -> tuple[str, ...]:
        """Return the UIDs by one of which an override may be for its pod group, the one first that lasts longest."""
        return tuple(filter(None, (self.owner, self.uid)))

    @property
    def text(self) -> str:
        """Return kind and name: `PodGroup ml/train`."""
        return f"{'Pod' if self.is_pod else 'PodGroup'} {self.namespace}/{self.name}"


class Job(Struct, frozen=True):
    """A job, with the objects that state it."""

    key: str
    """`namespace/name` of the pod group, or of the job that several pod groups state."""
    members: tuple[Member, ...]
    """Sorted by creation time and name."""
    options: JobOptions
    """As they count, as far as that is known: with what operators have set, and what they state as the policy permits it."""
    submitted_ns: int
    overrides: tuple[Override, ...] = ()
    """Those that are for its pod groups as they are now."""

    @property
    def position(self) -> Fraction:
        """Return the queue position: microseconds since the epoch, as in the daemon."""
        stated = self.options.position
        return Fraction(self.submitted_ns, MICROSECOND) if stated is None else stated

    @property
    def order(self) -> tuple[object, ...]:
        """Return the sort key among jobs of one priority."""
        return self.position, self.submitted_ns, self.key

    @property
    def has_object(self) -> bool:
        """Return whether it has a PodGroup object."""
        return not all(one.is_pod for one in self.members)

    @property
    def priority_class(self) -> str:
        """Return the PriorityClass that one of its objects names, which counts before a priority that it states; "" for none,
        or where an operator has set its priority."""
        if PRIORITY in self.options.by_operator:
            return ""
        return next((one.priority_class for one in self.members if one.priority_class), "")

    @property
    def priority(self) -> int | str | None:
        """Return what states its priority: the name of a class, or its option; None for the default of its pool."""
        return self.priority_class or self.options.priority

    @property
    def groups(self) -> frozenset[str]:
        """Return the keys of its pod groups."""
        return frozenset(one.group for one in self.members)

    def is_named(self, key: str) -> bool:
        """Return whether a user means this job by `namespace/name`."""
        return key == self.key or key in self.groups


def counts_nothing(_group: str) -> tuple[bool, bool]:
    """Return that neither a queue position nor a submission time may be stated, which is the default of the policy."""
    return False, False


async def find_job(client: Client, key: str, counts: Counts = counts_nothing) -> Job:
    """Return the job that a pod group or a pod belongs to, or that has this name. Raise UsageError if there is none."""
    overrides = await list_overrides(client)
    namespace, _, name = key.partition("/")
    found = None
    if _OBJECT_NAME.fullmatch(name):
        found = await _pod_group(client, namespace, name)
        if found is not None:
            [job] = jobs_of([found], overrides, counts)
            if not job.options.job:
                return job
    groups = await list_pod_groups(client, namespace)
    others = [one for one in groups if found is None or one.uid != found.uid]
    pods = await list_pods(client, namespace)
    members = [*others, *pods, *([found] if found else [])]
    jobs = jobs_of(members, overrides, counts)
    of_pod = {one.group for one in pods if one.name == name}
    for job in jobs:
        if job.is_named(key):
            return job
    for job in jobs:
        if not of_pod.isdisjoint(job.groups):
            return job
    raise UsageError(f"group {key} not found")


async def list_pod_groups(
    client: Client, namespace: str = "", *, with_ended: bool = False
) -> list[Member]:
    """List the PodGroups of a namespace, or of all; none if the API server has no PodGroups."""
    try:
        found = await _list(client, LIST[POD_GROUPS.name], _GROUPS, namespace)
    except NotFoundError:
        return []
    return [_member_of_group(one) for one in found if with_ended or not _has_ended(one)]


async def list_pods(client: Client, namespace: str = "", scheduler: str = "") -> list[Member]:
    """List the pods of a namespace, or of all, that have not ended; with `scheduler`, only those with this
    `schedulerName`."""
    query = {"fieldSelector": f"spec.schedulerName={scheduler}"} if scheduler else {}
    found = await _list(client, LIST[PODS.name], _PODS, namespace, query)
    return [_member_of_pod(one) for one in found if not _has_ended(one)]


async def list_overrides(client: Client) -> list[Override]:
    """List the GroupOverrides. Raise ClusterError if the API server has no such resource."""
    try:
        found = await _list(client, LIST[GROUP_OVERRIDES.name], _OVERRIDES, "")
    except NotFoundError as error:
        raise ClusterError(NOT_INSTALLED) from error
    overrides: list[Override] = []
    for raw in found:
        facts = override_facts(bytes(raw))
        problem = facts if isinstance(facts, str) else ""
        try:
            one = _OVERRIDE.decode(raw)
        except msgspec.ValidationError:
            name = msgspec.json.decode(raw, type=_Group).metadata.name
            spec = OverrideSpec("", "", "")
            overrides.append(Override(name, spec, problem))
            continue
        overrides.append(Override(one.metadata.name, one.spec, problem))
    return sorted(overrides, key=lambda one: one.name)


def jobs_of(
    members: Iterable[Member],
    overrides: Iterable[Override] = (),
    counts: Counts = counts_nothing,
) -> list[Job]:
    """Return the jobs that PodGroups and pods form, sorted by key. Pods of a group with a PodGroup are left out."""
    of_group = {one.group: one for one in overrides if not one.problem}
    groups: dict[str, list[Member]] = {}
    for one in members:
        groups.setdefault(one.group, []).append(one)
    jobs: dict[str, list[Member]] = {}
    for key, found in groups.items():
        objects = [one for one in found if not one.is_pod]
        ordered = tuple(sorted(objects, key=_age)) or tuple(sorted(found, key=_age))
        of_pods = tuple(one.stated for one in sorted(found, key=_age) if one.is_pod)
        name = job_options(objects[0].stated if objects else (), of_pods).job
        job = f"{key.partition('/')[0]}/{name}" if name else key
        jobs.setdefault(job, []).extend(ordered)
    return [
        _job(key, tuple(sorted(found, key=_age)), of_group, counts)
        for key, found in sorted(jobs.items())
    ]


async def override(client: Client, job: Job, values: Mapping[str, Value]) -> list[str]:
    """Set fields of the overrides of all pod groups of a job; None removes one. Return the names of the objects."""
    known = {one.group: one for one in await list_overrides(client)}
    names = []
    for key in sorted(job.groups):
        namespace, _, name = key.partition("/")
        members = [one for one in job.members if one.group == key]
        uids = [uid for one in members for uid in one.uids]
        before = known.get(key)
        is_in_force = before is not None and before.spec.uid in uids
        fields: dict[str, Value] = dict.fromkeys(FIELDS)
        if before is not None and is_in_force:
            fields |= before.values
        fields |= values
        uid = before.spec.uid if before is not None and is_in_force else uids[0]
        spec = {"namespace": namespace, "name": name, "uid": uid, **fields}
        await _write(client, override_name(namespace, name), spec, exists=before is not None)
        names.append(override_name(namespace, name))
    return names


async def delete_override(client: Client, name: str) -> bool:
    """Delete an override. Return whether it existed."""
    try:
        await _request(client, OPERATOR_CALLS["delete"], "", name=name)
    except NotFoundError:
        return False
    return True


async def _write(client: Client, name: str, spec: Mapping[str, Value], *, exists: bool) -> None:
    """Patch an override, or create it. One that was created or deleted meanwhile is written the other way, once."""
    stated = {key: value for key, value in spec.items() if value is not None}
    created = {
        "apiVersion": GROUP_OVERRIDES.api_version,
        "kind": GROUP_OVERRIDES.kind,
        "metadata": {"name": name},
        "spec": stated,
    }
    for is_patch in (exists, not exists):
        try:
            if is_patch:
                body = msgspec.json.encode({"spec": spec})
                await _request(client, OPERATOR_CALLS["patch"], "", name=name, body=body)
            else:
                body = msgspec.json.encode(created)
                await _request(client, OPERATOR_CALLS["create"], "", body=body)
        except (NotFoundError, ConflictError):
            continue
        return
    raise ClusterError(f"GroupOverride {name} is created and deleted at the same time: try again")


def _job(
    key: str, members: tuple[Member, ...], overrides: Mapping[str, Override], counts: Counts
) -> Job:
    objects = [one for one in members if not one.is_pod]
    of_pods = tuple(one.stated for one in members if one.is_pod)
    options = job_options(objects[0].stated if objects else (), of_pods)
    states_position, states_submission = counts(members[0].group)
    if not states_position:
        options = structs.replace(options, position=None)
    if not states_submission:
        options = structs.replace(options, submitted_ns=None)
    found: dict[str, Override] = {}
    for one in members:
        known = overrides.get(one.group)
        if known is not None and known.spec.uid in one.uids:
            found[one.group] = known
    first = found.get(members[0].group)
    if first is not None and (facts := first.facts) is not None:
        options = with_override(options, facts)
    created = min(one.created_ns for one in members)
    submitted = created if options.submitted_ns is None else options.submitted_ns
    return Job(
        key=key,
        members=members,
        options=options,
        submitted_ns=submitted,
        overrides=tuple(found.values()),
    )


def _age(one: Member) -> tuple[int, str, str]:
    return one.created_ns, one.name, one.uid


async def _pod_group(client: Client, namespace: str, name: str) -> Member | None:
    """Return a PodGroup; None if there is none of this name."""
    try:
        body = await _request(client, GET_POD_GROUP, namespace, name=name)
    except NotFoundError:
        return None
    return _member_of_group(decoded(GET_POD_GROUP.what, body, _GROUP))


async def _list(
    client: Client,
    call: Call,
    decoder: msgspec.json.Decoder[_List[T]],
    namespace: str,
    query: Mapping[str, str] = {},
) -> list[T]:
    found: list[T] = []
    wanted = {**query, "limit": str(PAGE_OBJECTS)}
    for _ in range(PAGES_MAX):
        body = await _request(client, call, namespace, query=wanted, seconds=PAGE_SECONDS)
        page = decoded(call.what, body, decoder)
        found += page.items or ()
        if not page.metadata.next:
            return found
        wanted["continue"] = page.metadata.next
    raise UnansweredError(f"{call.what}: the list has more than {PAGES_MAX} pages")


async def _request(
    client: Client,
    call: Call,
    namespace: str,
    *,
    name: str = "",
    query: Mapping[str, str] = {},
    body: bytes | None = None,
    seconds: float = 30.0,
) -> bytes:
    """Make a request. Raise ClusterError that names the missing permission for 403."""
    try:
        return await client.request(
            call,
            name=name,
            namespace=namespace,
            query=query,
            body=body,
            content_type=MERGE_PATCH if call.verb == "patch" else "application/json",
            deadline_seconds=seconds,
            tries=TRIES,
        )
    except ForbiddenError as error:
        raise ClusterError(_refusal(call, namespace, error)) from error


def _refusal(call: Call, namespace: str, error: ApiError) -> str:
    resource = call.resource
    qualified = f"{resource.plural}.{resource.group}" if resource.group else resource.plural
    where = f"in namespace {namespace}" if namespace else "in all namespaces"
    where = f" {where}" if resource.is_namespaced else ""
    said = f": {error.message}" if error.message else ""
    return f"403 Forbidden: you need the permission to {call.verb} {qualified}{where}{said}"


def _has_ended(one: _Group | _Pod) -> bool:
    return one.status is not None and one.status.phase in ENDED


def _member_of_group(one: _Group) -> Member:
    meta = one.metadata
    namespace = meta.namespace or "default"
    return Member(
        is_pod=False,
        namespace=namespace,
        name=meta.name,
        uid=meta.uid or "",
        group=f"{namespace}/{meta.name}",
        stated=job_option_keys(meta.annotations or {}, meta.labels or {}),
        created_ns=nanoseconds_of(meta.creationTimestamp),
        priority_class=(one.spec.priorityClassName if one.spec else "") or "",
    )


def _member_of_pod(one: _Pod) -> Member:
    facts = metadata_facts(one.metadata, NO_FAMILIES)
    owner = facts.owner.uid if facts.owner else facts.uid
    return Member(
        is_pod=True,
        namespace=facts.namespace,
        name=facts.name,
        uid=facts.uid,
        group=f"{facts.namespace}/{facts.said.group_name or f'podgroup-{owner}'}",
        stated=facts.said.pool_options,
        created_ns=facts.created_ns,
        owner=facts.owner.uid if facts.owner else "",
        scheduler=(one.spec.schedulerName if one.spec else "") or "",
        priority_class=(one.spec.priorityClassName if one.spec else "") or "",
    )
