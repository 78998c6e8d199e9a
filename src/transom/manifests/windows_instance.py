"""WindowsInstance: what can be said of its fields beyond their types."""

from typing import Final

from transom.manifests.schema import AGE, NAME, CelRule, Kind, Rules, column, condition_column
from transom.windows.nodes import WindowsInstanceSpec, WindowsInstanceStatus

_RULES: Final = {
    "spec": Rules("How the host is reached, and what Transom is to it.", required=("address", "username")),
    "spec.address": Rules(
        "A DNS name or an IP address, without brackets and port.",
        {"minLength": 1, "maxLength": 253},
        checks=(
            CelRule("self.matches('^[0-9A-Za-z_.:-]+$')", "must be a DNS name or an IP address; brackets have no place here"),
            CelRule("!self.matches('^[^:]*:[0-9]*$')", "must be a DNS name or an IP address; the port goes into spec.port"),
        ),
    ),
    "spec.port": Rules("The port of its SSH server.", {"minimum": 1, "maximum": 65535}),
    "spec.username": Rules("The account to log in with; an administrator.", {"minLength": 1, "maxLength": 256}),
    "spec.keySecret": Rules("The Secret in the same namespace whose key `private-key.pem` opens the host.", required=("name",)),
    "spec.keySecret.name": Rules("The name of the Secret.", NAME),
    "spec.nodeName": Rules(
        "The Node that the host is, where it is not the host's own name.",
        {"maxLength": 253, "pattern": "^[a-z0-9]([-a-z0-9.]*[a-z0-9])?$"},
    ),
    "spec.nodeIP": Rules(
        "The Node's IP address, where SSH goes to another one: a second network card, NAT, a jump host.",
        {"minLength": 2, "maxLength": 45},
        checks=(CelRule("self.matches('^[0-9A-Fa-f.:]+$')", "must be an IP address, without brackets, prefix and port"),),
    ),
    "spec.hostKey": Rules(
        "The host's public key, a line as in ssh_host_ed25519_key.pub. Without it the first key seen is recorded in status.",
        {"maxLength": 8192},
        checks=(CelRule("self.matches('^(ssh-|ecdsa-)[^\\\\n]*\\\\n?$')", "must be one line: type, key, comment"),),
    ),
    "spec.paused": Rules("Leave the host alone: it is not connected to.", default=True),
    "spec.clusterRef": Rules("The Cluster API Cluster whose settings hold for this host.", required=("name",)),
    "spec.clusterRef.name": Rules("The name of the Cluster.", NAME),
    "spec.clusterRef.namespace": Rules("Its namespace; the instance's own by default.", {"maxLength": 63}),
    "spec.lifecycle": Rules(
        "Egress: proxy and trust alone; the node is never joined, upgraded, drained or removed. Node: the whole life."
    ),
    "status.nodeName": Rules("The Node that the host is, or will be. Decided once: clear it to have it decided again."),
    "status.nodeUID": Rules("The UID of that Node, once it is there."),
    "status.nodeProof": Rules(
        "By what it was decided: Machine (its nodeRef), Certificate (one that was approved for this instance's own token), "
        "Spec (spec.nodeName), Address, or Name: the host's own name is reserved for it, and no Node is known to be its."
    ),
    "status.hostAddress": Rules("The IP address that SSH has reached the host by."),
    "status.hostKeyFingerprint": Rules("Of the key that the host is known by, as SHA256:…. Clear it to accept another key."),
    "status.keyHash": Rules(
        "SHA-256 of the public key that opens the host: type and base64, as in authorized_keys. Of a host that is being moved "
        "to another key: of each that may open it."
    ),
    "status.osVersion": Rules("The version of Windows."),
    "status.payloadVersion": Rules("The payload that was installed."),
    "status.stateHash": Rules("Of the state last applied; keyed, because credentials go into it."),
    "status.settings": Rules(
        "The settings, and the endpoints, by which the host was last judged, as a keyed hash: those that hold where "
        "status.settings of EgressProxy/cluster says the same."
    ),
    "status.changes": Rules(
        "How far the changes to this host have come, as kind/keyed hash:state: a rollout goes on from there, and one that was "
        "halted stays it, whoever leads."
    ),
    "status.lastChecked": Rules("When the host was last looked at.", {"format": "date-time"}),
}

WINDOWS_INSTANCE: Final = Kind(
    kind="WindowsInstance",
    plural="windowsinstances",
    singular="windowsinstance",
    short_name="wini",
    scope="Namespaced",
    description="A Windows host that Transom works on, over SSH.",
    spec=WindowsInstanceSpec,
    rules=_RULES,
    checks=(
        {
            "rule": "!has(self.spec.lifecycle) || self.spec.lifecycle != 'Node' || !has(self.spec.clusterRef)",
            "message": "Node joins the cluster that Transom runs in; with spec.clusterRef it must be Egress",
            "fieldPath": ".spec.lifecycle",
        },
    ),
    status=WindowsInstanceStatus,
    columns=(
        column("Address", ".spec.address"),
        condition_column("Ready", "Ready"),
        column("Reason", '.status.conditions[?(@.type=="Ready")].reason'),
        condition_column("Reachable", "Reachable", 1),
        condition_column("ProxyApplied", "ProxyApplied"),
        condition_column("TrustApplied", "TrustApplied"),
        condition_column("Configured", "Configured", 1),
        condition_column("Egress", "EgressWorks", 1),
        column("Node", ".status.nodeName"),
        condition_column("NodeReady", "NodeReady"),
        column("Payload", ".status.payloadVersion", priority=1),
        column("OS", ".status.osVersion", priority=1),
        column("Checked", ".status.lastChecked", "date", 1),
        AGE,
    ),
    spec_required=True,
)
