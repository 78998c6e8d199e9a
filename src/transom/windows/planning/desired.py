"""What a Windows host should look like, from the egress settings: a DesiredState of what is ours, and nothing else."""

from collections.abc import Iterator

from transom.proxy.settings import Egress
from transom.windows.host.queries import ENVIRONMENT, SERVICES
from transom.windows.host.state import DesiredState
from transom.windows.parts import winhttp
from transom.windows.parts.certificates import CA, ROOT, blob, store
from transom.windows.registry.registry import CreateKey, Edit, Registry, SetValue, binary, multi_sz, sz


def desired(egress: Egress) -> DesiredState:
    """The registry values that the settings ask for.

    A key for every service of the settings, whether or not it gets an environment of its own: it is managed. Certificates
    that are self-issued are roots, the others intermediates. Lower-case names are not set: Windows does not tell case apart.
    """
    return DesiredState(Registry().apply(_edits(egress)))


def _edits(egress: Egress) -> Iterator[Edit]:
    variables = egress.variables
    scope = egress.windows.environment_scope
    for service in egress.windows.services:
        path = rf"{SERVICES}\{service}"
        yield CreateKey(path)
        if variables and scope in ("Services", "Both"):
            yield SetValue(path, "Environment", multi_sz(f"{name}={value}" for name, value in variables.items()))
    if scope in ("Machine", "Both"):
        for name, value in variables.items():
            yield SetValue(ENVIRONMENT, name, sz(value))
    if egress.windows.win_http and (settings := winhttp.settings(egress)) is not None:
        yield SetValue(winhttp.KEY, winhttp.VALUE, binary(settings))
    for certificate in egress.trust:
        path = rf"{store(ROOT if certificate.self_issued else CA)}\{certificate.sha1}"
        yield SetValue(path, "Blob", blob(certificate.der, certificate.sha1))
