"""What Transom does with each field of a kubeconfig, in its own and in that of a workload cluster.

The fields are those of client-go v0.37.0, tools/clientcmd/api/v1/types.go. A test compares this table with client-go's types.
"""

import enum
from typing import Final

import msgspec


class Treatment(enum.StrEnum):
    """What Transom does with a field."""

    USED = "used"
    REFUSED = "refused"
    IGNORED = "ignored"


class FieldTreatment(msgspec.Struct, frozen=True):
    """What Transom does with a field: in its own kubeconfig, in a foreign one, and why it is not used."""

    own: Treatment
    foreign: Treatment
    reason: str = ""
    foreign_reason: str = ""


_USED: Final = FieldTreatment(Treatment.USED, Treatment.USED)
_INLINE: Final = "put the data itself into the kubeconfig"


def _refuse_foreign(reason: str) -> FieldTreatment:
    return FieldTreatment(Treatment.USED, Treatment.REFUSED, foreign_reason=reason)


def _ignore(reason: str) -> FieldTreatment:
    return FieldTreatment(Treatment.IGNORED, Treatment.IGNORED, reason)


_FILE: Final = _refuse_foreign(_INLINE)
_IMPERSONATION: Final = _refuse_foreign(
    "Transom does not impersonate users in a workload cluster; use the user's own kubeconfig"
)
_PLUGIN: Final = _refuse_foreign("Transom runs no command that a workload cluster names")
_EXTENSIONS: Final = _ignore("other programs keep their data here")

KUBECONFIG_FIELDS: Final[dict[str, dict[str, FieldTreatment]]] = {
    "Cluster": {
        "server": _USED,
        "tls-server-name": _USED,
        "insecure-skip-tls-verify": _refuse_foreign("put the CA into the kubeconfig"),
        "certificate-authority": _FILE,
        "certificate-authority-data": _USED,
        # http and https alone: a SOCKS proxy is refused by name
        "proxy-url": _USED,
        "disable-compression": _USED,
        # of the extensions, a credential plugin gets the one that is meant for it
        "extensions": FieldTreatment(Treatment.USED, Treatment.IGNORED, foreign_reason="only a plugin reads them"),
    },
    "AuthInfo": {
        "client-certificate": _FILE,
        "client-certificate-data": _USED,
        "client-key": _FILE,
        "client-key-data": _USED,
        "token": _USED,
        "tokenFile": _FILE,
        "as": _IMPERSONATION,
        "as-uid": _IMPERSONATION,
        "as-groups": _IMPERSONATION,
        "as-user-extra": _IMPERSONATION,
        "username": _USED,
        "password": _USED,
        "auth-provider": FieldTreatment(
            Treatment.REFUSED, Treatment.REFUSED, "kubectl has no such providers since v1.26: use exec", _INLINE
        ),
        "exec": _PLUGIN,
        "extensions": _EXTENSIONS,
    },
    "ExecConfig": {
        "command": _PLUGIN,
        "args": _PLUGIN,
        "env": _PLUGIN,
        "apiVersion": _PLUGIN,
        "installHint": _PLUGIN,
        "provideClusterInfo": _PLUGIN,
        "interactiveMode": _PLUGIN,
    },
}


def build_refused_foreign_fields() -> dict[str, dict[str, str]]:
    """Return the fields of a cluster and of a user that a foreign kubeconfig may not have, each with its reason."""
    sections = {"cluster": "Cluster", "user": "AuthInfo"}
    return {
        section: {
            name: treatment.foreign_reason
            for name, treatment in KUBECONFIG_FIELDS[kind].items()
            if treatment.foreign is Treatment.REFUSED
        }
        for section, kind in sections.items()
    }
