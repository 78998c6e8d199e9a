"""The rights of the fleet controller: nothing is refused, and no verb is left over."""

import pytest
from tests.support.bundles import certificate
from tests.support.management.apps import release
from tests.support.management.management import Management
from tests.support.management.rights import limited

from transom.kube.resources import EGRESS_PROXIES

pytestmark = pytest.mark.lab
CONTROLLERS = ("egress", "clusters")
VALUES, SYSTEMD = "mycluster-cluster-values", "mycluster-systemd-proxy"


async def test_rights_suffice_and_no_verb_is_left_over(management: Management) -> None:
    org = management.org
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
    async with limited(management, CONTROLLERS, ("clusters",)):
        await management.until_condition("Conflict", "Conflict")
        await management.until_data("ConfigMap", VALUES, "values", "noProxy")
        await management.settings("hunter2 new", trustedCA={"name": "corp-ca"})
        await management.until_data("Secret", SYSTEMD, "containerdProxy", "hunter2%%20new")
        await management.client.delete(EGRESS_PROXIES, "cluster")
        for kind, name in (("App", "app"), ("HelmRelease", "release")):
            await management.merge(kind, name, {"metadata": {"labels": {"transom.dev/inject": None}}}, org)
        await management.until_objects(("ConfigMap", "mycluster-egress-ca"))
