"""WindowsInstance: descriptions and limits of its fields."""

from typing import Final

from transom.manifests.schema import AGE, NAME, CelRule, FieldRules, Kind, build_column, build_condition_column
from transom.windows.nodes.windows_instance import MAX_ADDRESSES, WindowsInstanceSpec, WindowsInstanceStatus

_RULES: Final = {
    "spec": FieldRules("How Transom reaches and manages the host.", required=("address", "username")),
    "spec.address": FieldRules(
        "A DNS name or an IP address, without brackets or port.",
        {"minLength": 1, "maxLength": 253},
        checks=(
            CelRule("self.matches('^[0-9A-Za-z_.:-]+$')", "must be a DNS name or an IP address, without brackets"),
            CelRule("!self.matches('^[^:]*:[0-9]*$')", "must be a DNS name or an IP address, without a port: set spec.port"),
        ),
    ),
    "spec.port": FieldRules("The port of the SSH server.", {"minimum": 1, "maximum": 65535}),
    "spec.username": FieldRules("The account for SSH. It must be an administrator.", {"minLength": 1, "maxLength": 256}),
    "spec.keySecret": FieldRules(
        "The Secret in the same namespace whose key `private-key.pem` contains the SSH key.", required=("name",)
    ),
    "spec.keySecret.name": FieldRules("The name of the Secret.", NAME),
    "spec.nodeName": FieldRules(
        "The host's Node, if its name differs from the host's own name.",
        {"maxLength": 253, "pattern": "^[a-z0-9]([-a-z0-9.]*[a-z0-9])?$"},
    ),
    "spec.nodeIP": FieldRules(
        "The Node's IP address, if it differs from the address for SSH: a second network card, NAT, a jump host.",
        {"minLength": 2, "maxLength": 45},
        checks=(CelRule("self.matches('^[0-9A-Fa-f.:]+$')", "must be an IP address, without brackets, prefix or port"),),
    ),
    "spec.addresses": FieldRules(
        "Additional DNS names and IP addresses of the host, which its serving certificate may contain: a second network card, a"
        " public address, a DNS name from the cloud.",
        {"maxItems": MAX_ADDRESSES},
        items={"minLength": 1, "maxLength": 253},
        default=False,
    ),
    "spec.hostKey": FieldRules(
        "The host's public key, a line as in ssh_host_ed25519_key.pub. Without it, Transom records the first key in status.",
        {"maxLength": 8192},
        checks=(CelRule("self.matches('^(ssh-|ecdsa-)[^\\\\n]*\\\\n?$')", "must be one line: type, key, comment"),),
    ),
    "spec.paused": FieldRules("If true, Transom does not connect to the host.", default=True),
    "spec.clusterRef": FieldRules("The Cluster API Cluster whose settings apply to this host.", required=("name",)),
    "spec.clusterRef.name": FieldRules("The name of the Cluster.", NAME),
    "spec.clusterRef.namespace": FieldRules("Its namespace. By default, the namespace of the instance.", {"maxLength": 63}),
    "spec.lifecycle": FieldRules(
        "Egress: Transom manages proxy and trust only, and never joins, upgrades, drains or removes the node. Node:"
        " Transom manages the whole lifecycle of the node."
    ),
    "status.nodeName": FieldRules(
        "The Node of the host, which may not exist yet. Transom determines it once. Clear it to let Transom determine it again."
    ),
    "status.nodeUID": FieldRules("The UID of that Node, after it was created."),
    "status.nodeProof": FieldRules(
        "How Transom determined the Node: Machine (its nodeRef), Certificate (approved for the token of this"
        " instance), Spec (spec.nodeName), Address, or Name (the name is reserved for the host, and no Node is known"
        " to be its)."
    ),
    "status.hostAddress": FieldRules("The IP address by which SSH reached the host."),
    "status.hostKeyFingerprint": FieldRules("The fingerprint of the host's key, as SHA256:…. Clear it to accept another key."),
    "status.keyHash": FieldRules(
        "The SHA-256 of the public key that the host accepts: type and base64, as in authorized_keys. During a key"
        " rotation, of each key that it may accept."
    ),
    "status.osVersion": FieldRules("The version of Windows."),
    "status.payloadVersion": FieldRules("The version of the installed payload."),
    "status.stateHash": FieldRules(
        "A keyed hash of the last applied state. It is keyed because the state contains credentials."
    ),
    "status.settings": FieldRules(
        "A keyed hash of the settings and endpoints of the last check of the host. The host is up to date if"
        " status.settings of EgressProxy/cluster is the same."
    ),
    "status.changes": FieldRules(
        "The progress of changes to this host, as kind/keyed hash:state. After a change of leader, a rollout resumes"
        " from it, and a halted rollout stays halted."
    ),
    "status.lastChecked": FieldRules("The time of the last check of the host.", {"format": "date-time"}),
    "status.lastChange": FieldRules("The last pass that changed the host. A pass that changes nothing keeps it."),
    "status.lastChange.time": FieldRules("The time of the change.", {"format": "date-time"}),
    "status.lastChange.summary": FieldRules(
        "What was added, replaced and removed, and which services were restarted: names without values."
    ),
    "status.lastHandledReconcile": FieldRules(
        "The last handled value of annotation transom.dev/reconcile. Transom checked the host after it was set."
    ),
    "status.lastHandledRestart": FieldRules(
        "The last handled value of annotation transom.dev/restart. Transom restarted the services that were waiting."
    ),
}

WINDOWS_INSTANCE: Final = Kind(
    kind="WindowsInstance",
    plural="windowsinstances",
    singular="windowsinstance",
    short_name="wini",
    scope="Namespaced",
    description="A Windows host that Transom manages over SSH.",
    spec=WindowsInstanceSpec,
    rules=_RULES,
    checks=(
        {
            "rule": "!has(self.spec.lifecycle) || self.spec.lifecycle != 'Node' || !has(self.spec.clusterRef)",
            "message": "must be Egress if spec.clusterRef is set: Node joins the cluster that Transom runs in",
            "fieldPath": ".spec.lifecycle",
        },
    ),
    status=WindowsInstanceStatus,
    columns=(
        build_column("Address", ".spec.address"),
        build_condition_column("Ready", "Ready"),
        build_column("Reason", '.status.conditions[?(@.type=="Ready")].reason'),
        build_condition_column("Reachable", "Reachable", 1),
        build_condition_column("ProxyApplied", "ProxyApplied"),
        build_condition_column("TrustApplied", "TrustApplied"),
        build_condition_column("Configured", "Configured", 1),
        build_condition_column("Egress", "EgressWorks", 1),
        build_column("Node", ".status.nodeName"),
        build_condition_column("NodeReady", "NodeReady"),
        build_column("Payload", ".status.payloadVersion", priority=1),
        build_column("OS", ".status.osVersion", priority=1),
        build_column("Checked", ".status.lastChecked", "date", 1),
        AGE,
    ),
    spec_required=True,
)
