"""Whether new pods get the settings: the registration as the API server has it, and the answer of the server that it names."""

import base64
import binascii
import secrets
import ssl
from collections.abc import Iterator, Mapping
from typing import Any, Final

import aiohttp
import msgspec

from transom.controllers.runtime.conditions import Condition
from transom.pods.environment import PodEgress
from transom.pods.registration import KIND, NAME, TIMEOUT, asks_for, is_ours
from transom.shown import shown
from transom.sources.core_objects import at

_OBJECT: Final = f"{KIND}/{NAME}"
_API_VERSION: Final = "admission.k8s.io/v1"
_LONGEST_ANSWER: Final = 65_536
_OK: Final = 200


class _Fault(Exception):
    """A server that does not answer as it has to; the message says why."""


async def condition(live: Mapping[str, Any] | None, egress: PodEgress) -> Condition:
    """PodsInjected, where pods get something by the settings. `live` is the registration. Each server is called once."""
    if live is None:
        return _false("NotRegistered", f"there is no {_OBJECT}, so no pod gets anything: is `transom webhook` running?")
    if not is_ours(live):
        return _false("NotRegistered", f"{_OBJECT} is somebody else's, so no pod gets anything: remove it")
    if not asks_for(live, egress):
        message = f"{_OBJECT} does not ask for what the settings select: is `transom webhook` running, and of this version?"
        return _false("Outdated", message)
    for address, bundle in dict.fromkeys(_servers(live)):
        try:
            await _call(address, bundle)
        except _Fault as fault:
            return _false("NotCalled", f"{shown(address)}, which {_OBJECT} names: {fault}; pods start without the settings")
    return Condition("True", "Injected", "new pods get the settings from the admission server, which answers")


def _false(reason: str, message: str) -> Condition:
    return Condition("False", reason, message)


def _servers(live: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    """Where each entry is sent, and the bundle that it trusts, in base64; of one server the first path alone."""
    seen = set()
    for entry in live.get("webhooks") or ():
        config = entry.get("clientConfig") or {}
        address, bundle = _address(config), str(config.get("caBundle") or "")
        server = address.rpartition("/")[0], bundle
        if server not in seen:
            seen.add(server)
            yield address, bundle


def _address(config: Mapping[str, Any]) -> str:
    if config.get("url"):
        return str(config["url"])
    name, namespace, path = (at(config, ("service", field)) or "" for field in ("name", "namespace", "path"))
    return f"https://{name}.{namespace}.svc:{at(config, ('service', 'port')) or 443}{path}"


async def _call(address: str, bundle: str) -> None:
    """Ask about something that is no pod, as the API server would ask, and trust what it trusts. Raises _Fault."""
    uid = secrets.token_hex(16)
    kind = {"group": "", "version": "v1", "kind": "ConfigMap"}
    request = {"uid": uid, "kind": kind, "operation": "CREATE", "dryRun": True}
    review = msgspec.json.encode({"apiVersion": _API_VERSION, "kind": "AdmissionReview", "request": request})
    headers = {"Content-Type": "application/json"}
    seconds = aiohttp.ClientTimeout(total=TIMEOUT)
    try:
        async with (
            aiohttp.ClientSession(timeout=seconds) as session,
            session.post(address, data=review, headers=headers, ssl=_context(bundle), allow_redirects=False) as response,
        ):
            answer = await response.content.read(_LONGEST_ANSWER)
            status = response.status
    except aiohttp.ClientConnectorCertificateError as error:
        cause = error.certificate_error
        told = cause.verify_message if isinstance(cause, ssl.SSLCertVerificationError) else "it does not fit"
        raise _Fault(f"its certificate is not one that the caBundle there trusts ({told})") from error
    except aiohttp.ClientConnectorError as error:
        raise _Fault(f"no connection ({error.os_error.strerror or type(error.os_error).__name__})") from error
    except TimeoutError as error:
        raise _Fault(f"no answer within {TIMEOUT} s") from error
    except aiohttp.ClientError as error:
        raise _Fault(f"no answer ({type(error).__name__})") from error
    if status != _OK:
        raise _Fault(f"it answers {status}")
    try:
        answered = msgspec.json.decode(answer)
    except msgspec.DecodeError:
        answered = None
    if at(answered, ("response", "uid")) != uid or at(answered, ("response", "allowed")) is not True:
        raise _Fault("its answer is no admission review")


def _context(bundle: str) -> ssl.SSLContext:
    """Trust in the bundle alone, as the API server's. Raises _Fault."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    try:
        context.load_verify_locations(cadata=base64.b64decode(bundle, validate=True).decode("ascii"))
    except (binascii.Error, UnicodeDecodeError, ValueError, ssl.SSLError) as error:
        raise _Fault("the caBundle there has no certificate that can be read") from error
    return context
