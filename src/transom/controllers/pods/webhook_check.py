"""Whether new pods get the settings: the registration as the API server has it, and the answer of the server that it names."""

import base64
import binascii
import secrets
import ssl
from collections.abc import Mapping
from typing import Any, Final, NamedTuple

import aiohttp
import msgspec

from transom.common.escaping import escape_unprintable
from transom.common.tls_clients import create_bare_context
from transom.controllers.runtime.conditions import Condition
from transom.http.bodies import read_body
from transom.pods.environment import PodEgress
from transom.pods.webhook_configuration import KIND, NAME, TIMEOUT, has_same_rules, is_own_configuration
from transom.sources.core_objects import get_value_at

_OBJECT: Final = f"{KIND}/{NAME}"
_API_VERSION: Final = "admission.k8s.io/v1"
_ADMIT: Final = (
    f"`kubectl delete mutatingwebhookconfiguration {NAME}` admits pods without the settings, and"
    " `kubectl label namespace YOUR_NAMESPACE transom.dev/inject=disabled` those of one namespace"
)
_LONGEST_ANSWER: Final = 65_536
_OK: Final = 200


INJECTED: Final = Condition("True", "Injected", "new pods get the settings from the admission server, which answers")
OLD_SETTINGS: Final = Condition(
    "False",
    "OldSettings",
    "the admission server answers, and gives new pods older settings: its log and `transom doctor` name what it cannot read",
)


class _ServerFault(Exception):
    """A server that does not answer as it has to; the message says why."""


class _FailedServer(NamedTuple):
    """A server that the API server calls in vain; `refuses`: it refuses pods then (`failurePolicy: Fail`)."""

    address: str
    fault: str
    refuses: bool


def can_refuse_pods(live: Mapping[str, Any] | None) -> bool:
    """Return True if the API server refuses pods while nothing answers it for our registration."""
    return live is not None and is_own_configuration(live) and any(refuses for _, _, refuses in _list_webhook_servers(live))


async def build_pods_injected_condition(live: Mapping[str, Any] | None, egress: PodEgress, fingerprint: str = "") -> Condition:
    """Return PodsInjected. `live` is the registration; each server that it names is called once.

    `fingerprint` is that of the settings; empty: the servers may have any.
    """
    if live is None:
        return _build_false_condition(
            "NotRegistered", f"{_OBJECT} does not exist, so pods get no settings: is `transom webhook` running?"
        )
    if not is_own_configuration(live):
        return _build_false_condition(
            "NotRegistered", f"{_OBJECT} is not managed by Transom, so pods get no settings: remove it"
        )
    unanswered: list[_FailedServer] = []
    fingerprints: set[str] = set()
    for address, bundle, refuses in _list_webhook_servers(live):
        try:
            fingerprints.add(await _check_server(address, bundle))
        except _ServerFault as fault:
            unanswered.append(_FailedServer(address, str(fault), refuses))
    refusing = next((item for item in unanswered if item.refuses), None)
    if refusing is not None:
        return _build_false_condition("PodsRefused", f"{_describe(refusing)}; the API server refuses new pods: {_ADMIT}")
    if not has_same_rules(live, egress):
        message = f"{_OBJECT} does not ask for what the settings select: is `transom webhook` running, and of this version?"
        return _build_false_condition("Outdated", message)
    if unanswered:
        return _build_false_condition("NotCalled", f"{_describe(unanswered[0])}; pods start without the settings")
    if fingerprint and fingerprints - {"", fingerprint}:
        return OLD_SETTINGS
    return INJECTED


def _describe(unanswered: _FailedServer) -> str:
    return (
        f"{escape_unprintable(unanswered.address)}, which {_OBJECT} names with failurePolicy "
        f"{'Fail' if unanswered.refuses else 'Ignore'}: {unanswered.fault}"
    )


def _build_false_condition(reason: str, message: str) -> Condition:
    return Condition("False", reason, message)


def _list_webhook_servers(live: Mapping[str, Any]) -> list[tuple[str, str, bool]]:
    """Return where entries are sent, the bundle that they trust, in base64, and whether one of them refuses pods.

    Of one server there is the first path alone.
    """
    servers: dict[tuple[str, str], tuple[str, str, bool]] = {}
    for entry in live.get("webhooks") or ():
        config = entry.get("clientConfig") or {}
        address, bundle = _format_address(config), str(config.get("caBundle") or "")
        server = address.rpartition("/")[0], bundle
        first, _, refuses = servers.get(server, (address, bundle, False))
        # the default of admissionregistration.k8s.io/v1
        servers[server] = first, bundle, refuses or entry.get("failurePolicy", "Fail") != "Ignore"
    return list(servers.values())


def _format_address(config: Mapping[str, Any]) -> str:
    if config.get("url"):
        return str(config["url"])
    name, namespace, path = (get_value_at(config, ("service", field)) or "" for field in ("name", "namespace", "path"))
    return f"https://{name}.{namespace}.svc:{get_value_at(config, ('service', 'port')) or 443}{path}"


async def _check_server(address: str, bundle: str) -> str:
    """Send a review of an object that is not a pod, as the API server does, with the same trust. Raises _ServerFault.

    Return the fingerprint of the server's settings; empty if it does not send one.
    """
    uid = secrets.token_hex(16)
    kind = {"group": "", "version": "v1", "kind": "ConfigMap"}
    request = {"uid": uid, "kind": kind, "operation": "CREATE", "dryRun": True}
    review = msgspec.json.encode({"apiVersion": _API_VERSION, "kind": "AdmissionReview", "request": request})
    headers = {"Content-Type": "application/json"}
    seconds = aiohttp.ClientTimeout(total=TIMEOUT)
    try:
        async with (
            aiohttp.ClientSession(timeout=seconds) as session,
            session.post(address, data=review, headers=headers, ssl=_create_context(bundle), allow_redirects=False) as response,
        ):
            answer = await read_body(response, _LONGEST_ANSWER)
            status = response.status
    except aiohttp.ClientConnectorCertificateError as error:
        cause = error.certificate_error
        problem = cause.verify_message if isinstance(cause, ssl.SSLCertVerificationError) else "it is not valid for this server"
        raise _ServerFault(f"its certificate is not one that the caBundle there trusts ({problem})") from error
    except aiohttp.ClientConnectorError as error:
        raise _ServerFault(f"no connection ({error.os_error.strerror or type(error.os_error).__name__})") from error
    except TimeoutError as error:
        raise _ServerFault(f"no answer within {TIMEOUT} s") from error
    except aiohttp.ClientError as error:
        raise _ServerFault(f"no answer ({type(error).__name__})") from error
    if status != _OK:
        raise _ServerFault(f"it answers {status}")
    try:
        answered = msgspec.json.decode(answer)
    except msgspec.DecodeError:
        answered = None
    if get_value_at(answered, ("response", "uid")) != uid or get_value_at(answered, ("response", "allowed")) is not True:
        raise _ServerFault("its answer is not an AdmissionReview")
    return str(get_value_at(answered, ("response", "auditAnnotations", "settings")) or "")


def _create_context(bundle: str) -> ssl.SSLContext:
    """Trust in the bundle alone, as the API server's. Raises _ServerFault."""
    context = create_bare_context()
    try:
        context.load_verify_locations(cadata=base64.b64decode(bundle, validate=True).decode("ascii"))
    except (binascii.Error, UnicodeDecodeError, ValueError, ssl.SSLError) as error:
        raise _ServerFault("the caBundle there has no certificate that can be read") from error
    return context
