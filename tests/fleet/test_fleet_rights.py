"""The rights of the fleet controller: nothing is refused, and no verb is left over."""

import asyncio

import pytest
from tests.fleet.apps import release
from tests.fleet.management import Management
from tests.operator.test_roles import granted
from tests.settings.bundles import certificate

from transom.kube.client import Client
from transom.kube.connection import connect
from transom.kube.resources import EGRESS_PROXIES
from transom.manifests.roles import roles

pytestmark = pytest.mark.lab
CONTROLLERS = ("egress", "clusters")
VALUES, SYSTEMD = "mycluster-cluster-values", "mycluster-systemd-proxy"


async def test_rights_suffice_and_no_verb_is_left_over(management: Management) -> None:
    plane, namespace, org = management.control_plane, management.namespace, management.org
    await asyncio.to_thread(plane.apply, list(roles(namespace, CONTROLLERS)))
    token = await asyncio.to_thread(plane.service_account_token, namespace, "transom")
    connection = connect(str(plane.user_kubeconfig(f"{namespace}-fleet", token)))
    user = f"system:serviceaccount:{namespace}:transom"
    wanted = granted(list(roles(namespace, ("clusters",))), "ClusterRole") - granted(list(roles(namespace, ())), "ClusterRole")
    labels = {"giantswarm.io/cluster": "mycluster", "transom.dev/inject": "true"}
    await management.put(
        {"kind": "App", "metadata": {"name": "app", "namespace": org, "labels": labels}, "spec": {"catalog": "x"}}
    )
    await management.put(release("release", org, labels))
    # somebody else's: what is there under that name has to be read
    await management.put({"kind": "ConfigMap", "metadata": {"name": "mycluster-egress-ca", "namespace": org}}, "somebody")
    await management.bundle(certificate("one"))
    await management.cluster()
    await management.settings(trustedCA={"name": "corp-ca"})
    administrator, management.client = management.client, Client(connection)
    try:
        async with management.operator(controllers=CONTROLLERS):
            management.client = administrator
            await management.until_condition("Conflict", "Conflict")
            await management.until_data("ConfigMap", VALUES, "values", "noProxy")
            await management.settings("hunter2 new", trustedCA={"name": "corp-ca"})
            await management.until_data("Secret", SYSTEMD, "containerdProxy", "hunter2%%20new")
            await management.client.delete(EGRESS_PROXIES, "cluster")
            for kind, name in (("App", "app"), ("HelmRelease", "release")):
                await management.merge(kind, name, {"metadata": {"labels": {"transom.dev/inject": None}}}, org)
            await management.until_objects(("ConfigMap", "mycluster-egress-ca"))

            async def left_over() -> bool:
                entries = [one for one in plane.audit() if one["user"]["username"] == user and "objectRef" in one]
                refused = [one["requestURI"] for one in entries if one.get("responseStatus", {}).get("code") in (401, 403)]
                assert refused == []
                used = {(one["objectRef"].get("apiGroup", ""), one["objectRef"]["resource"], one["verb"]) for one in entries}
                return wanted <= used

            await management.until(left_over)
    finally:
        management.client = administrator
        await connection.close()
