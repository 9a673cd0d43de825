"""An API for tests, and requests to it in few words."""

from textwrap import dedent

import msgspec

from events.duration import SECOND
from events.normalize import Json, JsonObject
from simulator.api_server.api import Api, Behaviour
from simulator.api_server.http_message import JSON, Request, Response
from simulator.api_server.watch import Watch
from simulator.manifest_fields import section
from simulator.scenario import parse_scenario

MERGE = "application/merge-patch+json"
STRATEGIC = "application/strategic-merge-patch+json"
JSON_PATCH = "application/json-patch+json"
APPLY = "application/apply-patch+yaml"
PODS = "/api/v1/namespaces/default/pods"
CONFIG_MAPS = "/api/v1/namespaces/default/configmaps"
LEASES = "/apis/coordination.k8s.io/v1/namespaces/default/leases"
EVENTS = "/apis/events.k8s.io/v1/namespaces/default/events"
BUDGETS = "/apis/policy/v1/namespaces/default/poddisruptionbudgets"
QUEUES = "/apis/scheduling.volcano.sh/v1beta1/queues"


def bare(text: str = "", **behaviour: bool | int) -> Api:
    """An API without kubelets and controllers: nothing happens that is not asked for."""
    return served(text, has_kubelets=False, has_controllers=False, **behaviour)


def served(text: str = "", **behaviour: bool | int) -> Api:
    """The API of a scenario without its first line."""
    scenario = parse_scenario("scenario: a test\n" + dedent(text), "test.yaml")
    return Api(scenario, 0, msgspec.convert(behaviour, Behaviour))


def ask(
    api: Api, method: str, path: str, body: Json = None, content_type: str = JSON, token: str = ""
) -> Response:
    """Make a request. The query stands behind the path; a text as body is sent as it is."""
    bare_path, _, query = path.partition("?")
    pairs = [part.partition("=") for part in query.split("&") if part]
    sent = body.encode() if isinstance(body, str) else msgspec.json.encode(body)
    return api.handle(
        Request(
            method=method,
            path=bare_path,
            query={key: value for key, _, value in pairs},
            body=b"" if body is None else sent,
            content_type=content_type,
            token=token,
            user_agent="test/1",
        )
    )


def done(response: Response) -> JsonObject:
    """The document of an answer that must be good."""
    assert response.status in (200, 201), response.body
    document: JsonObject = msgspec.json.decode(response.body)
    return document


def refused(response: Response, status: int) -> JsonObject:
    """The `Status` of an answer that must be a refusal."""
    assert response.status == status, response.body
    document: JsonObject = msgspec.json.decode(response.body)
    assert document["kind"] == "Status"
    assert document["code"] == status
    return document


def reason(response: Response, status: int) -> str:
    """The reason of a refusal."""
    return str(refused(response, status).get("reason", ""))


def pod(name: str, *, labels: dict[str, str] | None = None, **spec: Json) -> JsonObject:
    """A pod as one would post it."""
    metadata: JsonObject = {"name": name}
    if labels:
        metadata["labels"] = dict(labels)
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": metadata,
        "spec": {"containers": [{"name": "c", "image": "i"}], **spec},
    }


def posted(
    api: Api, name: str, *, labels: dict[str, str] | None = None, **spec: Json
) -> JsonObject:
    """A pod that is there now."""
    return done(ask(api, "POST", PODS, pod(name, labels=labels, **spec)))


def binding(name: str, node: str = "n1", **metadata: Json) -> JsonObject:
    """A binding."""
    return {
        "apiVersion": "v1",
        "kind": "Binding",
        "metadata": {"name": name, **metadata},
        "target": {"apiVersion": "v1", "kind": "Node", "name": node},
    }


def bound(api: Api, name: str, node: str = "n1") -> None:
    """Bind a pod."""
    assert ask(api, "POST", f"{PODS}/{name}/binding", binding(name, node)).status == 201


def running(api: Api, name: str) -> None:
    """Bind a pod and say that it runs and is ready."""
    bound(api, name)
    status: JsonObject = {
        "phase": "Running",
        "conditions": [{"type": "Ready", "status": "True"}],
    }
    done(ask(api, "PATCH", f"{PODS}/{name}/status", {"status": status}, STRATEGIC))


def found(api: Api, path: str) -> JsonObject:
    """An object that must be there."""
    return done(ask(api, "GET", path))


def revision(document: JsonObject) -> str:
    """`metadata.resourceVersion`"""
    return str(section(document, "metadata")["resourceVersion"])


def uid(document: JsonObject) -> str:
    """`metadata.uid`"""
    return str(section(document, "metadata")["uid"])


def names(document: JsonObject) -> list[str]:
    """The names in a list."""
    items = document["items"]
    assert isinstance(items, list)
    return [str(section(item, "metadata")["name"]) for item in items if isinstance(item, dict)]


def watch(api: Api, path: str, **query: str) -> Watch:
    """An open watch."""
    opened = api.watch(Request("GET", path, {"watch": "1", **query}))
    assert isinstance(opened, Watch), opened
    return opened


def lines(opened: Watch, at_seconds: float = 0.0) -> list[JsonObject]:
    """What a watch shows by a moment."""
    documents: list[JsonObject] = []
    while chunk := opened.take(int(at_seconds * SECOND)):
        documents += [msgspec.json.decode(line) for line in chunk.splitlines()]
    return documents


def told(opened: Watch, at_seconds: float = 0.0) -> list[str]:
    """The same in short: `ADDED a`, `BOOKMARK 7`, `ERROR 410`."""
    short = []
    for one in lines(opened, at_seconds):
        shown = one["object"]
        assert isinstance(shown, dict)
        metadata = section(shown, "metadata")
        told_of = {"BOOKMARK": metadata.get("resourceVersion"), "ERROR": shown.get("code")}
        short.append(f"{one['type']} {told_of.get(str(one['type']), metadata.get('name'))}")
    return short
