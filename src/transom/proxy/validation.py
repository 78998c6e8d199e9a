"""Everything that is wrong with one object of the settings, at once."""

import re
from collections.abc import Iterator
from datetime import datetime
from typing import Final

import msgspec

from transom.proxy import labels, networks, no_proxy, proxy_url
from transom.proxy.finding import Finding, Path, Place
from transom.proxy.layers import BASE, Layer
from transom.proxy.objects import EgressProxy, EgressProxySpec, Proxy, SecretObject, SettingsObjects
from transom.proxy.secret import REDACTED, Secret
from transom.proxy.trust import concerns, parse_bundle
from transom.proxy.url import InvalidURL, parse
from transom.shown import NAME

BUNDLE_KEY: Final = "ca-bundle.crt"
APP_KINDS: Final = ("App", "HelmRelease")
"""What `spec.apps` may name: Giant Swarm's App, Flux's HelmRelease."""
_SERVICE_NAME: Final = re.compile(r"[A-Za-z0-9_.-]{1,256}")
_LONGEST_URL: Final = 8_192
_LONGEST_CREDENTIAL: Final = 2_048
"""Characters; Windows holds 32,767 in a variable, and an escape takes up to 12 for one."""
_BASE_ALONE: Final = {
    "windows": "windows",
    "linux": "linux",
    "pods": "pods",
    "values": "values",
    "readiness_endpoints": "readinessEndpoints",
    "readiness_policy": "readinessPolicy",
}


def examine(layer: Layer, objects: SettingsObjects, now: datetime, *, misnamed: bool = False) -> Iterator[Finding]:
    """The findings of one EgressProxy or Proxy, and of the Secret and the ConfigMap that it names.

    `misnamed`: it is meant as the base, though its name is another, and may have what a base has.

    OpenShift's Proxy is validated by its own operator: while its spec is invalid, its status holds. The bundle has no status.
    """
    place, spec = layer.source.place, layer.source.spec
    found = _spec(layer, place)
    if isinstance(layer.source, Proxy) and layer.source.status is not None:
        found = (_superseded(finding) for finding in found)
    yield from found
    if layer.credentials:
        yield from _credentials(layer.credentials, place, objects)
    if layer.trusted_ca:
        yield from _trust(layer.trusted_ca, place, objects, now)
    is_base = misnamed or layer.source.metadata.name == BASE
    if is_base and spec.readiness_endpoints:
        yield from _endpoints(spec.readiness_endpoints, bool(spec.http_proxy), bool(spec.https_proxy), layer)
    if isinstance(layer.source, EgressProxy):
        yield from _own_fields(layer.source, layer.source.spec, is_base)


def _superseded(finding: Finding) -> Finding:
    message = f"{finding.message}; what the network operator wrote into status holds"
    return msgspec.structs.replace(finding, severity="warning", message=message)


def _spec(layer: Layer, place: Place) -> Iterator[Finding]:
    spec = layer.source.spec
    yield from _urls(layer, place)
    if spec.no_proxy is not None:
        yield from no_proxy.examine(spec.no_proxy, place, ("spec", "noProxy"))
    is_base = layer.source.metadata.name == BASE
    if is_base and spec.no_proxy and not spec.http_proxy and not spec.https_proxy:
        yield place.error(("spec", "noProxy"), "stands without a proxy: set spec.httpProxy or spec.httpsProxy, or take it out")


def _urls(layer: Layer, place: Place) -> Iterator[Finding]:
    spec = layer.source.spec
    for field, value, schemes in (
        ("httpProxy", spec.http_proxy, ("http",)),
        ("httpsProxy", spec.https_proxy, ("http", "https")),
    ):
        if not value:
            continue
        if len(value.reveal()) > _LONGEST_URL:
            yield place.error(("spec", field), f"has more than {_LONGEST_URL:,} characters", REDACTED)
            continue
        for fault in proxy_url.examine(value.reveal(), schemes):
            yield place.error(("spec", field), fault, REDACTED)
        if layer.credentials and proxy_url.has_userinfo(value.reveal()):
            message = "has a user name in it, and spec.credentialsSecret is set too: keep one of them, better the Secret"
            yield place.error(("spec", field), message, REDACTED)
    if layer.credentials and not spec.http_proxy and not spec.https_proxy:
        yield place.error(("spec", "credentialsSecret"), "stands without a proxy: set spec.httpProxy or spec.httpsProxy too")


def _credentials(reference: tuple[str, str], place: Place, objects: SettingsObjects) -> Iterator[Finding]:
    path: Path = ("spec", "credentialsSecret", "name")
    if not reference[1]:
        yield place.error(path, "the Secret's name is missing")
        return
    secret = objects.secret(*reference)
    if secret is None:
        yield place.error(path, f"there is no Secret {_named(reference)}; it holds `username` and `password`")
        return
    for key in ("username", "password"):
        yield from _credential(secret, key, place)


def _credential(secret: SecretObject, key: str, place: Place) -> Iterator[Finding]:
    path: Path = ("data", key)
    if key in secret.faulty:
        return
    if key not in secret.data:
        yield secret.place.error(path, f"the key is missing; {place.object} needs it")
        return
    given = secret.data[key]
    if given is None:
        yield secret.place.error(path, f"is not text in UTF-8; {place.object} needs it")
    elif key == "username" and not given:
        yield secret.place.error(path, f"is empty; {place.object} needs it")
    elif len(given.reveal()) > _LONGEST_CREDENTIAL:
        yield secret.place.error(path, f"has more than {_LONGEST_CREDENTIAL:,} characters")
    elif given.reveal().endswith("\n"):
        yield secret.place.warning(
            path, "ends with a line break, which becomes a part of it: was it made with `echo` without -n?"
        )


def _trust(reference: tuple[str, str], place: Place, objects: SettingsObjects, now: datetime) -> Iterator[Finding]:
    path: Path = ("spec", "trustedCA", "name")
    config_map = objects.config_map(*reference)
    if config_map is None:
        yield place.error(path, f"there is no ConfigMap {_named(reference)}; it holds the certificates as `{BUNDLE_KEY}`")
        return
    if BUNDLE_KEY not in config_map.data:
        yield place.error(path, f"ConfigMap {_named(reference)} has no key `{BUNDLE_KEY}`")
        return
    bundle = parse_bundle(config_map.data[BUNDLE_KEY])
    key: Path = ("data", BUNDLE_KEY)
    for problem in bundle.problems:
        report = config_map.place.error if problem.severity == "error" else config_map.place.warning
        yield report(key, str(problem))
    if not bundle.certificates and not any(problem.severity == "error" for problem in bundle.problems):
        yield place.error(path, f"ConfigMap {_named(reference)} holds no certificate in `{BUNDLE_KEY}`")
    for certificate, text in concerns(bundle.certificates, now):
        yield config_map.place.warning(key, f"certificate {bundle.certificates.index(certificate) + 1} {text}")


def _endpoints(endpoints: tuple[Secret, ...], http: bool, https: bool, layer: Layer) -> Iterator[Finding]:
    place, theirs = layer.source.place, isinstance(layer.source, Proxy)
    report = place.warning if theirs else place.error
    for index, endpoint in enumerate(endpoints):
        path: Path = ("spec", "readinessEndpoints", index)
        if (fault := endpoint_fault(endpoint.reveal())) is not None:
            yield report(path, f"{fault}; it is not tried" if theirs else fault)
            continue
        scheme = parse(endpoint.reveal()).scheme
        if scheme == "http" and not http:
            yield report(path, "is an http URL, and spec.httpProxy is not set")
        elif scheme == "https" and not https:
            through = "; it is tried through spec.httpProxy, as the network operator does" if theirs and http else ""
            yield report(path, f"is an https URL, and spec.httpsProxy is not set{through}")


def endpoint_fault(text: str) -> str | None:
    """Why a readiness endpoint cannot be tried; None where it can."""
    try:
        url = parse(text)
    except InvalidURL as error:
        return f"is not a URL: {error}"
    if url.scheme not in ("http", "https") or not url.host:
        return "must be an absolute URL: http:// or https://, and a host"
    if url.username is not None:
        return "must not hold a user name or password: it is shown in conditions"
    return None


def _own_fields(item: EgressProxy, spec: EgressProxySpec, is_base: bool) -> Iterator[Finding]:
    place = item.place
    if not is_base:
        for name, field in _BASE_ALONE.items():
            if getattr(spec, name) is not None:
                yield place.error(("spec", field), f"belongs to EgressProxy/{BASE} alone: take it out of this layer")
    if spec.networks is not None:
        if not is_base:
            yield from networks.examine_layer(spec.networks, place, BASE)
        yield from networks.examine(spec.networks, place)
    for system, settings in (("windows", spec.windows), ("linux", spec.linux)):
        for index, name in enumerate(settings.services if settings is not None else ()):
            if not _SERVICE_NAME.fullmatch(name):
                yield place.error(
                    ("spec", system, "services", index), "must be a service's name: letters, digits, `_`, `-`, `.`"
                )
    if spec.credentials_secret and spec.credentials_secret.name and not NAME.match(spec.credentials_secret.name):
        yield place.error(("spec", "credentialsSecret", "name"), "must be the name of a Secret")
    for index, app in enumerate(spec.apps):
        for field, value in (("kind", app.kind), ("namespace", app.namespace), ("name", app.name)):
            if not value:
                yield place.error(("spec", "apps", index, field), "is missing")
        if app.kind and app.kind not in APP_KINDS:
            message = f"must be {' or '.join(APP_KINDS)}: how another object reads values is not known"
            yield place.warning(("spec", "apps", index, "kind"), message)
    if spec.cluster_selector is not None:
        yield from labels.examine(spec.cluster_selector, place, ("spec", "clusterSelector"))
    yield from _mode(spec, place, is_base=is_base)
    if not is_base:
        yield from _effect(spec, place)
    propagated = spec.propagated.pods if spec.propagated is not None else None
    if propagated is not None and propagated.namespace_selector is not None:
        path = ("spec", "propagated", "pods", "namespaceSelector")
        yield from labels.examine(propagated.namespace_selector, place, path)
    if spec.pods is not None and spec.pods.namespace_selector is not None:
        yield from labels.examine(spec.pods.namespace_selector, place, ("spec", "pods", "namespaceSelector"))


def _mode(spec: EgressProxySpec, place: Place, *, is_base: bool) -> Iterator[Finding]:
    if spec.mode is None:
        return
    if is_base:
        message = "is for layers: to take the proxy away everywhere, take spec.httpProxy and spec.httpsProxy out of the base"
        yield place.error(("spec", "mode"), message)
    elif spec.http_proxy or spec.https_proxy or spec.credentials_secret:
        yield place.error(("spec", "mode"), "Direct is no proxy, and this layer sets one: keep one of them")


def _effect(spec: EgressProxySpec, place: Place) -> Iterator[Finding]:
    """What a layer says without saying anything."""
    if spec.mode is None:
        for field, value in (("httpProxy", spec.http_proxy), ("httpsProxy", spec.https_proxy)):
            if value is not None and not value:
                message = "is empty, which is as good as not there: `mode: Direct` takes the proxy of layers below away"
                yield place.warning(("spec", field), message)
    texts = (spec.http_proxy, spec.https_proxy, spec.no_proxy, spec.credentials_secret, spec.trusted_ca, spec.apps)
    others = (spec.consumers, spec.rollout, spec.propagate, spec.mode, spec.propagated and spec.propagated.pods)
    networks_too = spec.networks is not None and bool(spec.networks.machine_network)
    if not any(texts) and all(one is None for one in others) and not networks_too:
        yield place.warning(("spec",), "says nothing: this layer has no effect")


def _named(reference: tuple[str, str]) -> str:
    namespace, name = reference
    return f"{namespace}/{name if NAME.match(name) else '(invalid name)'}"
