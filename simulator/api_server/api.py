"""The API of a simulated cluster: one request in, one response or one open watch out.

It holds no clock and no network. Time is that of the simulated cluster, which the caller advances. The
same seed and the same calls give the same bytes.
"""

from typing import Final

import msgspec
from msgspec import Struct

from events.duration import SECOND
from simulator.api_server.access_control import AccessControl, User
from simulator.api_server.admission import established
from simulator.api_server.binding import bind
from simulator.api_server.core_events import from_core, represented, to_core
from simulator.api_server.creation import BODY_MAX, Creator, check_kind, decode_body
from simulator.api_server.deletion import Deleter
from simulator.api_server.discovery import discovery_response
from simulator.api_server.disruption_controller import DisruptionController
from simulator.api_server.eviction import Evictor
from simulator.api_server.health import health_response
from simulator.api_server.http_message import (
    JSON,
    NO_SUCH_PATH,
    Request,
    Response,
    StatusError,
    json_response,
)
from simulator.api_server.list_selector import selector_of
from simulator.api_server.listing import list_response
from simulator.api_server.namespace_controller import NamespaceController, make_namespaces
from simulator.api_server.patch import APPLY, patched
from simulator.api_server.reported_status import ReportedStatus
from simulator.api_server.request_target import Address, Target, address_of, target_of
from simulator.api_server.served_resources import (
    BUDGET,
    CRD,
    EVENT,
    ResourceCatalogue,
    ServedResource,
    volcano_definitions,
)
from simulator.api_server.status_errors import bad_request, no_such_resource, not_allowed, not_found
from simulator.api_server.table import TablePrinter, table_printer
from simulator.api_server.update import Updater
from simulator.api_server.version_store import WINDOW, VersionStore
from simulator.api_server.watch import Watch, WatchOptions
from simulator.cluster import SimulatedCluster
from simulator.manifest import Manifest
from simulator.manifest_fields import uid_of
from simulator.object_store import Change, Key, Snapshot
from simulator.scenario import Scenario

COMPACT_NS: Final = 300 * SECOND
"""How often older revisions are compacted; a list cannot be continued from a compacted revision."""
EVENT_NS: Final = 3600 * SECOND
"""How long an Event object is kept."""


class Behaviour(Struct, frozen=True, kw_only=True):
    """How a server differs from the default one."""

    has_kubelets: bool = True
    """If False, no kubelet runs: pods keep their status until a client changes it."""
    has_controllers: bool = True
    """If False, workloads create no pods, budgets are not counted, and namespaces are not emptied."""
    has_volcano: bool = True
    """Whether Volcano's CustomResourceDefinitions are installed at the start."""
    has_watch_list: bool = False
    """Whether a watch may ask for the initial objects (rule K3.13)."""
    window: int = WINDOW
    """The least number of changes of a resource that are kept for watches."""
    expires_with_status: bool = False
    """Whether a watch from a compacted revision is answered with status 410 instead of an ERROR event."""


class Api:
    """An API server over a simulated cluster."""

    def __init__(
        self, scenario: Scenario, origin_ns: int = 0, behaviour: Behaviour | None = None
    ) -> None:
        self.behaviour = behaviour or Behaviour()
        self.simulated = SimulatedCluster(
            scenario,
            origin_ns,
            # A restarted server is another cluster: its uids and revisions must differ from earlier ones.
            era_ns=origin_ns,
            has_kubelets=self.behaviour.has_kubelets,
            has_controllers=self.behaviour.has_controllers,
        )
        self.catalogue = ResourceCatalogue()
        self.access = AccessControl()
        self.simulated.store.listen(self._note)
        for definition in volcano_definitions() if self.behaviour.has_volcano else ():
            status = established(definition, self.simulated.store.timestamp())
            self.simulated.put(CRD, {**definition, "status": status})
        make_namespaces(self.simulated, _namespaces_of(scenario))
        store = self.simulated.store
        reported = ReportedStatus(store.timestamp) if self.behaviour.has_kubelets else None
        self.versions = VersionStore(
            store, self.behaviour.window, None if reported is None else reported.complete
        )
        self._creator = Creator(self.simulated, self.versions, self.catalogue)
        self._updater = Updater(self.simulated, self.versions, self._creator)
        self._deleter = Deleter(self.simulated, self.versions, self.catalogue)
        self._evictor = Evictor(self.simulated, self.versions, self.catalogue, self._deleter)
        self._budgets = DisruptionController(self.simulated, self.versions)
        self._namespaces = NamespaceController(
            self.simulated, self.versions, self.catalogue, self._deleter
        )
        self._events: list[tuple[int, Key, str]] = []
        self._compacted_ns = 0
        self._old_revision = self.versions.revision
        self._settle()

    @property
    def next_event_ns(self) -> int | None:
        """The time of the next event that happens without a request."""
        times = [self.simulated.next_event_ns]
        if self.behaviour.has_controllers:
            times.append(self._budgets.next_ns)
        return min((at for at in times if at is not None), default=None)

    def advance(self, to_ns: int) -> None:
        """Let time pass up to a moment, with every event that is due."""
        self.simulated.advance(max(to_ns, self.simulated.now_ns))
        self._expire()
        self._settle()

    def handle(self, request: Request) -> Response:
        """Answer any request but a watch."""
        try:
            health = health_response(request)
            if health is not None and not request.token:
                return health
            user = self.access.authenticate(request, self.simulated.now_ns)
            if health is not None:
                return health
            if (found := discovery_response(request.path, self.catalogue)) is not None:
                return found if request.method == "GET" else not_allowed().response
            address = address_of(request.method, request.path, is_watch=False)
            if address is None:
                return NO_SUCH_PATH
            self.access.check(user, address)
            target = target_of(address, self.catalogue)
            if target is None:
                return self._nothing_at(address)
            if self.behaviour.has_controllers and _is_about_budgets(target):
                self._budgets.reconcile()
            response = self._answer(target, request, address.verb, user)
            self._settle()
        except StatusError as error:
            self._settle()
            return error.response
        return response

    def watch(self, request: Request) -> Watch | Response:
        """Return an open watch, or the response that refuses it."""
        try:
            user = self.access.authenticate(request, self.simulated.now_ns)
            address = address_of(request.method, request.path, is_watch=True)
            if address is None:
                return NO_SUCH_PATH
            self.access.check(user, address)
            target = target_of(address, self.catalogue)
            if target is None:
                return self._nothing_at(address)
            return self._watch(target, request)
        except StatusError as error:
            return error.response

    def is_watch(self, request: Request) -> bool:
        """Return True if a request asks for a watch."""
        return request.method == "GET" and (
            request.flag("watch") or request.path.startswith(("/api/v1/watch/",))
        )

    def compact(self) -> None:
        """Compact everything but the current state: older revisions are answered with 410."""
        self.versions.compact()

    def snapshot(self) -> Snapshot:
        """Return all objects as they are now, to be restored later."""
        return self.simulated.store.snapshot()

    def restore(self, kept: Snapshot) -> None:
        """Return to a snapshot, like a server whose etcd is restored: revisions are given out a second time.

        Watches that stay open have a revision of the future, and show nothing until it is reached.
        """
        self._old_revision = kept.revision
        self.simulated.restore(kept, self.versions.begin_again)
        self._settle()

    def _watch(self, target: Target, request: Request) -> Watch | Response:
        served = target.served
        if target.name and self.versions.find(target.key) is None:
            raise not_found(served, target.name)
        selector = selector_of(request.query, served.kind, target.namespace)
        options = WatchOptions(request.query, has_watch_list=self.behaviour.has_watch_list)
        printer = self._printer(request, served)
        watch = Watch(self.versions, served, selector, options, self.simulated.now_ns, printer)
        if self.behaviour.expires_with_status and watch.expired is not None:
            return watch.expired.response
        return watch

    def _nothing_at(self, address: Address) -> Response:
        """A built-in group answers 404 in JSON; for others the path does not exist."""
        served = self.catalogue.find(address.group, address.version, address.plural)
        if served is not None and served.kind.is_namespaced and not address.part:
            return not_allowed().response
        is_known = served is not None or any(
            not one.is_custom and one.kind.group == address.group for one in self.catalogue.all()
        )
        return no_such_resource().response if is_known else NO_SUCH_PATH

    def _answer(self, target: Target, request: Request, verb: str, user: User) -> Response:
        if target.served.is_virtual:
            if verb != "create":
                raise not_allowed()
            document = decode_body(request, target.served)
            now_ns = self.simulated.now_ns
            return self.access.review(user, document, target.served.kind.kind, now_ns)
        if len(request.body) > BODY_MAX:
            limit = f"limit is {BODY_MAX}"
            raise StatusError(
                413, "RequestEntityTooLarge", f"Request entity too large: {limit}", {}
            )
        if verb == "get":
            return self._get(target, request)
        if verb == "list":
            selector = selector_of(request.query, target.served.kind, target.namespace)
            printer = self._printer(request, target.served)
            return list_response(self.versions, target.served, selector, request.query, printer)
        return self._change(target, request, verb)

    def _get(self, target: Target, request: Request) -> Response:
        if target.part not in ("", "status"):
            raise not_allowed()
        version = self.versions.find(target.key)
        if version is None:
            raise not_found(target.served, target.name)
        shown = represented(target.served, version)
        if (printer := self._printer(request, target.served)) is not None:
            return Response(200, printer.of_object(shown.manifest))
        return Response(200, shown.raw)

    def _printer(self, request: Request, served: ServedResource) -> TablePrinter | None:
        return table_printer(request, served, self.simulated.store.unix_seconds)

    def _write_core_event(self, target: Target, request: Request, verb: str) -> Response:
        """Write an Event of the core group under the other group, and answer in the core group's form."""
        stored = self.catalogue.find(EVENT.group, EVENT.version, "events")
        assert stored is not None, "events are built in"
        if verb == "patch":
            document = self._patched_core_event(target, request)
        else:
            document = decode_body(request, target.served)
            check_kind(document, target.served)
        request = msgspec.structs.replace(
            request,
            method="POST" if verb == "create" else "PUT",
            content_type=JSON,
            body=msgspec.json.encode(from_core(document)),
        )
        written = self._change(
            Target(stored, target.namespace, target.name, target.part),
            request,
            "create" if verb == "create" else "update",
        )
        manifest: Manifest = msgspec.json.decode(written.body)
        return json_response(to_core(manifest), written.status)

    def _patched_core_event(self, target: Target, request: Request) -> Manifest:
        version = self.versions.find(target.key)
        if version is None:
            raise not_found(target.served, target.name)
        if request.content_type == APPLY:
            raise not_allowed()
        event = to_core(version.manifest)
        document = patched(event, request.body, request.content_type, is_custom=False)
        if not isinstance(document, dict):
            raise bad_request("a patch must leave an object")
        return document

    def _change(self, target: Target, request: Request, verb: str) -> Response:
        match verb, target.part:
            case "create", "binding":
                return bind(self.simulated, self.versions, target, request)
            case "create", "eviction":
                return self._evictor.evict(target, request)
            case "create" | "update" | "patch", "" if target.served.is_core_event:
                return self._write_core_event(target, request, verb)
            case "create", "" if not target.name:
                return self._create(target, request)
            case "update", "" | "status" if target.name:
                return json_response(self._updater.replace(target, request))
            case "patch", "" | "status" if target.name:
                manifest, is_new = self._updater.patch(target, request)
                return json_response(manifest, 201 if is_new else 200)
            case "delete", "":
                return self._deleter.delete(target, request)
            case "deletecollection", "":
                return self._deleter.delete_all(target, request)
            case _:
                raise not_allowed()

    def _create(self, target: Target, request: Request) -> Response:
        if target.served.kind.is_namespaced and not target.namespace:
            raise not_allowed()
        manifest, is_there = self._creator.create(target, request)
        if target.served.kind == EVENT and is_there:
            key = (target.served.resource, target.namespace, _name(manifest))
            self._events.append((self.simulated.now_ns + EVENT_NS, key, uid_of(manifest)))
        return json_response(manifest, 201)

    def _note(self, change: Change) -> None:
        manifest = change.after or change.before
        if manifest is not None and manifest["kind"] == CRD.kind:
            if change.after is None:
                self.catalogue.withdraw(manifest)
            else:
                self.catalogue.define(manifest)

    def _settle(self) -> None:
        """Run the controllers that the simulated cluster itself does not have."""
        if self.behaviour.has_controllers:
            self._namespaces.reconcile()
            self._budgets.pass_time()

    def _expire(self) -> None:
        """Delete expired Event objects and compact old revisions."""
        now = self.simulated.now_ns
        while self._events and self._events[0][0] <= now:
            _, key, uid = self._events.pop(0)
            version = self.versions.find(key)
            if version is not None and uid_of(version.manifest) == uid:
                self.simulated.remove(key)
        if now - self._compacted_ns >= COMPACT_NS:
            self.versions.age(self._old_revision)
            self._compacted_ns, self._old_revision = now, self.versions.revision

    def is_served(self, served: ServedResource) -> bool:
        """Return True if a resource is still served: its definition may have been deleted."""
        return self.catalogue.is_served(served)


def _is_about_budgets(target: Target) -> bool:
    return target.served.kind == BUDGET or target.part == "eviction"


def _name(manifest: Manifest) -> str:
    metadata = manifest["metadata"]
    assert isinstance(metadata, dict)
    return str(metadata["name"])


def _namespaces_of(scenario: Scenario) -> set[str]:
    """The namespaces that the steps of a scenario name."""
    return {str(getattr(step, "namespace", "")) for step in scenario.steps} | {
        str(metadata.get("namespace", ""))
        for step in scenario.steps
        if isinstance(metadata := getattr(step, "manifest", {}).get("metadata"), dict)
    }
