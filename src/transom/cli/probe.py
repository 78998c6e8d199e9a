"""`transom validate --probe`: the readiness endpoints as findings."""

import asyncio
from collections.abc import Iterator

from transom.proxy import layers
from transom.proxy.finding import Finding
from transom.proxy.settings import Effective
from transom.proxy.url import parse
from transom.readiness import probe
from transom.sources.objects import Objects


def probe_endpoints(objects: Objects, settings: Effective) -> Iterator[Finding]:
    """Try the endpoints of the cluster that the manifests describe; a failure is an error, with policy Report a warning."""
    base = layers.base(objects)
    if base is None or settings.own is None:
        return
    report = base.source.place.error if settings.own.readiness_policy == "Gate" else base.source.place.warning
    for index, answer in enumerate(asyncio.run(probe(settings.own))):
        if answer.failure:
            message = f"{parse(answer.endpoint).redacted} through the proxy, 3 tries: {answer.failure}"
            yield report(("spec", "readinessEndpoints", index), message)
