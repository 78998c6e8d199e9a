"""Strangers and tenants at the admission server of a real API server: what others get meanwhile, and what stays behind."""

import asyncio
import gc
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import aiohttp
import pytest
from tests.support.event_loop import measure_cost, read_memory
from tests.support.waiting import until
from tests.webhook.caller import reviewed
from tests.webhook.clusters import PROBED, Admission, plain_pod
from tests.webhook.hostile_reviews import REVIEWS

from transom.pods.environment import CONFIG_MAP
from transom.webhook.webhook import Webhook

pytestmark = pytest.mark.lab


@asynccontextmanager
async def with_credentials(admission: Admission) -> AsyncIterator[tuple[Webhook, str]]:
    """A replica whose pods need the Secret in every namespace, and its URL."""
    await admission.settings("credentials")
    async with admission.replica() as webhook:
        await until(lambda: webhook.ready and webhook.egress is not None and webhook.egress.in_secret)
        yield webhook, f"https://127.0.0.1:{webhook.port}/pods"


@asynccontextmanager
async def anonymous() -> AsyncIterator[aiohttp.ClientSession]:
    async with aiohttp.ClientSession(connector=aiohttp.TCPConnector(ssl=False), trust_env=False) as session:
        yield session


async def test_reviews_of_strangers_leave_nothing_behind(admission: Admission) -> None:
    async with with_credentials(admission) as (webhook, url), anonymous() as session:

        async def post(body: bytes) -> int:
            async with session.post(url, data=body) as response:
                await response.read()
                return response.status

        names = [name for name in REVIEWS if "namespace" in name or "long" in name]
        for name in names:
            await post(REVIEWS[name]("0"))
        gc.collect()
        before = read_memory("VmRSS")
        with measure_cost() as cost:
            for number in range(40):
                for name in names:
                    assert await post(REVIEWS[name](str(number))) in (200, 400)
        gc.collect()
        assert read_memory("VmRSS") - before < 24 << 20
        assert cost.longest < 1.0, cost.callback
        assert webhook._recorder._known == {}


async def test_no_event_for_a_namespace_that_the_cluster_does_not_have(admission: Admission) -> None:
    """The API server hears of none, whatever its path would be, and of one that it has it does."""
    async with with_credentials(admission) as (webhook, url), anonymous() as session:
        path = "default/../../../apis/apps/v1/namespaces/default/deployments?x="
        for namespace, wanted in (("nowhere", 200), (path, 400), ("kube-public/secrets?x=", 400), ("..", 400)):
            async with session.post(url, data=json.dumps(reviewed(namespace=namespace)).encode()) as response:
                assert response.status == wanted
                text = await response.text()
            assert wanted == 400 or "Secret transom-egress is not in namespace nowhere yet" in text
        code, _, _ = await admission.post(plain_pod("waits"), PROBED)
        assert code == 201

        async def listed() -> list[dict[str, Any]]:
            text = await asyncio.to_thread(admission.control_plane.run_kubectl, "get", "events", "-A", "-o", "json")
            return [item for item in json.loads(text)["items"] if item["reason"] == "SecretMissing"]

        async def told() -> bool:
            return any(item["metadata"]["namespace"] == PROBED for item in await listed())

        await until(told)
        assert {key[0].namespace for key in webhook._recorder._known} == {PROBED}


@pytest.mark.parametrize("kind", ["variables", "containers", "empty containers"])
async def test_a_large_pod_of_a_tenant_costs_others_nothing(admission: Admission, kind: str) -> None:
    """It is the tenant who hears why his pod has no settings."""
    large = plain_pod("large", annotations={"transom.dev/inject-proxy": "override"})
    container = large["spec"]["containers"][0]
    if kind == "variables":
        container["env"] = [{"name": "HTTP_PROXY"}] * 65_000 + [{"name": "ALL_PROXY"}] * 65_000
    elif kind == "containers":
        large["spec"]["containers"] = [{**container, "name": f"c{number}"} for number in range(8_000)]
    else:
        large["spec"]["containers"] = [{}] * 250_000
    await admission.settings("plain")
    async with admission.replica() as webhook:
        await until(lambda: webhook.ready and webhook.egress is not None and bool(webhook.egress.pairs))
        egress = webhook.egress
        assert egress is not None
        await until(lambda: admission.probe(egress))
        with measure_cost() as cost:
            attack = asyncio.create_task(admission.post(large, "team-c", dry_run=True))
            codes = []
            while not attack.done():
                code, answered, _ = await admission.post(plain_pod("victim"), PROBED, dry_run=True)
                codes.append((code, bool(answered["spec"]["containers"][0].get("env"))))
            _, _, warnings = await attack
        assert set(codes) <= {(201, True)}
        assert cost.longest < 1.0, cost.callback
        if kind != "empty containers":
            # the API server refuses those by itself, and says so with the warning or without
            assert any("no settings for this pod" in warning for warning in warnings)
        code, answered, _ = await admission.post(plain_pod("after"), PROBED, dry_run=True)
        assert answered["spec"]["containers"][0]["env"]
        assert CONFIG_MAP not in json.dumps(answered)
