"""Traces of OpenTelemetry: a span for each key that is worked on, and in it one for each pass on a host.

Where they go, how many and with which headers, say the environment's own variables (OTEL_*; opentelemetry.io,
"Environment Variable Specification"). No message of an error is in a span: it may quote a host.
"""

import os
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor
from opentelemetry.trace import Span, Status, StatusCode

from transom.hosts.passes.base_pass import PassResult
from transom.kube.store import ObjectKey

_ERROR: Final = "error.type"
"""As the semantic conventions have it ("Error attributes")."""


class Traces:
    """Sends spans by OTLP over HTTP, in batches from a thread of its own; what cannot be sent is dropped."""

    def __init__(self) -> None:
        named = "OTEL_SERVICE_NAME" in os.environ or "service.name=" in os.environ.get("OTEL_RESOURCE_ATTRIBUTES", "")
        self._provider = TracerProvider(
            resource=Resource.create({} if named else {"service.name": "transom"}), shutdown_on_exit=False
        )
        self._provider.add_span_processor(BatchSpanProcessor(OTLPSpanExporter()))
        self._tracer = self._provider.get_tracer("transom")

    @contextmanager
    def trace_reconciliation(self, controller: str, key: ObjectKey) -> Iterator[None]:
        """Record the span of a key that a controller works on."""
        attributes = {"transom.controller": controller, "transom.namespace": key.namespace or "", "transom.name": key.name}
        with self._tracer.start_as_current_span(
            f"reconcile {controller}", attributes=attributes, record_exception=False, set_status_on_exception=False
        ) as span:
            try:
                yield
            except BaseException as error:
                _mark_failed(span, error)
                raise

    def observe(self, result: PassResult) -> None:
        """Record the span of a pass that just ended."""
        now = time.time_ns()
        attributes: dict[str, str | int] = {
            "transom.pass.result": result.result,
            "transom.pass.channels": result.channels,
            "transom.pass.steps": len(result.plan.steps) if result.plan else 0,
            "transom.pass.restarted": len(result.restarted),
        }
        span = self._tracer.start_span("pass", attributes=attributes, start_time=now - int(result.seconds * 1e9))
        if result.error is not None:
            _mark_failed(span, result.error)
        span.end(now)

    def close(self) -> None:
        """Send what is left."""
        self._provider.shutdown()


def _mark_failed(span: Span, error: BaseException) -> None:
    span.set_attribute(_ERROR, type(error).__name__)
    span.set_status(Status(StatusCode.ERROR))
