"""Who may do what, and how a server says no (rules K3.9, K12 and K15.3)."""

from projections.kinds.node import NODES
from tests.contract.served import Served
from tests.control_plane.api import Api


async def test_a_token_that_is_none_is_unauthorized(server: Served) -> None:
    """Rule K3.9: a Status in JSON."""
    async with Api.of(server.kubeconfig, "no-token-of-anyone") as nobody:
        answer = await nobody.get(server.pods)
        assert (answer.status, answer.reason) == (401, "Unauthorized")
        assert (answer.object["kind"], answer.object["status"]) == ("Status", "Failure")
        async with nobody.watch(server.pods, resourceVersion="1") as watch:
            assert watch.status == 401


async def test_a_forbidden_request_gets_403_with_the_resource(server: Served) -> None:
    """Rule K3.9: 403 with what was asked for."""
    async with server.limited() as muster:
        answer = await muster.delete(NODES.object_path("any"))
        assert (answer.status, answer.reason) == (403, "Forbidden")
        assert answer.object["details"] == {"name": "any", "kind": "nodes"}
        async with muster.watch("/api/v1/secrets", resourceVersion="1") as watch:
            assert watch.status == 403


async def test_a_review_says_what_one_may_do(server: Served) -> None:
    """Rule K15.3"""
    async with server.limited() as muster:
        for verb, resource, may in (("list", "nodes", True), ("delete", "nodes", False)):
            review = {
                "apiVersion": "authorization.k8s.io/v1",
                "kind": "SelfSubjectAccessReview",
                "spec": {"resourceAttributes": {"verb": verb, "group": "", "resource": resource}},
            }
            path = "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews"
            answer = await muster.post(path, review)
            assert answer.expect(201)["status"]["allowed"] is may, verb


async def test_a_method_that_is_not_allowed_is_said_to_be_so(server: Served) -> None:
    pod = await server.pod()
    answer = await server.api.get(server.path(pod, "binding"))
    assert (answer.status, answer.reason) == (405, "MethodNotAllowed")
