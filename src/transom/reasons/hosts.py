"""The reasons of a WindowsInstance, its host and its Node."""

from typing import Final

from transom.reasons.reason import Reason, define_condition, define_condition_and_event, define_event

_EDIT: Final = "Correct what the message names"

HOSTS: Final[tuple[Reason, ...]] = (
    define_condition(
        "Adopted",
        "fine",
        "Another operator made this host a node. Transom keeps its services and files, and sets proxy and trust.",
    ),
    define_condition(
        "ApiServerNotTrusted",
        "after",
        "The published CAs for joining nodes do not match the API server's certificate, so Transom changes no host.",
        "Correct the ConfigMap that the message names",
    ),
    define_condition_and_event(
        "Applied",
        "fine",
        "The host, or every workload cluster, has the settings. The event lists the changes.",
    ),
    define_event("CertificateApproved", "fine", "Transom approved a certificate of a joining or renewing node."),
    define_event(
        "CertificateRefused",
        "after",
        "A certificate signing request names a host of Transom but does not match it. Transom did not approve it.",
        "Compare the request with the instance; the message lists the differences",
    ),
    define_event(
        "CertificatesLeftOut",
        "fine",
        "Some CAs exceed the size limit of the user data. New machines get them at the first connection.",
    ),
    define_condition_and_event(
        "Changing", "itself", "Transom is placing files, and creating and starting services in the order of their dependencies."
    ),
    define_condition("Connected", "fine", "The last pass read the host."),
    define_condition_and_event("Connecting", "itself", "Transom is connecting to the host."),
    define_event("Cordoned", "itself", "Transom cordoned the Node, because the next change interrupts its pods."),
    define_event("Deleted", "itself", "Transom deletes the instance, because its source no longer exists."),
    define_condition(
        "Distrusted",
        "after",
        "The host's `Disallowed` store contains a certificate of the bundle. Windows does not trust it.",
        "Remove the certificate from that store, or from the bundle",
    ),
    define_condition_and_event(
        "DrainBlocked",
        "after",
        "Pods did not terminate in time. The message names the pods and the cause. Transom changed nothing on the host.",
        "Check the PodDisruptionBudgets and finalizers of the pods, and pods without an owner",
    ),
    define_event("Drained", "itself", "All pods that can be evicted have left the Node."),
    define_condition("Draining", "itself", "Transom is evicting the pods of the Node, within their disruption budgets."),
    define_condition(
        "EndpointRefused",
        "after",
        "The host reached a readiness endpoint through the proxy, and the endpoint answered with an error.",
        "Check the endpoint, or set another one in `spec.readinessEndpoints`",
    ),
    define_condition(
        "FetchFailed",
        "after",
        "curl.exe on the host failed for another reason. The message contains its exit code.",
        "Look up the exit code in curl's documentation",
    ),
    define_condition("Fetched", "fine", "The host fetched a readiness endpoint with its current settings."),
    define_event(
        "FirstBootBlocked",
        "after",
        "The proxy requires a password or TLS, which a new machine cannot use at its first boot, so it cannot download its SSH"
        " server.",
        "Use an image with an OpenSSH server, or set `--openssh-msi` to a URL whose host NO_PROXY contains",
    ),
    define_event(
        "HostLeft", "fine", "The instance was deleted, and Transom did not change its host. The message contains the reason."
    ),
    define_event(
        "InvalidEntry",
        "after",
        "An entry of ConfigMap `windows-instances`, or a Machine, is not a valid instance. Other entries are not affected.",
        _EDIT,
    ),
    define_condition(
        "InvalidSpec",
        "after",
        "The WindowsInstance is invalid.",
        "Correct the field at the beginning of the message; `transom validate` lists all errors",
    ),
    define_condition_and_event(
        "KeyInvalid",
        "after",
        "The Secret with the SSH key contains no readable key.",
        "Store an OpenSSH private key without a passphrase in it; `ssh-keygen -p` removes a passphrase",
    ),
    define_condition_and_event(
        "KeyMissing",
        "after",
        "The Secret with the SSH key does not exist.",
        "Create the Secret of `spec.keySecret`; `transom doctor` shows its expected location",
    ),
    define_event("KeyMoved", "fine", "The host now accepts a different SSH key."),
    define_condition_and_event(
        "KeyNotKept",
        "itself",
        "Transom could not store a key in the cluster. It changed nothing on the host, and retries.",
    ),
    define_event(
        "MachineReplaced",
        "itself",
        "Transom deleted a Machine whose host accepts none of the keys. Its MachineSet creates a new Machine.",
    ),
    define_event("Made", "fine", "Transom created an instance from a Machine or from ConfigMap `windows-instances`."),
    define_event(
        "MirrorNotSet", "after", "containerd does not support a registry mirror of the cluster. Transom skips it.", _EDIT
    ),
    define_condition(
        "NetworkNotSupported",
        "after",
        "Windows nodes cannot join the network of this cluster. The message lists what is missing.",
        "For OVN-Kubernetes, set `hybridOverlayConfig`; otherwise, use a payload for this network",
    ),
    define_condition_and_event(
        "NeverReady",
        "after",
        "Transom started the kubelet, but its Node does not become Ready.",
        "Check the output of `kubectl describe node`, and the kubelet's log on the host",
    ),
    define_condition(
        "NoNode",
        "fine",
        "The host has no Windows Node.",
        "If the host should be a node, set `spec.lifecycle: Node` or `spec.nodeName`",
    ),
    define_event(
        "NodeLeft",
        "after",
        "The instance was deleted. Its Node stays, because it existed before Transom managed the host.",
        "Delete the Node if it is unused",
    ),
    define_event(
        "NodeMarkedForeign",
        "after",
        "The Node's annotation names another instance. Transom does not change the Node.",
        "Remove the annotation from the Node if that instance no longer exists",
    ),
    define_event("NodeRemoved", "fine", "Transom deleted the Node of a host that it restored."),
    define_condition("NotChecked", "itself", "Transom has not checked the host yet."),
    define_event(
        "NotMade", "after", "Another instance with this name exists.", "Delete or rename the instance that the message names"
    ),
    define_condition(
        "NotProbed", "fine", "The host did not fetch an endpoint, because it has no curl.exe or no endpoint uses the proxy."
    ),
    define_condition("NotRead", "itself", "The last pass did not read the host."),
    Reason(
        "NotObserved",
        frozenset({"status"}),
        "itself",
        "The operator has not observed the latest edit of the object yet. Its status is outdated.",
        "If this persists, run `transom doctor`",
    ),
    Reason(
        "NotSeen",
        frozenset({"status"}),
        "after",
        "No operator has observed the object.",
        "To find the cause, run `transom doctor`",
    ),
    Reason(
        "StatusNewer",
        frozenset({"status"}),
        "after",
        "The status has a later generation than the object, because etcd was restored and no operator has observed the object"
        " since.",
        "Restart the operator with `kubectl rollout restart deployment transom -n NAMESPACE`",
    ),
    Reason(
        "StatusRefused",
        frozenset({"status"}),
        "after",
        "The API server refuses status updates of this kind. The last status may be outdated.",
        "To find the cause, run `transom doctor`",
    ),
    define_condition("NotReported", "itself", "The kubelet of the Node has not reported yet."),
    define_condition("NotRequired", "fine", "No change requires a reboot of the host."),
    define_condition("OtherCluster", "fine", "The host is a node of another cluster. Transom does not read that cluster."),
    define_condition_and_event(
        "OutsideNamespace",
        "after",
        "The instance is not in the operator's namespace, so Transom does not manage its host.",
        "Move the instance to the namespace in the message; `transom doctor` prints the command",
    ),
    define_condition(
        "Paused",
        "fine",
        "`spec.paused` is set. Transom does not connect to the host.",
        "To resume, run `transom resume NAME -n NAMESPACE`",
    ),
    define_condition(
        "PayloadIncomplete",
        "itself",
        "Transom is downloading files that `payload.yaml` names by URL. The message lists failures.",
        "Make sure that the operator can reach the URL through the proxy",
    ),
    define_condition(
        "PayloadInvalid",
        "after",
        "The payload has an invalid field, or a file with another hash.",
        "Correct the payload; the message names the field or URL",
    ),
    define_condition(
        "PayloadMissing",
        "after",
        "The operator has no payload for nodes.",
        "Configure a payload with `transom manifests --payload-image IMAGE` or `--payload-kubeadm VERSION`",
    ),
    define_condition(
        "Pending", "itself", "The settings have changed. Some hosts wait for their turn, or Transom is testing endpoints."
    ),
    define_condition(
        "PendingBoot",
        "after",
        "Services see the new settings after the next reboot of the host.",
        "Reboot the host when convenient; drain it first if it is a node",
    ),
    define_condition(
        "PendingRestart",
        "after",
        "Transom has written the settings, but running services do not use them yet.",
        "Restart the services with `transom restart NAME -n NAMESPACE`",
    ),
    define_condition(
        "Preparation", "itself", "Windows requires a reboot to complete its preparation. Transom reboots the host once."
    ),
    define_condition_and_event(
        "Preparing", "itself", "Transom is preparing the Containers feature, the host name and the firewall."
    ),
    define_condition(
        "ProfileNotLoaded",
        "after",
        "`spec.windows.powerShell`: Transom wrote the proxy to the profile of Windows PowerShell, but the execution policy of"
        " the host, from group policy or `Set-ExecutionPolicy`, does not load unsigned profiles.",
        "Set the policy to `RemoteSigned`, or set `spec.windows.powerShell` to `false`",
    ),
    define_condition(
        "ProxyAuthentication",
        "after",
        "The proxy refuses the credentials of the host (407).",
        "Correct the user name and password in the Secret of `spec.credentialsSecret`",
    ),
    define_condition(
        "ProxyNotResolved", "after", "The host cannot resolve the proxy's name.", "Correct the proxy's name, or the host's DNS"
    ),
    define_condition(
        "ProxyRefused",
        "after",
        "The proxy refuses the connection to the endpoint.",
        "Allow this host and this URL in the proxy's access list, or set another endpoint",
    ),
    define_condition(
        "ProxyUnreachable",
        "after",
        "The host cannot connect to the proxy.",
        "Allow connections from the host to the proxy, or correct the port in its URL",
    ),
    define_event("PutRight", "itself", "Transom corrected settings or services that were changed on the host."),
    define_condition_and_event("Reading", "itself", "Transom is reading the state of the host."),
    define_condition("Ready", "fine", "The current settings are in effect."),
    define_event("Rebooting", "itself", "Transom reboots the host once to complete its preparation."),
    define_condition(
        "RebootRequired", "itself", "Windows requires a reboot. Transom drains a host with a Node first, then reboots it."
    ),
    define_condition("Registering", "itself", "Transom started the kubelet, and its Node has not registered yet."),
    define_condition_and_event(
        "RemovalIncomplete",
        "after",
        "The instance was deleted, but Transom could not remove everything from its host.",
        "On the host, delete what the message names",
    ),
    define_event(
        "RemovalWaits",
        "after",
        "Many instances disappeared from their sources at once. Transom does not remove them yet.",
        "Restore the sources, or confirm the removal with the annotation in the message",
    ),
    define_event(
        "Removed", "fine", "Transom removed the settings from the host, or deleted the instance, as the message shows."
    ),
    define_condition_and_event("Removing", "itself", "The object is being deleted, and Transom is removing what it created."),
    define_condition_and_event("Sending", "itself", "Transom is sending files to the host."),
    define_condition(
        "SettingsInvalid",
        "after",
        "No valid settings exist for this host yet.",
        "Run `transom validate` to find the field",
    ),
    define_condition(
        "TLSFailed",
        "after",
        "The TLS connection to the endpoint fails, or its certificate is not trusted.",
        "Add the CA that signs for the endpoint, or the proxy's CA, to the ConfigMap of `spec.trustedCA`",
    ),
    define_condition(
        "TimedOut",
        "after",
        "The endpoint did not answer the host in time.",
        "Check the proxy and the network between host and proxy",
    ),
    define_condition("TransomApproved", "fine", "The reason in a CertificateSigningRequest that Transom approved."),
    define_event("Uncordoned", "fine", "The Node accepts pods again."),
    define_event(
        "UnsupportedVersion",
        "after",
        "Windows, OpenSSH or containerd on the host has an unsupported version or a known defect.",
        "Follow the message",
    ),
    define_condition("KubeletReady", "fine", "The kubelet reports a reason that is not valid in a condition."),
    define_condition("UpToDate", "fine", "The state matches the settings."),
    define_condition("UpgradePending", "itself", "The host has another version than the payload, and waits for its turn."),
    define_condition(
        "VersionSkew",
        "after",
        "The payload's kubelet is newer than the API server, or more than three minor versions older.",
        "Use a payload with a supported version",
    ),
    define_condition(
        "Waiting", "itself", "A service waits for a requirement, such as an annotation of the Node. The message names it."
    ),
    define_condition(
        "WaitingForNode", "itself", "The payload is installed. Transom uncordons the Node when its kubelet reports."
    ),
    define_condition("Working", "itself", "Transom is working on the host."),
)
