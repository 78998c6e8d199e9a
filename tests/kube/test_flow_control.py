"""docs/flow-control.yaml on a real API server, which says of each answer by which FlowSchema it was let in.

Its headers and what it brings are told in Kubernetes, "API Priority and Fairness"; the levels and schemas themselves stand in
k8s.io/apiserver, pkg/apis/flowcontrol/bootstrap/default.go.
"""

import asyncio
import json
import ssl
import urllib.error
import urllib.request

import pytest
import yaml
from lab.control_plane import ControlPlane
from tests.support.repository import DOCS
from tests.support.waiting import until

from transom.cli.options import NAMESPACE

pytestmark = pytest.mark.lab
SCHEMA = yaml.safe_load((DOCS / "flow-control.yaml").read_text("utf-8"))
KINDS = "/apis/flowcontrol.apiserver.k8s.io/v1"
LEASES = f"/apis/coordination.k8s.io/v1/namespaces/{NAMESPACE}/leases"


def let_in(plane: ControlPlane, method: str, path: str) -> tuple[str, str]:
    """The UIDs of the FlowSchema and of the level by which the operator's account is let in; it has no rights at all here."""
    context = ssl.create_default_context(cafile=str(plane.authority_file))
    opener = urllib.request.build_opener(urllib.request.ProxyHandler({}), urllib.request.HTTPSHandler(context=context))
    headers = {
        "Authorization": f"Bearer {plane.admin_token}",
        "Impersonate-User": f"system:serviceaccount:{NAMESPACE}:transom",
        "Content-Type": "application/json",
    }
    data = b"{}" if method != "GET" else None
    with pytest.raises(urllib.error.HTTPError) as refused:
        opener.open(urllib.request.Request(plane.url + path, data, headers, method=method), timeout=60)
    assert refused.value.code == 403
    told = refused.value.headers
    return told["X-Kubernetes-PF-FlowSchema-UID"], told["X-Kubernetes-PF-PriorityLevel-UID"]


def uid(plane: ControlPlane, path: str) -> str:
    found: str = json.loads(plane.request("GET", f"{KINDS}/{path}"))["metadata"]["uid"]
    return found


async def test_the_lease_is_renewed_at_the_level_of_leader_elections_and_nothing_else_is(control_plane: ControlPlane) -> None:
    requests = {"get": ("GET", f"{LEASES}/transom"), "create": ("POST", LEASES), "update": ("PUT", f"{LEASES}/transom")}
    others = ("PUT", f"/api/v1/namespaces/{NAMESPACE}/configmaps/transom-rollouts"), ("GET", LEASES.replace(NAMESPACE, "other"))
    (rule,) = SCHEMA["spec"]["rules"][0]["resourceRules"]
    assert set(requests) == set(rule["verbs"])
    accounts = uid(control_plane, "flowschemas/service-accounts")
    elections = uid(control_plane, "prioritylevelconfigurations/leader-election")

    async def schema_of(request: tuple[str, str]) -> str:
        return (await asyncio.to_thread(let_in, control_plane, *request))[0]

    async def heeded(expected: str) -> bool:
        return await schema_of(requests["get"]) == expected

    await until(lambda: heeded(accounts))
    await asyncio.to_thread(control_plane.apply, [SCHEMA])
    try:
        ours = uid(control_plane, "flowschemas/transom-lease")
        await until(lambda: heeded(ours))
        for request in requests.values():
            assert await asyncio.to_thread(let_in, control_plane, *request) == (ours, elections)
        assert {await schema_of(request) for request in others} == {accounts}
    finally:
        await asyncio.to_thread(control_plane.delete, [SCHEMA])
    await until(lambda: heeded(accounts))
