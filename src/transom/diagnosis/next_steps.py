"""What there is to do about a host, by the reason of its condition Ready. Reasons that go away by themselves have no entry."""

from typing import Final

from transom.controllers.egress.host_counts import WAITS

WAITING: Final = WAITS | {"Paused"}
"""Reasons of a host that is not there yet, or left alone, and with which nothing is wrong."""
_FORGET_KEY: Final = (
    "where the machine was replaced: kubectl patch windowsinstance {name} -n {namespace} --subresource=status --type=merge "
    '-p \'{{"status":{{"hostKeyFingerprint":null}}}}\''
)
_STEPS: Final[dict[str, str]] = {
    "NotSeen": "transom doctor: it says whether an operator works, and why it does not look at this host",
    "Unreachable": "transom verify host {address}, from where the operator is",
    "AuthenticationRefused": "put the public key of spec.keySecret into administrators_authorized_keys of the host",
    "HostKeyChanged": _FORGET_KEY,
    "HostKeyMissing": "set spec.hostKey to the line of the host's ssh_host_ed25519_key.pub",
    "HostKeyNotRecorded": "set spec.hostKey to the line of the host's ssh_host_ed25519_key.pub",
    "KeyMissing": "transom doctor: it says where the Secret of spec.keySecret is looked for",
    "KeyInvalid": "put a private key without a passphrase into the Secret of spec.keySecret (ssh-keygen -p takes one off)",
    "NotAdministrator": "name an administrator in spec.username",
    "ManagedByOther": "kubectl -n {namespace} annotate windowsinstance {name} transom.dev/adopt=true, to take the host over",
    "InvalidSpec": "transom validate: it names the field",
    "SettingsInvalid": "transom validate: it names the field",
    "SettingsMissing": "make EgressProxy/cluster; with an empty spec it takes the settings away",
    "OutsideNamespace": "make the WindowsInstance in Transom's namespace, and delete this one",
    "CredentialsWithheld": "set spec.clusterSelector of the EgressProxy that the message names; {{}} is all clusters",
    "ApiServerUnknown": "set spec.networks.internalAPIHost of EgressProxy/cluster",
    "RolloutHalted": "mend the hosts that failed, then: kubectl annotate egressproxy cluster --overwrite "
    'transom.dev/resume="$(date)"',
    "PendingBoot": "boot the host: kubectl drain it first where it is a node",
    "PendingRestart": 'kubectl -n {namespace} annotate windowsinstance {name} --overwrite transom.dev/restart="$(date)"',
    "Paused": 'kubectl -n {namespace} patch windowsinstance {name} --type=merge -p \'{{"spec":{{"paused":false}}}}\'',
    "ProxyNotResolved": "mend the proxy's name, or the host's DNS",
    "ProxyUnreachable": "let the host reach the proxy: a firewall, or a wrong port in the URL",
    "ProxyAuthentication": "mend user name and password in the Secret of spec.credentialsSecret",
    "ProxyRefused": "let the proxy reach the endpoint: its access list refuses this host or this URL",
    "TLSFailed": "add the CA that signs for the endpoint, or that of the proxy, to the ConfigMap of spec.trustedCA",
    "Distrusted": "take the certificate out of the host's Disallowed store, or out of the bundle",
    "DrainBlocked": "look at the PodDisruptionBudget that the message names",
    "PayloadMissing": "give the operator a payload: transom manifests --payload-image, or --payload-kubeadm",
    "PayloadIncomplete": "transom payload check: it names the files",
    "Fault": "please report it, with the file of: transom doctor --bundle transom.tar.gz",
    "NoNode": "where the host should be a node: spec.lifecycle: Node, or spec.nodeName",
    "NeverReady": "kubectl describe node: its kubelet says what it lacks",
}


def next_step(reason: str, name: str, namespace: str, address: str) -> str:
    """A command or a sentence; empty where there is nothing to do, or nothing is known."""
    return _STEPS.get(reason, "").format(name=name, namespace=namespace, address=address or "ADDRESS")


REASONS: Final = frozenset(_STEPS)
