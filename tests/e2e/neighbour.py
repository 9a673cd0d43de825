"""The other tenant: pods that run all the time, and canaries, a new one twice a second, while it is attacked.

The canaries ask in turn for CPU, for a GPU, for a half of a shared GPU, and for an Ascend chip, on the same nodes as the pods of the
attacker. Each must have its node within `WAIT_SECONDS_MAX` of its creation; none of the neighbour's pods may be evicted or
rejected by a kubelet.
"""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress
from typing import Any, Final

from msgspec import Struct, field

from projections.kinds.pod import PODS
from tests.control_plane.api import GONE, Object
from tests.control_plane.manifests import CARD, GPU, pod, pod_spec
from tests.e2e.rig import POLL_SECONDS, POOL, Rig

WAIT_SECONDS_MAX: Final = 2.0
"""The longest that a canary may wait for its node."""
BUSY_SECONDS: Final = 0.25
"""What the API server and the test may take for a canary before it is granted more time."""
HOPS: Final = 3
"""Times that a canary goes through the API server between its creation and the test: its watch event, its binding, and the
watch event of that."""
PERIOD_SECONDS: Final = 0.5
LOST_SECONDS: Final = 15.0
"""How long a canary is waited for at the end."""
SHARING: Final = "muster.sh/gpu-sharing"
ACCELERATOR: Final = "accelerator"
STEADY: Final = "steady"
YIELDING: Final = "yielding"
"""The beginning of the names of pods that the neighbour's own urgent pods may evict."""
QUEUE_NAME: Final = "scheduling.volcano.sh/queue-name"


class Form(Struct, frozen=True):
    """What a sort of canary asks for."""

    name: str
    requests: dict[str, str]
    annotations: dict[str, str] = {}
    nodes: dict[str, str] = {}
    """Labels of the nodes that it selects."""


CHIP: Final = Form("chip", {"cpu": "100m", CARD: "1"}, {}, {ACCELERATOR: "huawei-Ascend910"})
FORMS: Final = (
    Form("cpu", {"cpu": "100m"}),
    Form("gpu", {"cpu": "100m", GPU: "1"}),
    Form("share", {"cpu": "100m"}, {"alibabacloud.com/gpu-milli": "500"}, {SHARING: "true"}),
    CHIP,
)
KEPT: Final = ("urgent",)
"""Forms of canaries that go on running."""


class Canary(Struct):
    """One pod: times on the loop's clock; 0 for what has not happened."""

    form: str
    created: float = 0.0
    """When its creation was answered."""
    took: float = 0.0
    """Seconds that the answer took."""
    seen: float = 0.0
    """When the test's own watch showed it."""
    bound: float = 0.0
    starved: float = 0.0
    """Seconds that the daemon's threads got no CPU, when it was created; once it is bound, between the two."""

    def wait(self, now: float) -> float:
        """Seconds from its creation to its binding, or to now."""
        return max(0.0, (self.bound or now) - self.created)

    def allowed(self) -> float:
        """Seconds that it may wait: more where the API server, the test or the machine was slow for this very pod."""
        slow = max(self.took, self.seen - self.created)
        granted = (HOPS * slow if slow > BUSY_SECONDS else 0.0) + (
            self.starved if self.bound else 0.0
        )
        return WAIT_SECONDS_MAX + granted


class Observed(Struct):
    """What happened to the neighbour."""

    canaries: dict[str, Canary] = field(default_factory=dict)
    evicted: list[str] = field(default_factory=list)
    """Pods that something else than the test deleted."""
    failed: list[str] = field(default_factory=list)
    """Pods that a kubelet rejected, with the reason."""

    def faults(self, now: float) -> list[str]:
        """Say what must not be."""
        late = [
            f"canary {name} waited {one.wait(now):.1f} s{'' if one.bound else ', and still does'} "
            f"(allowed: {one.allowed():.1f} s)"
            for name, one in self.canaries.items()
            if one.created and one.wait(now) > one.allowed()
        ]
        lost = [f"{name} was evicted" for name in self.evicted]
        return late + lost + [f"{name} was rejected" for name in self.failed]

    def distribution(self, now: float) -> str:
        """The waits of each form: how many, the median, the longest."""
        lines: list[str] = []
        for form in dict.fromkeys(one.form for one in self.canaries.values()):
            found = [one for one in self.canaries.values() if one.form == form and one.created]
            waits = sorted(one.wait(now) for one in found)
            if waits:
                middle, last = waits[len(waits) // 2], waits[-1]
                late = sum(one.wait(now) > WAIT_SECONDS_MAX for one in found)
                granted = sum(one.allowed() >= one.wait(now) > WAIT_SECONDS_MAX for one in found)
                more = (
                    f", {late} above {WAIT_SECONDS_MAX:.0f} s, {granted} of them granted"
                    if late
                    else ""
                )
                lines.append(f"{len(waits)} {form}: {middle:.2f}, {last:.2f} s{more}")
        return "; ".join(lines)


class Neighbour:
    """A tenant that only wants to work, in the rig's own namespace."""

    def __init__(self, rig: Rig, queue: str) -> None:
        self.rig = rig
        self.queue = queue
        self.starved: Callable[[], float] = lambda: 0.0
        """How long the daemon got no CPU, in seconds since its start."""
        self.observed = Observed()
        self._count = 0
        self._removed: set[str] = set()
        """Names of pods that the test deleted."""
        self._revision = ""

    def manifest(self, name: str, form: Form, **spec: Any) -> Object:
        """A pod of its own in its queue."""
        made = pod(self.rig.namespace, name)
        made["metadata"]["annotations"] = {QUEUE_NAME: self.queue, **form.annotations}
        made["spec"] = pod_spec(
            schedulerName=self.rig.scheduler,
            nodeSelector={POOL: self.rig.namespace, **form.nodes},
            terminationGracePeriodSeconds=0,
            **spec,
        )
        cards = {key: amount for key, amount in form.requests.items() if "/" in key}
        resources = {"requests": form.requests} | ({"limits": cards} if cards else {})
        made["spec"]["containers"][0]["resources"] = resources
        return made

    async def settle(self, count: int) -> None:
        """Start the pods that run all the time: so many with a GPU, and one with a chip."""
        for index in range(count):
            manifest = self.manifest(f"{STEADY}-{index}", FORMS[1])
            await self.rig.api.create(PODS, manifest)
        await self.rig.api.create(PODS, self.manifest(f"{STEADY}-chip", CHIP))

        def run(found: list[Object]) -> bool:
            there = [one for one in found if one["metadata"]["name"].startswith(STEADY)]
            return len(there) == count + 1 and all(
                one["status"]["phase"] == "Running" for one in there
            )

        await self.rig.until(run)

    @asynccontextmanager
    async def watched(self, *forms: str) -> AsyncIterator[Observed]:
        """Create canaries of all forms, or of some, for as long as the block lasts; those left are waited for."""
        self.observed = Observed()
        chosen = [one for one in FORMS if not forms or one.name in forms]
        listed = (await self.rig.api.get(PODS.collection_path(self.rig.namespace))).expect(200)
        self._revision = listed["metadata"]["resourceVersion"]
        async with asyncio.TaskGroup() as group:
            watch = group.create_task(self._watch())
            work = group.create_task(self._create_canaries(chosen, group))
            try:
                yield self.observed
                work.cancel()
                with suppress(TimeoutError):
                    async with asyncio.timeout(LOST_SECONDS):
                        while self._waiting():  # noqa: ASYNC110
                            await asyncio.sleep(POLL_SECONDS)
            finally:
                work.cancel()
                watch.cancel()

    def removes(self, name: str) -> None:
        """Say that the test deletes a pod."""
        self._removed.add(name)

    def _may_go(self, name: str) -> bool:
        return name in self._removed or name.startswith(YIELDING)

    def _waiting(self) -> bool:
        return any(not one.bound for one in self.observed.canaries.values())

    async def create(self, name: str, form: Form, **spec: Any) -> None:
        """Create a canary under a name of its own."""
        now = asyncio.get_running_loop().time
        canary = self.observed.canaries[name] = Canary(form.name)
        begun = now()
        await self.rig.api.create(PODS, self.manifest(name, form, **spec))
        canary.created, canary.took = now(), now() - begun
        if not canary.bound:
            canary.starved = self.starved()

    async def _create_canaries(self, forms: list[Form], group: asyncio.TaskGroup) -> None:
        while True:
            form = forms[self._count % len(forms)]
            self._count += 1
            group.create_task(self.create(f"canary-{form.name}-{self._count}", form))
            await asyncio.sleep(PERIOD_SECONDS)

    async def _watch(self) -> None:
        """Follow the neighbour's pods."""
        loop = asyncio.get_running_loop()
        path = PODS.collection_path(self.rig.namespace)
        async with (
            asyncio.TaskGroup() as group,
            self.rig.api.watch(path, resourceVersion=self._revision) as watch,
        ):
            while (line := await watch.next(3600.0)) is not None:
                if line.type not in ("ADDED", "MODIFIED", "DELETED"):
                    continue
                self._take(line.object, loop.time(), group.create_task)

    def _take(self, found: Object, now: float, start: Callable[..., Any]) -> None:
        metadata, status = found["metadata"], found.get("status", {})
        name = str(metadata["name"])
        canary = self.observed.canaries.get(name)
        if status.get("phase") == "Failed":
            text = f"{name}: {status.get('reason', '')}"
            if text not in self.observed.failed:
                self.observed.failed.append(text)
        if "deletionTimestamp" in metadata and not self._may_go(name):
            self._removed.add(name)
            self.observed.evicted.append(name)
        if canary is None:
            return
        canary.seen = canary.seen or now
        if found["spec"].get("nodeName") and not canary.bound:
            canary.bound = now
            canary.starved = self.starved() - canary.starved if canary.starved else 0.0
        has_ended = status.get("phase") in ("Running", "Failed")
        if has_ended and name not in self._removed and canary.form not in KEPT:
            self._removed.add(name)
            start(self._remove(name))

    async def _remove(self, name: str) -> None:
        """Delete a canary that runs: the next one takes its place."""
        with suppress(*GONE):
            path = PODS.object_path(name, self.rig.namespace)
            await self.rig.api.delete(path, {"gracePeriodSeconds": 0})
