"""PodsInjected: what the API server has registered, and what the server that it names answers."""

import copy
from collections.abc import Callable
from typing import Any, Never

import pytest
from lab.ports import reserve
from tests.pods.table import objects, pod_egress
from tests.support.operator.bundles import ROOT_1
from tests.support.operator.clusters import WHOLE_EVENTS
from tests.support.waiting import until
from tests.webhook.clusters import Admission, plain_pod
from tests.webhook.test_pods_controller import conditions, operator, until_condition

from transom.controllers.pods import controller, webhook_check
from transom.kube.resources import EGRESS_PROXIES, REGISTRATIONS
from transom.pods.webhook_configuration import WebhookEndpoint, build_registration
from transom.webhook.webhook import Webhook

pytestmark = pytest.mark.lab


async def test_it_follows_what_is_there(admission: Admission, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(controller, "LOOK", 1.0)
    await admission.settings("plain")
    async with operator(admission, "egress", "pods"):
        told = await until_condition(admission, "PodsInjected", "NotRegistered")
        assert "MutatingWebhookConfiguration/transom does not exist" in told
        async with admission.replica():
            await until_condition(admission, "PodsInjected", "Injected")
            assert (await conditions(admission))["PodsInjected"][0] == "True"
        # nobody serves any more, and what is registered still stands
        told = await until_condition(admission, "PodsInjected", "NotCalled")
        assert "no connection" in told
        assert "pods start without the settings" in told
        await admission.settings("narrowed")
        await until_condition(admission, "PodsInjected", "Outdated")
        async with admission.replica():
            await until_condition(admission, "PodsInjected", "Injected")
        await admission.settings("withheld")
        await until_condition(admission, "PodsInjected", "NoNamespaceSelector")
        await admission.settings("plain")
        await until_condition(admission, "PodsInjected", "Outdated")
        await admission.delete(REGISTRATIONS, "transom")
        theirs = {"apiVersion": REGISTRATIONS.api_version, "kind": REGISTRATIONS.kind, "metadata": {"name": "transom"}}
        await admission.apply(REGISTRATIONS, {**theirs, "webhooks": []})
        assert "is not managed by Transom" in await until_condition(admission, "PodsInjected", "NotRegistered")


def test_one_server_is_called_once_whatever_its_paths() -> None:
    made = build_registration(pod_egress("plain"), WebhookEndpoint("transom-system", "transom-webhook"), "PEM", "Ignore", {})
    assert len(made["webhooks"]) == 2
    assert webhook_check._list_webhook_servers(made) == [("https://transom-webhook.transom-system.svc:443/pods", "UEVN", False)]


@pytest.mark.parametrize(
    ("policies", "refuses"),
    [(("Ignore", "Ignore"), False), (("Fail", "Fail"), True), (("Ignore", "Fail"), True), (("Fail", "Ignore"), True)],
)
def test_a_server_refuses_pods_if_one_of_its_entries_does(policies: tuple[str, str], refuses: bool) -> None:
    made = build_registration(pod_egress("plain"), WebhookEndpoint("transom-system", "transom-webhook"), "PEM", "Ignore", {})
    for entry, policy in zip(made["webhooks"], policies, strict=True):
        entry["failurePolicy"] = policy
    assert [server[2] for server in webhook_check._list_webhook_servers(made)] == [refuses]
    del made["webhooks"][0]["failurePolicy"]
    # the API server's default
    assert [server[2] for server in webhook_check._list_webhook_servers(made)] == [True]


async def test_pods_are_refused_and_every_place_reports_it(admission: Admission, monkeypatch: pytest.MonkeyPatch) -> None:
    """With failurePolicy Fail and no server, the API server refuses pods: the message gives the commands that end it."""
    monkeypatch.setattr(controller, "LOOK", 1.0)
    await admission.settings("plain")
    async with operator(admission, "egress", "pods"):
        async with admission.replica(failure_policy="Fail"):
            await until_condition(admission, "PodsInjected", "Injected")
        status, answer, _ = await admission.post(plain_pod("refused"), "team-a")
        assert status >= 400, answer
        message = await until_condition(admission, "PodsInjected", "PodsRefused")
        assert "kubectl delete mutatingwebhookconfiguration transom" in message
        assert "start without" not in message
        await until_event(admission, "PodsRefused")
        # also once the settings give pods nothing any more, or something else
        await admission.settings("narrowed")
        await until_condition(admission, "PodsInjected", "PodsRefused")
        # the first command of the message
        await admission.delete(REGISTRATIONS, "transom")

        async def is_admitted() -> bool:
            # the API server learns of it by a watch
            return (await admission.post(plain_pod("admitted"), "team-a"))[0] == 201

        await until(is_admitted)
        await until_condition(admission, "PodsInjected", "NotRegistered")
        await until_event(admission, "PodsAdmitted")
        async with admission.replica(failure_policy="Ignore"):
            await until_condition(admission, "PodsInjected", "Injected")
        message = await until_condition(admission, "PodsInjected", "NotCalled")
        assert "pods start without the settings" in message


async def test_pods_get_older_settings(admission: Admission, monkeypatch: pytest.MonkeyPatch) -> None:
    """A replica that cannot read the settings any more answers as before: that is not `Injected`."""
    monkeypatch.setattr(controller, "LOOK", 0.5)
    monkeypatch.setattr(controller, "LATE", 1.0)
    await admission.settings("plain")
    async with operator(admission, "egress", "pods"), admission.replica() as webhook:
        await until_condition(admission, "PodsInjected", "Injected")
        known = webhook.egress
        # as after its right to watch them was taken
        webhook.settings._update_listeners.clear()
        (value,) = (item for item in objects("plain") if item["kind"] == "EgressProxy")
        await admission.apply(EGRESS_PROXIES, {**value, "spec": {**value["spec"], "noProxy": ".other.example"}})
        message = await until_condition(admission, "PodsInjected", "OldSettings")
        assert "older settings" in message
        assert webhook.egress == known


async def until_event(admission: Admission, reason: str) -> None:
    async def is_told() -> bool:
        listing = await admission.client.list_objects(WHOLE_EVENTS, "default")
        return any(item.value["reason"] == reason for item in listing.items)

    await until(is_told)


def fails(_: bytes, __: str) -> Never:
    raise RuntimeError("a fault")


@pytest.mark.parametrize(
    ("review", "text"),
    [
        (fails, "it answers 500"),
        (lambda _, __: b"hello", "its answer is not an AdmissionReview"),
        (lambda _, __: b'{"response": {"uid": "another", "allowed": true}}', "its answer is not an AdmissionReview"),
    ],
)
async def test_a_server_that_answers_something_else(
    admission: Admission, review: Callable[[bytes, str], bytes], text: str
) -> None:
    await admission.settings("plain")
    async with admission.replica() as webhook:
        live = await registered_as(admission, webhook)
        await until_found(live, "Injected", "which answers")
        monkeyed = webhook._server
        monkeyed._review = review
        await until_found(live, "NotCalled", text)


async def test_what_the_api_server_would_not_believe(admission: Admission) -> None:
    await admission.settings("plain")
    async with admission.replica() as webhook:
        live = await registered_as(admission, webhook)
        egress = pod_egress("plain")
        for called, authorities, text in (
            (webhook_address(live), ROOT_1, "its certificate is not one that the caBundle there trusts"),
            (webhook_address(live).replace("127.0.0.1", "localhost"), None, "its certificate is not one that the caBundle"),
            (webhook_address(live), "no PEM", "the caBundle there has no certificate that can be read"),
            (f"https://127.0.0.1:{reserve()}", None, "no connection"),
            ("https://nobody.invalid:9443", None, "no connection"),
        ):
            altered = copy.deepcopy(live)
            made = build_registration(egress, WebhookEndpoint("n", "s", called), authorities or "", "Ignore", {})["webhooks"]
            for entry, other in zip(altered["webhooks"], made, strict=True):
                entry["clientConfig"]["url"] = other["clientConfig"]["url"]
                if authorities is not None:
                    entry["clientConfig"]["caBundle"] = other["clientConfig"]["caBundle"]
            await until_found(altered, "NotCalled", text)


async def until_found(live: dict[str, Any], reason: str, text: str) -> None:
    """The answer is waited for 5 s: this process may stand still longer, and then that is what is said."""

    async def said() -> bool:
        found = await webhook_check.build_pods_injected_condition(live, pod_egress("plain"))
        assert "no answer within" in found.message or (found.reason, text in found.message) == (reason, True), found
        return text in found.message

    await until(said)


def webhook_address(live: dict[str, Any]) -> str:
    url: str = live["webhooks"][0]["clientConfig"]["url"]
    return url.rpartition("/")[0]


async def registered_as(admission: Admission, webhook: Webhook) -> dict[str, Any]:
    """The registration, as the API server has it."""
    await until(lambda: webhook.ready)

    async def there() -> dict[str, Any] | None:
        found = await admission.registration()
        return found if found is not None and found.get("webhooks") else None

    live: dict[str, Any] = await until(there)
    return live
