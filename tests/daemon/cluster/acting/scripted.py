"""A client that answers what it was told to, and time that passes only while a task waits."""

from collections.abc import Callable, Mapping

import msgspec
from msgspec import Struct

from daemon.cluster.acting.request_budget import Pacing, RequestBudget
from daemon.cluster.client.calls import Call
from daemon.cluster.client.errors import ApiError, Cause
from events.errors import ClusterError

Answer = bytes | ClusterError

STATUS = b'{"kind":"Status","apiVersion":"v1","metadata":{},"status":"Success","code":201}'


class Asked(Struct, frozen=True):
    """A request as it was made."""

    what: str
    name: str
    namespace: str
    query: dict[str, str]
    body: bytes
    content_type: str
    deadline_seconds: float

    @property
    def document(self) -> dict[str, object]:
        """The body, decoded."""
        return msgspec.json.decode(self.body, type=dict[str, object])


class Scripted:
    """Answers one request after the other; the last answer again and again, where it `repeats`."""

    def __init__(self, *answers: Answer, repeats: bool = False) -> None:
        self._answers = list(answers)
        self._repeats = repeats
        self.asked: list[Asked] = []

    async def request(
        self,
        call: Call,
        *,
        name: str = "",
        namespace: str = "",
        query: Mapping[str, str] = {},
        body: bytes | None = None,
        content_type: str = "application/json",
        deadline_seconds: float = 30.0,
        tries: int = 1,
    ) -> bytes:
        assert tries == 1
        asked = Asked(
            call.what, name, namespace, dict(query), body or b"", content_type, deadline_seconds
        )
        self.asked.append(asked)
        is_last = self._repeats and len(self._answers) == 1
        answer = self._answers[0] if is_last else self._answers.pop(0)
        if isinstance(answer, ClusterError):
            raise answer
        return answer

    @property
    def whats(self) -> list[str]:
        """The requests in a few words each."""
        return [one.what for one in self.asked]


class Time:
    """Seconds that pass only in `sleep`."""

    def __init__(self) -> None:
        self.now = 1000.0
        self.slept: list[float] = []

    def elapsed(self) -> float:
        return self.now

    async def sleep(self, seconds: float) -> None:
        self.slept.append(seconds)
        self.now += seconds


def pacing(time: Time, jitter: Callable[[], float] = lambda: 0.5) -> Pacing:
    """How effects wait in tests."""
    return Pacing(jitter=jitter, elapsed_seconds=time.elapsed, sleep=time.sleep)


def request_budget(
    client: Scripted, time: Time | None = None, namespace: str = "default"
) -> RequestBudget:
    """An errand about the object `a`."""
    return RequestBudget(client, pacing(time or Time()), "a", namespace)


def said(
    kind: type[ApiError],
    status: int,
    reason: str = "",
    message: str = "",
    *causes: Cause,
    retry_after_seconds: float | None = None,
) -> ApiError:
    """An error as the API server gives it."""
    return kind("a request", status, reason, message, causes, retry_after_seconds)


def pod(uid: str = "u1", node: str = "", **metadata: object) -> bytes:
    """A pod, as it is read back."""
    spec = {"nodeName": node} if node else {}
    return msgspec.json.encode(
        {"kind": "Pod", "metadata": {"name": "a", "uid": uid, **metadata}, "spec": spec}
    )
