"""Serving certificates of hosts with several addresses (`spec.addresses`), without a server."""

from typing import Any, cast

import pytest
from tests.windows.node_certificates import SERVING_USAGES, pem

from transom.controllers.instance_state.node_identities import NodeIdentities
from transom.controllers.join.members import Members
from transom.controllers.runtime.cached_objects import CachedInstance
from transom.controllers.runtime.current_settings import CurrentSettings
from transom.controllers.runtime.informers import Informers
from transom.kube.client import Client
from transom.kube.objects import ObjectMeta
from transom.windows.nodes.node_certificates import SERVING, ApprovalDecision, CertificateRequest, decide_approval

NAME = "ip-10-0-1-2.eu-central-1.compute.internal"
PUBLIC = "ec2-18-194-1-2.eu-central-1.compute.amazonaws.com"


def judged(addresses: Any, *sans: str) -> ApprovalDecision:
    informers = Informers(cast(Client, None), "transom-system")
    members = Members(informers, NodeIdentities(informers, CurrentSettings(informers, None), None))
    spec = {"address": "10.0.1.2", "username": "Administrator", "nodeName": NAME, "lifecycle": "Node", "addresses": addresses}
    informers.windows_instances.put(CachedInstance(ObjectMeta("win-1", "transom-system", uid="u-1"), spec))
    username = f"system:node:{NAME}"
    request = CertificateRequest(SERVING, username, ("system:nodes",), SERVING_USAGES, pem(username, sans=sans))
    return decide_approval(request, members.find_candidates(username, {NAME}), {})


@pytest.mark.parametrize(
    ("addresses", "sans"),
    [
        (["18.194.1.2", PUBLIC], (NAME, "10.0.1.2", "18.194.1.2", PUBLIC)),
        ([PUBLIC.upper()], (NAME, PUBLIC)),
        (["10.9.9.2"], (NAME, "10.0.1.2", "10.9.9.2")),
        (["fd00:0::9"], (NAME, "fd00::9")),
        (["10.9.9.2", 7, None], (NAME, "10.9.9.2")),
    ],
)
def test_a_serving_certificate_has_the_addresses_of_the_spec(addresses: Any, sans: tuple[str, ...]) -> None:
    assert judged(addresses, *sans).verdict == "Approve"


@pytest.mark.parametrize(
    ("addresses", "sans", "missing"),
    [
        ([], (NAME, PUBLIC), PUBLIC),
        (None, (NAME, "10.9.9.2"), "10.9.9.2"),
        ("10.9.9.2", (NAME, "10.9.9.2"), "10.9.9.2"),
        (["10.9.9.2"], (NAME, "10.9.9.3"), "10.9.9.3"),
    ],
)
def test_another_address_is_refused_with_the_field_to_set(addresses: Any, sans: tuple[str, ...], missing: str) -> None:
    found = judged(addresses, *sans)
    assert found.verdict == "Leave"
    assert missing in found.reason
    assert "spec.addresses" in found.reason


def test_the_certificate_of_another_host_does_not_use_these_addresses() -> None:
    informers = Informers(cast(Client, None), "transom-system")
    members = Members(informers, NodeIdentities(informers, CurrentSettings(informers, None), None))
    for name, more in (("win-1", ["10.9.9.2"]), ("win-2", [])):
        spec = {"address": f"10.0.1.{name[-1]}", "nodeName": name, "lifecycle": "Node", "addresses": more}
        informers.windows_instances.put(CachedInstance(ObjectMeta(name, "transom-system", uid=f"u-{name}"), spec))
    request = CertificateRequest(
        SERVING, "system:node:win-2", ("system:nodes",), SERVING_USAGES, pem("system:node:win-2", sans=("win-2", "10.9.9.2"))
    )
    assert decide_approval(request, members.find_candidates("system:node:win-2", {"win-2"}), {}).verdict == "Leave"
