"""Each alert fires by one real fault and ends with it, as Prometheus judges what an operator and an admission server expose."""

import asyncio
import contextlib
import datetime
import math
import re
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from aiohttp import web
from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import Encoding
from cryptography.x509.oid import NameOID
from lab.ports import reserve
from lab.prometheus import Prometheus
from tests.monitoring.dashboard import RANGE, RATE, queries
from tests.support.operator.bundles import ROOT_1
from tests.support.operator.clusters import PROXY, QUICK, QUOTAS, Cluster, at_work
from tests.support.operator.gate import Gate, gate_to
from tests.support.operator.rollouts import breaks_tls
from tests.support.pages import on_cluster
from tests.support.waiting import until
from tests.webhook.clusters import TERMS

from transom.controllers.operator import Operator, Options
from transom.controllers.pods import controller
from transom.controllers.runtime.options import HostTimings as HostPace
from transom.hosts.ssh.ssh_client import Timeouts
from transom.kube.backoff import Backoff
from transom.kube.client import Client
from transom.kube.connection import connect
from transom.kube.reflector import ReflectorTimings
from transom.kube.resources import CONFIG_MAPS, EGRESS_PROXIES, REGISTRATIONS, SECRETS
from transom.manifests.admission import iter_admission_roles
from transom.monitoring.alert import ALERTS, BY_NAME, Tolerance, build_rules
from transom.monitoring.objective import OBJECTIVES
from transom.operations.metrics import OperatorMetrics
from transom.operations.server import serve
from transom.pods.webhook_configuration import FailurePolicy
from transom.webhook.webhook import Webhook, WebhookOptions
from transom.webhook.webhook_secret import LIVES, CertificateLifetimes
from winsim import Host
from winsim.computer import Invocation

pytestmark = pytest.mark.lab
AT_ONCE = Tolerance(patience=0, span="10s", keys=0)
SPEC = {"httpProxy": PROXY, "httpsProxy": PROXY, "trustedCA": {"name": "corp-ca"}}
FETCHING = {"readinessEndpoints": ["https://registry.corp.example/v2/"], "readinessPolicy": "Report"}
# a gate that refuses is asked by twenty kinds
PATIENT = ReflectorTimings(backoff=Backoff(1.0, 4.0), absent=Backoff(8.0, 30.0), watch=60, inactivity=20.0)
SHORT = CertificateLifetimes(serving=datetime.timedelta(days=10))


class World:
    """Two hosts, an operator behind a gate, and a Prometheus that reads it."""

    def __init__(self, cluster: Cluster, prometheus: Prometheus, directory: Path) -> None:
        self.cluster, self.prometheus = cluster, prometheus
        self.directory = directory
        self.operator_port, self.webhook_port, self.reviews_port = reserve(), reserve(), reserve()
        self.hosts: list[Host] = []
        self.seen: set[str] = set()
        """Alerts that have fired and ended."""

    async def firing(self) -> set[str]:
        return await asyncio.to_thread(self.prometheus.list_firing_alerts)

    async def fires(self, *names: str) -> None:
        for name in names:
            assert name in BY_NAME
            await self._until(name, firing=True)

    async def ends(self, *names: str) -> None:
        for name in names:
            await self._until(name, firing=False)
            self.seen.add(name)

    async def _until(self, name: str, *, firing: bool) -> None:
        async def fitting() -> bool:
            return (name in await self.firing()) == firing

        try:
            # rules are judged each second
            await until(fitting, every=0.5)
        except AssertionError:
            settings = (await self.cluster.client.get(EGRESS_PROXIES, "cluster")).value.get("status")
            hosts = [await self.cluster.conditions(f"win-{number}") for number in range(len(self.hosts))]
            raise AssertionError(f"{name}: firing is not {firing}; {settings}; {hosts}") from None

    async def quiet(self, *names: str) -> None:
        """These do not fire, but where this machine has just stood still."""
        for name in names:
            await self._until(name, firing=False)

    async def settled(self) -> None:
        for number in range(len(self.hosts)):
            await self.cluster.until(f"win-{number}", Ready="True/Ready")

    @contextlib.asynccontextmanager
    async def operator(self) -> AsyncIterator[Gate]:
        plane, metrics = self.cluster.control_plane, OperatorMetrics()
        async with gate_to(plane.url, plane.directory) as gate:
            connection = connect(str(plane.write_kubeconfig("gated", plane.admin_token, server=gate.url)))
            pace = HostPace(check_interval=4.0, rights=1.0, timeouts=Timeouts(progress=30.0))
            controllers = ("egress", "hosts", "pods")
            options = Options(self.cluster.namespace, 1, controllers=controllers, pace=pace, reflector=PATIENT)
            operator = Operator(Client(connection), options, metrics.observe)
            metrics.register_operator(operator)
            address = "127.0.0.1", self.operator_port
            async with serve(address, lambda: operator.ready, metrics), at_work(operator):
                yield gate
            await connection.close()

    @contextlib.asynccontextmanager
    async def webhook(self, lives: CertificateLifetimes = LIVES, policy: FailurePolicy = "Ignore") -> AsyncIterator[None]:
        url = f"https://127.0.0.1:{self.reviews_port}"
        options = WebhookOptions(self.cluster.namespace, url, policy, drain=0.0, terms=TERMS, reflector=QUICK, lives=lives)
        webhook, stop = Webhook(self.cluster.client, options), asyncio.Event()
        async with serve(("127.0.0.1", self.webhook_port), lambda: webhook.ready, webhook.metrics):
            running = asyncio.create_task(webhook.run(stop, ("127.0.0.1", self.reviews_port)))
            try:
                yield
            finally:
                stop.set()
                await running


async def is_refusing(cluster: Cluster) -> bool:
    """Whether the webhook configuration has the policy Fail: a replica writes it once it has the lease."""
    found = (await cluster.client.get(REGISTRATIONS, "transom")).value
    return all(one["failurePolicy"] == "Fail" for one in found["webhooks"])


def works(_: Invocation) -> int:
    return 0


def authority(days: int) -> str:
    """A CA that expires in so many days."""
    key, now = ec.generate_private_key(ec.SECP256R1()), datetime.datetime.now(datetime.UTC)
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, f"{days} days")])
    builder = x509.CertificateBuilder().subject_name(name).issuer_name(name).public_key(key.public_key())
    builder = builder.serial_number(x509.random_serial_number()).not_valid_before(now - datetime.timedelta(days=1))
    builder = builder.not_valid_after(now + datetime.timedelta(days=days))
    certificate = builder.add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
    return certificate.sign(key, hashes.SHA256()).public_bytes(Encoding.PEM).decode()


@pytest.fixture
async def world(cluster: Cluster, tmp_path: Path) -> AsyncIterator[World]:
    ports = {"transom": reserve(), "transom-webhook": reserve()}
    with Prometheus(tmp_path / "prometheus", build_rules(AT_ONCE), ports) as prometheus:
        made = World(cluster, prometheus, tmp_path)
        made.operator_port, made.webhook_port = ports.values()

        async def listens() -> bool:
            with contextlib.suppress(OSError):
                await made.firing()
                return True
            return False

        await until(listens)
        yield made


async def test_each_alert_by_one_fault(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(controller, "LOOK", 1.0)
    cluster = world.cluster
    world.hosts = [await cluster.simulator.add_host() for _ in range(2)]
    # what the admission server registers goes with its role
    await asyncio.to_thread(cluster.control_plane.apply, list(iter_admission_roles(cluster.namespace)))
    await cluster.bundle(authority(10) + ROOT_1)
    await cluster.proxy(**SPEC)
    for number, host in enumerate(world.hosts):
        await cluster.instance(f"win-{number}", host)
    # nothing is scraped
    await world.fires("TransomNoLeader")
    async with world.operator() as gate:
        await world.ends("TransomNoLeader")
        # there is no admission server, and a CA of the bundle ends soon
        await world.fires("TransomCertificateExpires", "TransomPodsNotInjected")
        await world.quiet("TransomWebhookCertificateExpires", "TransomSettingsInvalid", "TransomHostsNotConfigured")
        await cluster.bundle(ROOT_1)
        async with world.webhook(SHORT):
            await world.ends("TransomCertificateExpires", "TransomPodsNotInjected")
            await world.settled()
            await cluster.proxy(**SPEC, noProxy="*.example.com")
            await cluster.delete(SECRETS, "cloud-private-key")
            await world.fires("TransomWebhookCertificateExpires", "TransomSettingsInvalid", "TransomHostsNotConfigured")
        await world.quiet("TransomRolloutHalted", "TransomQueueStuck")
        await cluster.proxy(**SPEC)
        await cluster.put_key()
        async with world.webhook():
            # as its runbook says
            await cluster.delete(SECRETS, "transom-webhook")
            await world.ends("TransomWebhookCertificateExpires", "TransomSettingsInvalid", "TransomHostsNotConfigured")
            await world.settled()

            for host in world.hosts:
                host.fetch = breaks_tls
            await cluster.proxy(**SPEC, **FETCHING, noProxy="a.example")
            await world.fires("TransomRolloutHalted")
            for host in world.hosts:
                host.fetch = works
            await cluster.proxy(**SPEC, **FETCHING, noProxy="b.example")
            await world.ends("TransomRolloutHalted")
            await world.settled()
            await shown(world)
            await looked(world)

            # the record of a rollout cannot be created
            await world.quiet("TransomRequestsRefused")
            await cluster.delete(CONFIG_MAPS, "transom-rollouts")
            await cluster.forbid_config_maps()
            await cluster.proxy(**SPEC, noProxy="refused.example")
            await world.fires("TransomRequestsRefused")
            await cluster.delete(QUOTAS, "none")
            await world.ends("TransomRequestsRefused")
            await world.settled()

            # one host holds the worker, and the other one waits for it
            await hanging(world, 3600.0)
            await world.fires("TransomQueueStuck")
            await hanging(world, 0.0)
            await world.ends("TransomQueueStuck")
            await world.settled()

            await world.quiet("TransomApiErrors", "TransomNoLeader", "TransomPassesStale")
            gate.answer = lambda _: web.Response(status=503)
            await world.fires("TransomApiErrors", "TransomNoLeader", "TransomPassesStale")
            gate.answer = lambda _: None
            await world.ends("TransomApiErrors", "TransomNoLeader", "TransomPassesStale")
        async with world.webhook(policy="Fail"):
            await until(lambda: is_refusing(cluster))
            await cluster.wait_ready("egressproxy/cluster", "--for=condition=PodsInjected")
        # nothing answers, and pods are refused
        await world.fires("TransomPodsRefused")
        # as its runbook says
        await cluster.delete(REGISTRATIONS, "transom")
        await world.ends("TransomPodsRefused")
    assert world.seen == BY_NAME.keys()


async def hanging(world: World, seconds: float) -> None:
    """Files on hosts take so long; other settings are on their way there, so that somebody waits for one."""
    for host in world.hosts:
        host.faults.disk_delay = seconds
    await world.cluster.proxy(**SPEC, noProxy=f"hanging-{seconds:.0f}.example")


async def shown(world: World) -> None:
    """Each indicator is a share, and each query of the dashboard has data, of what this Prometheus has seen."""
    wanted = {objective.build_query("10m"): (0.0, 1.0) for objective in OBJECTIVES}
    wanted |= dict.fromkeys((query.replace(RATE, "10m").replace(RANGE, "10m") for query in queries()), (-math.inf, math.inf))
    assert len(wanted) > 30
    for expression, (least, most) in wanted.items():

        async def there(expression: str = expression, least: float = least, most: float = most) -> bool:
            found = await asyncio.to_thread(world.prometheus.query_values, expression)
            # NaN is neither
            return bool(found) and all(least <= value <= most for value in found)

        try:
            await until(there)
        except AssertionError:
            raise AssertionError(f"{expression}: {world.prometheus.query_values(expression)}") from None


async def looked(world: World) -> None:
    """What the runbooks have a person look at runs, but for logs, cert-manager's kind and a server of metrics."""
    lines = dict.fromkeys(line for alert in ALERTS for line in alert.look)
    asked = [line for line in lines if not re.search(r"^kubectl (logs|top|get certificate) ", line)]
    assert len(asked) > 8
    namespace = world.cluster.namespace
    text = "\n".join(asked).replace("transom-system", namespace)
    said = await on_cluster(world.directory, world.cluster.control_plane, text, TRANSOM_NAMESPACE=namespace)
    assert "Corp Root 1" in said
