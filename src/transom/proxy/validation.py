"""Everything that is wrong with one object of the settings, at once."""

import re
from collections.abc import Iterator
from datetime import datetime
from typing import Final

import msgspec

from transom.common.escaping import escape_key, explain_invalid_name
from transom.proxy import labels, networks, no_proxy_findings, proxy_url
from transom.proxy.finding import Finding, Path, Place
from transom.proxy.layers import BASE, Layer
from transom.proxy.no_proxy import ALL, BLANKS
from transom.proxy.objects import EgressProxy, EgressProxySpec, Proxy, SecretObject, SettingsObjects
from transom.proxy.placeholders import find_placeholder
from transom.proxy.secret import REDACTED, Secret
from transom.proxy.trust import PRIVATE_KEY, explain_missing_certificates, iter_certificate_warnings, parse_bundle
from transom.proxy.url import InvalidURL, parse

BUNDLE_KEY: Final = "ca-bundle.crt"
APP_KINDS: Final = ("App", "HelmRelease")
"""What `spec.apps` may name: Giant Swarm's App, Flux's HelmRelease."""
_IS_LAYER: Final = f"every other EgressProxy is for workload clusters. Remove it here, or rename this object to `{BASE}`"
_SERVICE_NAME: Final = re.compile(r"[A-Za-z0-9_.-]{1,256}")
_COMPROMISED_KEY: Final = (
    f"{PRIVATE_KEY}, and so compromised, since everyone who may read this object has it: remove it from the bundle, and "
    "replace the key pair"
)
_ESCAPE: Final = re.compile(r"[0-9A-Fa-f]{2}")
"""The digits of a percent-encoded byte."""
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


def examine_layer(layer: Layer, objects: SettingsObjects, now: datetime, *, misnamed: bool = False) -> Iterator[Finding]:
    """Yield the findings of one EgressProxy or Proxy, and of the Secret and the ConfigMap that it names.

    `misnamed`: the object is meant as the base despite its name, and may set the base's fields.

    OpenShift's Proxy is validated by its own operator: while its spec is invalid, its status applies. The bundle has no
    status.
    """
    place, spec = layer.source.place, layer.source.spec
    findings = _check_spec(layer, place)
    if isinstance(layer.source, Proxy) and layer.source.status is not None:
        findings = (_as_superseded(finding) if finding.severity == "error" else finding for finding in findings)
    yield from findings
    if layer.credentials:
        yield from _check_credentials(layer.credentials, place, objects)
    if layer.trusted_ca:
        yield from _check_trusted_ca(layer.trusted_ca, place, objects, now)
    is_base = misnamed or layer.source.metadata.name == BASE
    if is_base and spec.readiness_endpoints:
        yield from _check_endpoints(spec.readiness_endpoints, bool(spec.http_proxy), bool(spec.https_proxy), layer)
    if isinstance(layer.source, EgressProxy):
        yield from _check_own_fields(layer.source, layer.source.spec, is_base)


def _as_superseded(finding: Finding) -> Finding:
    message = f"{finding.message}; the value that the network operator wrote into status applies"
    return msgspec.structs.replace(finding, severity="warning", message=message)


def _check_spec(layer: Layer, place: Place) -> Iterator[Finding]:
    spec = layer.source.spec
    yield from _check_urls(layer, place)
    if spec.no_proxy is not None:
        yield from no_proxy_findings.examine_no_proxy(spec.no_proxy, place, ("spec", "noProxy"))
    is_base = layer.source.metadata.name == BASE
    if is_base and spec.no_proxy and not spec.http_proxy and not spec.https_proxy:
        yield place.build_error(
            ("spec", "noProxy"), "stands without a proxy: set spec.httpProxy or spec.httpsProxy, or take it out"
        )
    elif spec.no_proxy and spec.no_proxy.strip(BLANKS) == ALL:
        message = "`*` is every host: nothing uses the proxy; list the hosts that need no proxy"
        yield place.build_warning(("spec", "noProxy"), message, spec.no_proxy)


def _check_urls(layer: Layer, place: Place) -> Iterator[Finding]:
    spec = layer.source.spec
    inline: list[str] = []
    for field, value, schemes in (
        ("httpProxy", spec.http_proxy, ("http",)),
        ("httpsProxy", spec.https_proxy, ("http", "https")),
    ):
        if not value:
            continue
        if len(value.reveal()) > _LONGEST_URL:
            yield place.build_error(("spec", field), f"has more than {_LONGEST_URL:,} characters", REDACTED)
            continue
        faults = proxy_url.list_url_faults(value.reveal(), schemes)
        for fault in faults:
            yield place.build_error(("spec", field), fault, REDACTED)
        if not faults and (ignored := proxy_url.find_ignored_part(value.reveal())):
            yield place.build_warning(("spec", field), ignored, REDACTED)
        if layer.credentials and proxy_url.has_userinfo(value.reveal()):
            message = "has a user name in it, and spec.credentialsSecret is set too: keep one of them, better the Secret"
            yield place.build_error(("spec", field), message, REDACTED)
        elif not faults and proxy_url.has_credentials(value.reveal()):
            inline.append(field)
    if inline:
        also = f" (and so has spec.{inline[1]})" if inline[1:] else ""
        message = format_inline_credentials(also, openshift=isinstance(layer.source, Proxy))
        yield place.build_warning(("spec", inline[0]), message, REDACTED)
    if layer.credentials and not spec.http_proxy and not spec.https_proxy:
        yield place.build_error(
            ("spec", "credentialsSecret"), "stands without a proxy: set spec.httpProxy or spec.httpsProxy too"
        )


def format_inline_credentials(also: str, *, openshift: bool) -> str:
    """Return why a URL should hold no user name and password, and what to do; `also` names another one."""
    if openshift:
        return (
            f"has a user name or password in it{also}, which everyone sees who may read this object. OpenShift keeps them "
            "nowhere else: see that few may, `oc adm policy who-can get proxies.config.openshift.io`"
        )
    return (
        f"has a user name or password in it{also}, which everyone sees who may read this object or its file: put them into a "
        "Secret, and name that in spec.credentialsSecret"
    )


def _check_credentials(reference: tuple[str, str], place: Place, objects: SettingsObjects) -> Iterator[Finding]:
    path: Path = ("spec", "credentialsSecret", "name")
    if not reference[1]:
        yield place.build_error(path, "the Secret's name is missing")
        return
    if fault := explain_invalid_name("Secret", reference[1]):
        yield place.build_error(path, fault)
        return
    secret = objects.find_secret(*reference)
    if secret is None:
        maker = objects.describe_maker("Secret", *reference)
        yield place.build_error(path, f"no Secret {'/'.join(reference)} exists; it holds `username` and `password`{maker}")
        return
    if secret.encrypted:
        # said of the Secret itself
        return
    for key in ("username", "password"):
        yield from _check_credential(secret, key, place)


def _check_credential(secret: SecretObject, key: str, place: Place) -> Iterator[Finding]:
    path: Path = ("data", key)
    if key in secret.faulty:
        return
    if key in secret.unresolved:
        yield secret.place.build_error(path, secret.unresolved[key])
        return
    if key not in secret.data:
        yield secret.place.build_error(path, f"the key is missing; {place.object} needs it")
        return
    credential = secret.data[key]
    if credential is None:
        yield secret.place.build_error(path, f"is not text in UTF-8; {place.object} needs it")
    elif key == "username" and not credential:
        yield secret.place.build_error(path, f"is empty; {place.object} needs it")
    elif len(credential.reveal()) > _LONGEST_CREDENTIAL:
        yield secret.place.build_error(path, f"has more than {_LONGEST_CREDENTIAL:,} characters")
    else:
        for concern in _iter_credential_concerns(key, credential.reveal()):
            yield secret.place.build_warning(path, concern)


def _iter_credential_concerns(key: str, text: str) -> Iterator[str]:
    if not text:
        yield "is empty: the proxy gets a user name without a password"
    if text.endswith(("\n", "\r")):
        yield "ends with a line break, which becomes a part of it: was it made with `echo` without -n?"
    if key == "username" and ":" in text:
        yield "has a colon, at which the proxy splits user name and password (RFC 7617): is the password a part of it?"
    if "%" in text and all(_ESCAPE.match(part) for part in text.split("%")[1:]):
        yield "looks percent-encoded, for example `%40` for `@`: write the text itself, since Transom encodes it"


def _check_trusted_ca(reference: tuple[str, str], place: Place, objects: SettingsObjects, now: datetime) -> Iterator[Finding]:
    path: Path = ("spec", "trustedCA", "name")
    if fault := explain_invalid_name("ConfigMap", reference[1]):
        yield place.build_error(path, fault)
        return
    config_map = objects.find_config_map(*reference)
    if config_map is None:
        maker = objects.describe_maker("ConfigMap", *reference)
        yield place.build_error(
            path, f"no ConfigMap {'/'.join(reference)} exists; it holds the certificates as `{BUNDLE_KEY}`{maker}"
        )
        return
    if config_map.encrypted:
        return
    if BUNDLE_KEY in config_map.binary:
        message = (
            "is in binaryData, where kubectl puts a file that is not UTF-8: `transom trust inspect FILE` says what the file is "
            f"and how to make PEM of it. Put the text under data[{BUNDLE_KEY}]"
        )
        yield config_map.place.build_error(("binaryData", BUNDLE_KEY), message)
        return
    if BUNDLE_KEY not in config_map.data:
        other = next((name for name, text in config_map.data.items() if "-----BEGIN CERTIFICATE" in text), None)
        hint = f": it exists as `{escape_key(other)}`, rename it" if other is not None else ""
        yield place.build_error(path, f"ConfigMap {'/'.join(reference)} has no key `{BUNDLE_KEY}`{hint}")
        return
    key: Path = ("data", BUNDLE_KEY)
    if (placeholder := find_placeholder(config_map.data[BUNDLE_KEY], secret=True)) is not None:
        yield config_map.place.build_error(key, placeholder)
        return
    bundle = parse_bundle(config_map.data[BUNDLE_KEY])
    for problem in bundle.problems:
        if problem.message == PRIVATE_KEY:
            problem = msgspec.structs.replace(problem, message=_COMPROMISED_KEY)  # noqa: PLW2901
        report = config_map.place.build_error if problem.severity == "error" else config_map.place.build_warning
        line, column = config_map.place.locate((*key, problem.line))
        if line and (line, column) != config_map.place.locate(key):
            # as `transom trust inspect` counts, and an editor
            yield report(key, str(msgspec.structs.replace(problem, line=line)), at=(*key, problem.line))
        else:
            yield report(key, str(problem))
    if not bundle.certificates and not any(problem.severity == "error" for problem in bundle.problems):
        cause = explain_missing_certificates(config_map.data[BUNDLE_KEY])
        hint = f": the value {cause}" if cause else ""
        yield place.build_error(path, f"ConfigMap {'/'.join(reference)} holds no certificate in `{BUNDLE_KEY}`{hint}")
    for certificate, text in iter_certificate_warnings(bundle.certificates, now):
        yield config_map.place.build_warning(key, f"certificate {bundle.certificates.index(certificate) + 1} {text}")


def _check_endpoints(endpoints: tuple[Secret, ...], http: bool, https: bool, layer: Layer) -> Iterator[Finding]:
    place, theirs = layer.source.place, isinstance(layer.source, Proxy)
    report = place.build_warning if theirs else place.build_error
    for index, endpoint in enumerate(endpoints):
        path: Path = ("spec", "readinessEndpoints", index)
        if (fault := find_endpoint_fault(endpoint.reveal())) is not None:
            yield report(path, f"{fault}; it is not tried" if theirs else fault)
            continue
        scheme = parse(endpoint.reveal()).scheme
        if scheme == "http" and not http:
            yield report(path, "is an http URL, and spec.httpProxy is not set")
        elif scheme == "https" and not https:
            through = "; it is tried through spec.httpProxy, as the network operator does" if theirs and http else ""
            yield report(path, f"is an https URL, but spec.httpsProxy is not set{through}")


def find_endpoint_fault(text: str) -> str | None:
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


def _check_own_fields(item: EgressProxy, spec: EgressProxySpec, is_base: bool) -> Iterator[Finding]:
    place = item.place
    if not is_base:
        for name, field in _BASE_ALONE.items():
            if getattr(spec, name) is not None:
                yield place.build_error(("spec", field), f"only EgressProxy/{BASE} may set it; {_IS_LAYER}")
    if spec.networks is not None:
        if not is_base:
            yield from networks.examine_layer_networks(spec.networks, place, BASE)
        yield from networks.examine_networks(spec.networks, place)
    for system, settings in (("windows", spec.windows), ("linux", spec.linux)):
        for index, name in enumerate(settings.services if settings is not None else ()):
            if not _SERVICE_NAME.fullmatch(name):
                yield place.build_error(
                    ("spec", system, "services", index), "must be a service's name: letters, digits, `_`, `-`, `.`"
                )
    for index, app in enumerate(spec.apps):
        for field, value in (("kind", app.kind), ("namespace", app.namespace), ("name", app.name)):
            if not value:
                yield place.build_error(("spec", "apps", index, field), "is missing")
        if app.kind and app.kind not in APP_KINDS:
            message = f"must be {' or '.join(APP_KINDS)}: how another object reads values is not known"
            yield place.build_warning(("spec", "apps", index, "kind"), message)
    if spec.cluster_selector is not None:
        yield from labels.examine_selector(spec.cluster_selector, place, ("spec", "clusterSelector"))
    yield from _check_mode(spec, place, is_base=is_base)
    if not is_base:
        yield from _check_ineffective_fields(spec, place)
    propagated = spec.propagated.pods if spec.propagated is not None else None
    if propagated is not None and propagated.namespace_selector is not None:
        path = ("spec", "propagated", "pods", "namespaceSelector")
        yield from labels.examine_selector(propagated.namespace_selector, place, path)
    if spec.pods is not None and spec.pods.namespace_selector is not None:
        yield from labels.examine_selector(spec.pods.namespace_selector, place, ("spec", "pods", "namespaceSelector"))


def _check_mode(spec: EgressProxySpec, place: Place, *, is_base: bool) -> Iterator[Finding]:
    if spec.mode is None:
        return
    if is_base:
        message = "is for layers: to take the proxy away everywhere, take spec.httpProxy and spec.httpsProxy out of the base"
        yield place.build_error(("spec", "mode"), message)
    elif spec.http_proxy or spec.https_proxy or spec.credentials_secret:
        yield place.build_error(("spec", "mode"), "mode Direct excludes a proxy, and this object sets one: keep one of them")


def _check_ineffective_fields(spec: EgressProxySpec, place: Place) -> Iterator[Finding]:
    """Check for a layer without any effect, and for empty fields."""
    if spec.mode is None:
        for field, value in (("httpProxy", spec.http_proxy), ("httpsProxy", spec.https_proxy)):
            if value is not None and not value:
                message = "is empty, which is as good as not there: `mode: Direct` takes the proxy of layers below away"
                yield place.build_warning(("spec", field), message)
    texts = (spec.http_proxy, spec.https_proxy, spec.no_proxy, spec.credentials_secret, spec.trusted_ca, spec.apps)
    others = (spec.consumers, spec.rollout, spec.propagate, spec.mode, spec.propagated and spec.propagated.pods)
    networks_too = spec.networks is not None and bool(spec.networks.machine_network)
    if not any(texts) and all(other is None for other in others) and not networks_too:
        yield place.build_warning(("spec",), "says nothing: this layer has no effect")
