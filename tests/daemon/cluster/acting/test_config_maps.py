"""Writing a ConfigMap for people: a patch, and the ConfigMap itself if it is missing."""

from daemon.cluster.acting.config_maps import write_config_map
from daemon.cluster.client.errors import ForbiddenError, NotFoundError, UnansweredError
from events.messages import Accepted, ConfigMapRequest, OutcomeUnknown, Rejected
from tests.daemon.cluster.acting.scripted import Scripted, request_budget, said

DATA = {"global-tor-info": "{}"}
REQUEST = ConfigMapRequest(7, "volcano-system", "tor-share-cm", DATA, "leaf switches")
REASONS = ConfigMapRequest(7, "mindx-dl", "job-reschedule-reason", {"a": "{}"}, "restarts")
GONE = said(NotFoundError, 404, "NotFound", "no such ConfigMap")


async def test_the_key_is_patched() -> None:
    client = Scripted(b"{}")
    assert await write_config_map(request_budget(client), REQUEST) == Accepted()
    assert client.whats == ["patch configmaps in volcano-system"]
    assert client.asked[0].document == {"data": DATA}


async def test_a_config_map_that_is_missing_is_created() -> None:
    client = Scripted(GONE, b"{}")
    assert await write_config_map(request_budget(client), REQUEST) == Accepted()
    assert client.asked[1].what == "create configmaps in volcano-system"
    assert [one.name for one in client.asked] == ["a", ""], "a POST has no name in its path"
    assert client.asked[1].document["metadata"] == {
        "name": "tor-share-cm",
        "namespace": "volcano-system",
    }


async def test_refusals_and_lost_answers_are_told() -> None:
    refused = said(ForbiddenError, 403, "Forbidden", "no")
    reply = await write_config_map(request_budget(Scripted(GONE, refused)), REQUEST)
    assert reply == Rejected("Forbidden", "no")
    lost = Scripted(*[UnansweredError("patch configmaps: lost")] * 30)
    assert isinstance(await write_config_map(request_budget(lost), REQUEST), OutcomeUnknown)


async def test_each_config_map_has_calls_of_its_own() -> None:
    client = Scripted(GONE, b"{}")
    assert await write_config_map(request_budget(client), REASONS) == Accepted()
    assert client.whats == ["patch configmaps in mindx-dl", "create configmaps in mindx-dl"]
    assert client.asked[1].document["data"] == {"a": "{}"}
