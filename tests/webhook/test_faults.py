"""Rotation, replicas that go, an install that goes: what becomes of pods meanwhile."""

import asyncio
import base64
import contextlib
import datetime
import json
import os
import signal
from collections.abc import AsyncIterator
from typing import Any

import pytest
from cryptography import x509
from lab.ports import reserve
from tests.pods.table import OWN, PASSWORD
from tests.support.process import Process, start
from tests.support.waiting import until
from tests.webhook.clusters import PROBED, Admission, plain_pod

from transom.controllers.pods import webhook_check
from transom.kube.errors import NotFound
from transom.kube.objects import Metadata
from transom.kube.resources import EGRESS_PROXIES, SECRETS, Resource
from transom.manifests.admission import iter_admission_roles
from transom.manifests.definitions import build_crds
from transom.webhook.webhook import Webhook
from transom.webhook.webhook_secret import CertificateLifetimes

pytestmark = pytest.mark.lab
CLUSTER_ROLES = Resource("rbac.authorization.k8s.io", "v1", "ClusterRole", "clusterroles", False, Metadata)


async def serving(admission: Admission, webhook: Webhook, name: str = "plain") -> None:
    """Until pods get the settings."""
    await admission.settings(name)
    await until(lambda: webhook.egress is not None and bool(webhook.egress.pairs or webhook.egress.withheld))

    async def heard() -> bool:
        assert webhook.egress is not None
        return await admission.probe(webhook.egress)

    await until(heard)


def environment(pod: dict[str, Any]) -> list[str]:
    return [item["name"] for item in pod["spec"]["containers"][0].get("env", [])]


async def bundle(admission: Admission) -> list[str]:
    """The authorities of the Secret, as subjects."""
    held = (await admission.client.get(SECRETS, "transom-webhook", OWN)).value["data"]
    return [
        pem_x509_certificate.subject.rfc4514_string()
        for pem_x509_certificate in x509.load_pem_x509_certificates(base64.b64decode(held["ca.crt"]))
    ]


class Calendar:
    """A clock that goes on by days when it is told to: no pause of this process outlasts a certificate.

    It begins a month ago, since the API server has a clock of its own, and takes no certificate from the future.
    """

    def __init__(self) -> None:
        self._ahead = -datetime.timedelta(days=30)

    def now(self) -> datetime.datetime:
        return datetime.datetime.now(datetime.UTC) + self._ahead

    def go_on(self, time: datetime.timedelta) -> None:
        self._ahead += time


class Load:
    """Pods that are created side by side, again and again. With Fail, one that is not answered for is refused."""

    def __init__(self, admission: Admission) -> None:
        self._admission = admission
        self.given = 0
        self.failed: list[tuple[int, Any]] = []

    @contextlib.asynccontextmanager
    async def running(self) -> AsyncIterator[None]:
        tasks = [asyncio.create_task(self._post()) for _ in range(4)]
        try:
            yield
        finally:
            for task in tasks:
                task.cancel()
            ended = await asyncio.gather(*tasks, return_exceptions=True)
        assert {type(item) for item in ended} == {asyncio.CancelledError}

    async def _post(self) -> None:
        while not self.failed:
            await asyncio.sleep(0.05)
            code, answered, _ = await self._admission.post(plain_pod("load"), PROBED, dry_run=True)
            message = str(answered.get("message"))
            if code == 201 and "HTTP_PROXY" in environment(answered):
                self.given += 1
            elif "context deadline exceeded" not in message:
                # that one waited for a server whose process, this one, was not let run for 5 s
                self.failed.append((code, message))

    async def goes_on(self) -> None:
        """Until it was answered many times more."""
        before = self.given
        await until(lambda: self.given >= before + 20 or self.failed)
        assert self.failed == []


class Rotations:
    """A replica whose time goes on by steps, and what the API server has registered of it."""

    def __init__(self, admission: Admission, webhook: Webhook, calendar: Calendar) -> None:
        self._admission, self._webhook, self._calendar = admission, webhook, calendar

    async def go_on(self, time: datetime.timedelta, *, trusted: int, another: bool) -> None:
        """Until so many authorities are registered and, if `another`, another certificate is shown. An API server that has not
        heard of it yet has to trust what is shown."""
        before, shown = await self._registered(), self._webhook.certificate

        async def taken() -> bool:
            bundle = base64.b64decode((await self._registered())["webhooks"][0]["clientConfig"]["caBundle"])
            return (bundle.count(b"BEGIN"), self._webhook.certificate != shown) == (trusted, another)

        async def believed() -> bool:
            assert self._webhook.egress is not None
            return (await webhook_check.build_pods_injected_condition(before, self._webhook.egress)).reason == "Injected"

        self._calendar.go_on(time)
        self._webhook.keeper.wake()
        await until(taken)
        await until(believed)

    async def _registered(self) -> dict[str, Any]:
        found = await self._admission.registration()
        assert found is not None
        return found


async def test_rotations_under_load_fail_nobody(admission: Admission) -> None:
    """Authority and serving certificate are made anew again and again."""
    lives, calendar, second = CertificateLifetimes(renew=0.999), Calendar(), datetime.timedelta(seconds=1)
    authority, serving_certificate = ((1 - lives.renew) * life + second for life in (lives.authority, lives.serving))
    overlap = lives.overlap + second
    async with admission.replica(failure_policy="Fail", lives=lives, now=calendar.now) as webhook:
        await serving(admission, webhook)
        rotations, load = Rotations(admission, webhook, calendar), Load(admission)
        async with load.running():
            for _ in range(3):
                await rotations.go_on(authority, trusted=2, another=False)
                await load.goes_on()
                await rotations.go_on(overlap, trusted=2, another=True)
                await load.goes_on()
                await rotations.go_on(overlap, trusted=1, another=False)
                await load.goes_on()
                await rotations.go_on(serving_certificate, trusted=1, another=True)
                await load.goes_on()


class Replica:
    """`transom webhook` as a process of its own."""

    def __init__(self, admission: Admission, number: int, **options: str) -> None:
        self.port = reserve()
        plane = admission.control_plane
        token = plane.create_service_account_token(OWN, "transom-webhook")
        self.log = plane.directory / f"webhook-{number}.log"
        flags = {
            "kubeconfig": str(plane.write_kubeconfig(f"replica-{number}", token)),
            "bind-address": f"127.0.0.1:{self.port}",
            "metrics-bind-address": f"127.0.0.1:{reserve()}",
            "url": f"https://127.0.0.1:{self.port}",
            "log-level": "debug",
            **options,
        }
        self._arguments = ("webhook", *(f"--{flag}={value}" for flag, value in flags.items()))
        self._home = str(plane.directory)
        self.process: Process | None = None

    async def __aenter__(self) -> "Replica":
        with self.log.open("wb") as log:
            environ = {"PATH": os.defpath, "HOME": self._home}
            self.process = await start(*self._arguments, environment=environ, log=log)
        await until(lambda: '"serving"' in self.log.read_text())
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.end(signal.SIGKILL)

    async def end(self, number: signal.Signals) -> int:
        assert self.process is not None
        if self.process.returncode is None:
            self.process.send_signal(number)
        return await self.process.wait()


async def until_asked(admission: Admission) -> None:
    async def asked() -> bool:
        code, answered, _ = await admission.post(plain_pod("probe"), PROBED, dry_run=True)
        return code == 201 and "HTTP_PROXY" in environment(answered)

    await until(asked)


@pytest.mark.parametrize("policy", ["Ignore", "Fail"])
async def test_both_replicas_are_killed(admission: Admission, policy: str) -> None:
    await admission.settings("credentials")
    await admission.has_secret(PROBED)
    options = {"failure-policy": policy}
    async with Replica(admission, 1, **options) as one, Replica(admission, 2, **options) as other:
        await until_asked(admission)
        await asyncio.gather(one.end(signal.SIGKILL), other.end(signal.SIGKILL))
        code, answered, _ = await admission.post(plain_pod("after"), PROBED)
        if policy == "Ignore":
            assert code == 201
            assert environment(answered) == []
        else:
            assert code == 500
            assert "failed calling webhook" in answered["message"]
        # what the cluster itself needs is not asked about
        for namespace in ("kube-system", OWN):
            code, _, _ = await admission.post(plain_pod(f"own-{policy.lower()}"), namespace)
            assert code == 201
            await admission.remove(f"own-{policy.lower()}", namespace)
        for replica in (one, other):
            text = replica.log.read_text()
            assert "hunter2" not in text
            assert PASSWORD not in text
            assert all(json.loads(line) for line in text.splitlines())


async def test_the_other_replica_takes_over_and_sigterm_ends_in_order(admission: Admission) -> None:
    await admission.settings("plain")
    async with Replica(admission, 1) as one, Replica(admission, 2) as other:
        await until_asked(admission)
        held = await admission.registration()
        assert held is not None
        first, second = (one, other) if str(one.port) in held["webhooks"][0]["clientConfig"]["url"] else (other, one)
        authorities = await bundle(admission)
        assert await first.end(signal.SIGTERM) == 0

        async def moved() -> bool:
            now = await admission.registration()
            return now is not None and str(second.port) in now["webhooks"][0]["clientConfig"]["url"]

        await until(moved)
        await until_asked(admission)
        assert await bundle(admission) == authorities


async def test_the_install_is_deleted(admission: Admission) -> None:
    """The registration goes with ClusterRole/transom-webhook, and nobody makes it again: pods start, also with Fail."""
    await admission.settings("plain")
    try:
        async with Replica(admission, 1, **{"failure-policy": "Fail"}) as one:
            await until_asked(admission)
            await admission.client.delete(CLUSTER_ROLES, "transom-webhook")

            async def gone() -> bool:
                return await admission.registration() is None

            await until(gone)
            await admission.delete(EGRESS_PROXIES, "cluster")
            await admission.settings("plain")
            await one.end(signal.SIGKILL)
            assert await gone()

            async def started() -> bool:
                code, answered, _ = await admission.post(plain_pod("free"), PROBED, dry_run=True)
                return code == 201 and environment(answered) == []

            await until(started)
    finally:
        await asyncio.to_thread(admission.control_plane.apply, list(iter_admission_roles(OWN)))


async def test_what_somebody_else_changes_is_put_right(admission: Admission) -> None:
    async with admission.replica() as webhook:
        await serving(admission, webhook)
        path = "/apis/admissionregistration.k8s.io/v1/mutatingwebhookconfigurations/transom"
        kind = "application/merge-patch+json"
        await admission.client.request("PATCH", path, None, {"webhooks": []}, content_type=kind)
        await until_asked(admission)
        before = await bundle(admission)
        await admission.delete(SECRETS, "transom-webhook", OWN)

        async def back() -> bool:
            try:
                return await bundle(admission) == before
            except NotFound:
                return False

        await until(back)
        await until_asked(admission)


async def test_invalid_settings_change_nothing_also_after_a_restart(admission: Admission) -> None:
    spec = {"noProxy": "*.example.com", "httpProxy": "http://other.corp.example:1"}
    value = {"apiVersion": "transom.dev/v1alpha1", "kind": "EgressProxy", "metadata": {"name": "cluster"}, "spec": spec}
    async with admission.replica() as webhook:
        await serving(admission, webhook)
        valid = webhook.egress
        await admission.apply(EGRESS_PROXIES, value)
        await until(lambda: not webhook.settings.valid)
        await until_asked(admission)
        assert webhook.egress == valid
    async with admission.replica() as webhook:
        await until(lambda: webhook.ready)
        assert not webhook.settings.valid
        assert webhook.egress == valid
        await until_asked(admission)


async def test_a_secret_that_is_missing(admission: Admission) -> None:
    async with admission.replica() as webhook:
        await serving(admission, webhook, "credentials")
        code, answered, warnings = await admission.post(plain_pod("waits"), PROBED)
        assert code == 201
        assert answered["spec"]["containers"][0]["env"][0]["valueFrom"]["secretKeyRef"]["optional"] is False
        assert any("Secret transom-egress is not in namespace team-a yet" in warning for warning in warnings)

        async def told() -> bool:
            listed = await asyncio.to_thread(admission.control_plane.run_kubectl, "get", "events", "-n", PROBED, "-o", "json")
            return any(item["reason"] == "SecretMissing" for item in json.loads(listed)["items"])

        await until(told)
        await admission.has_secret(PROBED)

        async def quiet() -> bool:
            return not (await admission.post(plain_pod("waits-not"), PROBED, dry_run=True))[2]

        await until(quiet)


async def test_it_is_not_ready_before_it_knows_the_settings(admission: Admission) -> None:
    plane = admission.control_plane
    await asyncio.to_thread(plane.run_kubectl, "delete", "crd", "egressproxies.transom.dev")
    try:
        async with admission.replica() as webhook:
            await until(lambda: webhook.port is not None)
            await until(webhook.settings.begun.is_set)
            assert not webhook.ready
            await _define(admission)
            await until(lambda: webhook.ready)
    finally:
        await _define(admission)


async def _define(admission: Admission) -> None:
    await asyncio.to_thread(admission.control_plane.apply, build_crds())
    ready = ("wait", "--for=condition=Established", "--timeout=180s", "crd/egressproxies.transom.dev")
    await asyncio.to_thread(admission.control_plane.run_kubectl, *ready)
