"""The Secret and the ConfigMap that injected pods refer to: there where they are needed, and nowhere else."""

import asyncio
import base64
import contextlib
import json
from collections.abc import AsyncIterator
from typing import Any

import pytest
from tests.pods.table import OWN, PASSWORD
from tests.support.operator.bundles import ROOT_1
from tests.support.operator.clusters import QUICK, at_work
from tests.support.operator.rights import asked, granted
from tests.support.waiting import until
from tests.webhook.clusters import Admission, plain_pod

from transom.controllers.operator import Operator, Options
from transom.controllers.pods import controller
from transom.kube.client import Client
from transom.kube.connection import connect
from transom.kube.errors import NotFound
from transom.kube.objects import UnstructuredObject
from transom.kube.resources import CONFIG_MAPS, EGRESS_PROXIES, NAMESPACES, REGISTRATIONS, SECRETS, Resource
from transom.manifests.admission import iter_admission_roles
from transom.manifests.roles import iter_roles
from transom.pods.environment import LEDGER
from transom.proxy.trust import parse_bundle

pytestmark = pytest.mark.lab
NAMESPACE = Resource("", "v1", "Namespace", "namespaces", False, UnstructuredObject)
USER = f"system:serviceaccount:{OWN}:transom"
EVERYWHERE = {"plain", "team-a", "team-c", "with-ca", "without-ca", "enabled", "kubernetes-like", "default"}
"""The namespaces that are not left alone."""
URL = "http://alice:hunter2%25%5E%26%21%22%5C%C3%A9%24%20x@proxy.corp.example:3128"


@contextlib.asynccontextmanager
async def operator(admission: Admission, *names: str) -> AsyncIterator[Operator]:
    """`transom run` in this process, as the ServiceAccount of the manifests."""
    plane = admission.control_plane
    await asyncio.to_thread(plane.apply, list(iter_roles(OWN, names)))
    token = await asyncio.to_thread(plane.create_service_account_token, OWN, "transom")
    connection = connect(str(plane.write_kubeconfig("run", token)))
    options = Options(namespace=OWN, reflector=QUICK, workers=4, controllers=names, leader_elect=False)
    try:
        async with at_work(Operator(Client(connection), options)) as running:
            yield running
    finally:
        await connection.close()


async def found(admission: Admission, resource: Resource[Any], name: str) -> dict[str, dict[str, Any]]:
    """The objects of that name, by namespace."""
    listing = await admission.client.list_objects(resource, fields=f"metadata.name={name}")
    return {item.metadata.namespace: item.value for item in listing.items}


async def secrets(admission: Admission) -> set[str]:
    return set(await found(admission, SECRETS, "transom-egress"))


async def until_secrets(admission: Admission, *namespaces: str) -> None:
    async def there() -> bool:
        return await secrets(admission) == set(namespaces)

    await until(there)


async def until_config_maps(admission: Admission, *namespaces: str) -> None:
    async def there() -> bool:
        return set(await found(admission, CONFIG_MAPS, "transom-egress-ca")) == set(namespaces)

    await until(there)


async def conditions(admission: Admission) -> dict[str, tuple[str, str, str]]:
    held = (await admission.client.get(EGRESS_PROXIES, "cluster")).value
    return {
        condition["type"]: (condition["status"], condition["reason"], condition["message"])
        for condition in (held.get("status") or {}).get("conditions", ())
    }


async def until_condition(admission: Admission, type_: str, reason: str) -> str:
    told = ""

    async def said() -> bool:
        nonlocal told
        verdict = (await conditions(admission)).get(type_)
        told = verdict[2] if verdict else ""
        return verdict is not None and verdict[1] == reason

    await until(said)
    return told


async def name_space(admission: Admission, name: str, **labels: str) -> None:
    named = {"transom.dev/" + key.replace("_", "-"): value for key, value in labels.items()}
    value = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name, "labels": named}}
    await admission.apply(NAMESPACES, value)


async def remove_namespace(admission: Admission, name: str) -> None:
    await admission.client.delete(NAMESPACES, name)

    async def gone() -> bool:
        try:
            await admission.client.get(NAMESPACES, name)
        except NotFound:
            return True
        return False

    await until(gone)


async def test_the_secret_is_where_the_selector_says(admission: Admission) -> None:
    async with operator(admission, "egress", "pods"):
        await admission.settings("userinfo")
        await until_secrets(admission, "team-a")
        held = (await found(admission, SECRETS, "transom-egress"))["team-a"]
        values = {name: base64.b64decode(value).decode() for name, value in held["data"].items()}
        assert values == {
            "HTTP_PROXY": "http://alice:hunter2%25@proxy.corp.example:3128",
            "HTTPS_PROXY": "http://proxy.corp.example:3128",
        }
        # a namespace that appears, is relabelled, and goes
        await admission.apply(
            NAMESPACES, {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "new", "labels": {"team": "a"}}}
        )
        await until_secrets(admission, "team-a", "new")
        await admission.apply(
            NAMESPACES, {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "new", "labels": {"team": "b"}}}
        )
        await until_secrets(admission, "team-a")
        await remove_namespace(admission, "new")
        # every namespace but those that are left alone
        await admission.settings("credentials")
        await until_secrets(admission, *EVERYWHERE)
        held = (await found(admission, SECRETS, "transom-egress"))["plain"]
        assert base64.b64decode(held["data"]["HTTP_PROXY"]).decode() == URL
        await until_condition(admission, "PodsInjected", "NotRegistered")
        # without a selector nobody said who may have them
        await admission.settings("withheld")
        await until_secrets(admission)
        told = await until_condition(admission, "PodsInjected", "NoNamespaceSelector")
        assert told.startswith("spec.pods.namespaceSelector: not set")
        await admission.settings("plain")
        await until_condition(admission, "PodsInjected", "NotRegistered")
        assert await secrets(admission) == set()
        ledger = (await found(admission, SECRETS, LEDGER))[OWN]
        assert not ledger.get("data")


async def test_the_config_map_is_where_the_label_is(admission: Admission) -> None:
    async with operator(admission, "egress", "pods"):
        await admission.settings("plain")
        await until_config_maps(admission, "with-ca")
        held = (await found(admission, CONFIG_MAPS, "transom-egress-ca"))["with-ca"]
        certificates = {certificate.sha256 for certificate in parse_bundle(held["data"]["ca-bundle.crt"]).certificates}
        assert {certificate.sha256 for certificate in parse_bundle(ROOT_1).certificates} < certificates
        # a pod with the label, which goes again
        await admission.post(plain_pod("labelled", labels={"transom.dev/inject-ca": "true"}), "plain")
        await until_config_maps(admission, "with-ca", "plain")
        await admission.remove("labelled", "plain")
        await until_config_maps(admission, "with-ca")
        # edited or deleted by hand
        await admission.apply(
            CONFIG_MAPS,
            {
                "apiVersion": "v1",
                "kind": "ConfigMap",
                "metadata": {"name": "transom-egress-ca", "namespace": "with-ca"},
                "data": {"ca-bundle.crt": "x"},
            },
        )

        async def right() -> bool:
            now = (await found(admission, CONFIG_MAPS, "transom-egress-ca")).get("with-ca")
            return now is not None and now["data"] == held["data"]

        await until(right)
        await admission.delete(CONFIG_MAPS, "transom-egress-ca", "with-ca")
        await until(right)
        # a namespace is labelled while this goes on
        await name_space(admission, "new", inject_ca="true")
        await until_config_maps(admission, "with-ca", "new")
        await name_space(admission, "new", inject_ca="true", inject="disabled")
        await until_config_maps(admission, "with-ca")
        await remove_namespace(admission, "new")
        await admission.settings("http-alone")
        await until_config_maps(admission)


async def test_settings_that_go_leave_nothing(admission: Admission) -> None:
    async with operator(admission, "egress", "pods"):
        await admission.settings("credentials")
        await until_config_maps(admission, "with-ca")

        async def many() -> bool:
            return len(await secrets(admission)) > 5

        await until(many)
        await admission.settings("none")
        await until_secrets(admission)
        await until_config_maps(admission)


async def test_what_is_missing_or_forgotten_is_mended(admission: Admission, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(controller, "CHECK", 0.5)
    await admission.settings("userinfo")
    async with operator(admission, "pods"):
        await until_secrets(admission, "team-a")
        await admission.delete(SECRETS, "transom-egress", "team-a")
        await until_secrets(admission, "team-a")

        async def noted() -> bool:
            ledger = (await found(admission, SECRETS, LEDGER)).get(OWN, {})
            return set(ledger.get("data") or {}) == {"team-a"}

        await until(noted)
        await admission.delete(SECRETS, LEDGER, OWN)
        await until(noted)
    # what is changed while nobody runs
    await admission.settings("plain")
    async with operator(admission, "pods"):
        await until_secrets(admission)


async def test_an_object_of_somebody_else_is_left_alone(admission: Admission) -> None:
    for kind, resource, name in (("Secret", SECRETS, "transom-egress"), ("ConfigMap", CONFIG_MAPS, "transom-egress-ca")):
        meta = {"name": name, "namespace": "with-ca"}
        await admission.apply(resource, {"apiVersion": "v1", "kind": kind, "metadata": meta, "data": {"theirs": "eA=="}})
    async with operator(admission, "egress", "pods"):
        await admission.settings("credentials")
        both = {"Secret with-ca/transom-egress", "ConfigMap with-ca/transom-egress-ca"}

        async def told() -> bool:
            _, _, message = (await conditions(admission)).get("Conflict", ("", "", ""))
            return {part.partition(" is ")[0] for part in message.split("; ")} == both

        await until(told)
        for resource, name in ((SECRETS, "transom-egress"), (CONFIG_MAPS, "transom-egress-ca")):
            assert (await found(admission, resource, name))["with-ca"]["data"] == {"theirs": "eA=="}
        for resource, name in ((SECRETS, "transom-egress"), (CONFIG_MAPS, "transom-egress-ca")):
            await admission.delete(resource, name, "with-ca")
        # with a label that changes, the Secret is looked at again
        await admission.settings("none")
        await until_secrets(admission)


async def test_the_roles_suffice_and_no_verb_is_left_over(admission: Admission) -> None:
    async with operator(admission, "pods"):
        await admission.settings("credentials")
        await until_config_maps(admission, "with-ca")
        await until_secrets(admission, *EVERYWHERE)
        await admission.settings("none")
        await until_secrets(admission)
        await until_config_maps(admission)
    uses = asked(admission.control_plane, USER)
    assert [use for use in uses if use[2] in (401, 403)] == []
    used = {use for use, _, code in uses if code < 400}
    # an apply that makes the object asks for both
    used |= {(*use[:2], "create") for use, _, code in uses if use[2] == "patch" and code == 201}
    own = ("secrets", "configmaps", "namespaces", "pods")
    left = {item for item in granted(list(iter_roles(OWN, ("pods",))), "ClusterRole") if item[1] in own} - used
    assert left <= {("", "namespaces", "get")}
    assert all(namespace == OWN for use, namespace, _ in uses if use[1] == "secrets" and use[2] in ("list", "watch"))
    assert PASSWORD not in json.dumps(list(admission.control_plane.read_audit()))


async def test_the_roles_of_the_admission_server(admission: Admission) -> None:
    user = f"system:serviceaccount:{OWN}:transom-webhook"
    # another test takes the roles away for a while
    began = admission.control_plane.get_moment()
    await admission.settings("credentials")
    async with admission.replica() as webhook:
        await until(lambda: webhook.ready and webhook.keeper.registered)
        await admission.post(plain_pod("waits"), "plain")
        await admission.delete(REGISTRATIONS, "transom")

        async def back() -> bool:
            return await admission.registration() is not None

        await until(back)
    uses = asked(admission.control_plane, user, began)
    assert [use for use in uses if use[2] in (401, 403)] == []
    used = {use for use, _, code in uses if code < 400}
    used |= {(*use[:2], "create") for use, _, code in uses if use[2] == "patch" and code == 201}
    objects = list(iter_admission_roles(OWN))
    left = (granted(objects, "ClusterRole") | granted(objects, "Role", OWN) | granted(objects, "Role", "default")) - used
    # kinds that OpenShift alone has, an event that repeats, a definition or settings that went
    left -= {use for use in left if use[0] == "config.openshift.io"}
    assert left <= {
        ("", "events", "patch"),
        ("", "namespaces", "get"),
        ("apiextensions.k8s.io", "customresourcedefinitions", "get"),
    }
