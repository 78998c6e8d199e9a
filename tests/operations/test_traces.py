"""Traces, as a collector gets them by OTLP: what was worked on, the passes in it, and no word of a host."""

import asyncio
import contextlib
import sys
from collections.abc import AsyncIterator
from typing import Any

import pytest
from aiohttp import web
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from opentelemetry.trace import StatusCode
from tests.support.operator.clusters import PROXY, QUICK, Cluster, at_work
from tests.support.waiting import until

from transom.cli.commands.run import _create_traces
from transom.controllers.operator import Operator, Options
from transom.kube.store import ObjectKey
from transom.operations.traces import Traces

ENDPOINT = "OTEL_EXPORTER_OTLP_ENDPOINT"


class Collector:
    """The spans that came: name, attributes, and the name of the span around it."""

    def __init__(self) -> None:
        self.url = ""
        self.service = ""
        self.text = b""
        self._spans: dict[bytes, Any] = {}

    async def take(self, request: web.Request) -> web.Response:
        body = await request.read()
        self.text += body
        for resource_span in ExportTraceServiceRequest.FromString(body).resource_spans:
            self.service = {each.key: each.value.string_value for each in resource_span.resource.attributes}["service.name"]
            self._spans |= {span.span_id: span for scope in resource_span.scope_spans for span in scope.spans}
        return web.Response(content_type="application/x-protobuf")

    def found(self) -> list[tuple[str, dict[str, Any], str]]:
        return [
            (
                span.name,
                {each.key: each.value.string_value or each.value.int_value for each in span.attributes},
                self._spans[span.parent_span_id].name if span.parent_span_id in self._spans else "",
            )
            for span in self._spans.values()
        ]

    @contextlib.asynccontextmanager
    async def serving(self) -> AsyncIterator[None]:
        app = web.Application()
        app.router.add_post("/v1/traces", self.take)
        runner = web.AppRunner(app, access_log=None)
        await runner.setup()
        await web.TCPSite(runner, "127.0.0.1", 0).start()
        self.url = f"http://127.0.0.1:{runner.addresses[0][1]}"
        try:
            yield
        finally:
            await runner.cleanup()


@pytest.mark.lab
async def test_a_collector_gets_each_key_with_its_passes(cluster: Cluster, monkeypatch: pytest.MonkeyPatch) -> None:
    collector = Collector()
    host, gone = await cluster.simulator.add_host(), await cluster.simulator.add_host()
    gone.faults.refuses = True
    await cluster.proxy(httpProxy=PROXY, httpsProxy=PROXY)
    await cluster.instance("win-1", host)
    await cluster.instance("win-2", gone)
    async with collector.serving():
        monkeypatch.setenv(ENDPOINT, collector.url)
        monkeypatch.setenv("NO_PROXY", "127.0.0.1")
        traces = Traces()
        options = Options(cluster.namespace, 4, controllers=("egress", "hosts"), reflector=QUICK)
        async with at_work(Operator(cluster.client, options, traces.observe, trace=traces.trace_reconciliation)):
            await cluster.until("win-1", Ready="True/Ready")
            await cluster.until("win-2", Reachable="False/Unreachable")
        await asyncio.to_thread(traces.close)
        await until(collector.found)
    found = collector.found()
    work = {"transom.controller": "hosts", "transom.namespace": cluster.namespace}
    for name in ("win-1", "win-2"):
        assert ("reconcile hosts", {**work, "transom.name": name}, "") in found
    passes = [(each["transom.pass.result"], each.get("error.type"), around) for name, each, around in found if name == "pass"]
    assert ("changed", None, "reconcile hosts") in passes
    assert ("failed", "Unreachable", "reconcile hosts") in passes
    assert collector.service == "transom"
    assert b"proxy.corp.example" not in collector.text


def test_an_error_is_told_by_its_kind_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    spans: list[Any] = []
    traces = Traces()
    monkeypatch.setattr(traces._provider._active_span_processor, "on_end", spans.append)
    with pytest.raises(ValueError, match="hunter2"), traces.trace_reconciliation("hosts", ObjectKey("transom-system", "win-1")):
        raise ValueError("hunter2")
    (span,) = spans
    assert "hunter2" not in span.to_json()
    assert span.attributes["error.type"] == "ValueError"
    assert span.status.status_code is StatusCode.ERROR
    traces.close()


def test_only_by_choice(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.delenv(ENDPOINT, raising=False)
    assert _create_traces() is None
    monkeypatch.setenv(ENDPOINT, "http://127.0.0.1:1")
    monkeypatch.delitem(sys.modules, "transom.operations.traces", raising=False)
    monkeypatch.setitem(sys.modules, "opentelemetry.sdk.trace", None)
    with pytest.raises(SystemExit):
        _create_traces()
    assert "install transom[traces]" in capsys.readouterr().err
