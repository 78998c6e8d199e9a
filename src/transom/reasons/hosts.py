"""What is said of a WindowsInstance, its host and its Node."""

from typing import Final

from transom.reasons.reason import Reason, both, condition, event

_EDIT: Final = "Correct what the message names"

HOSTS: Final[tuple[Reason, ...]] = (
    condition(
        "Adopted", "fine", "Another operator made this host a node: its services and files stay, proxy and trust are set."
    ),
    condition(
        "ApiServerNotTrusted",
        "after",
        "The API server's certificate does not fit the CAs that are published for those that join. No host is changed by it.",
        "Correct the ConfigMap that the message names",
    ),
    both(
        "Applied",
        "fine",
        "It is on the host, or in every workload cluster, as the settings ask for; the event says what changed.",
    ),
    event("CertificateApproved", "fine", "A certificate of a joining or renewing node was approved."),
    event(
        "CertificateRefused",
        "after",
        "A request for a certificate speaks of a host of Transom's, and does not fit it: it was left to others.",
        "Compare the request with the instance; the message says what differs",
    ),
    both("Changing", "itself", "Files are put in place, services made and started in the order of what depends on what."),
    condition("Connected", "fine", "The last pass read the host."),
    both("Connecting", "itself", "The host is connected to."),
    event("Cordoned", "itself", "The Node takes no new pods: something is to be done that interrupts them."),
    event("Deleted", "itself", "The instance goes, for what asked for it has gone."),
    condition(
        "Distrusted",
        "after",
        "The host's `Disallowed` store has a certificate of the bundle: Windows does not trust it.",
        "Take it out of that store, or out of the bundle",
    ),
    both(
        "DrainBlocked",
        "after",
        "Pods did not go in time; the message names them and what holds them. Nothing was changed on the host.",
        "Let them go: a PodDisruptionBudget, a finalizer, or a pod without owner stands in the way",
    ),
    event("Drained", "itself", "The Node has no pods left that can go."),
    condition("Draining", "itself", "The pods of the Node are moved, as their budgets allow."),
    condition(
        "EndpointRefused",
        "after",
        "The host reached a readiness endpoint through the proxy, and its answer was an error.",
        "Look at the endpoint, or name another in `spec.readinessEndpoints`",
    ),
    condition(
        "FetchFailed", "after", "curl.exe on the host failed otherwise; the message has its code.", "Look at curl's exit codes"
    ),
    condition("Fetched", "fine", "The host fetched a readiness endpoint with the settings that it has."),
    event("HostLeft", "fine", "The instance went, and its host is left as it is; the message says why."),
    event(
        "InvalidEntry",
        "after",
        "An entry of ConfigMap `windows-instances`, or a Machine, cannot be an instance; the others hold.",
        _EDIT,
    ),
    condition(
        "InvalidSpec",
        "after",
        "The WindowsInstance does not hold together; the message begins with the field.",
        f"{_EDIT}; `transom validate` names all of it",
    ),
    both(
        "KeyInvalid",
        "after",
        "The Secret with the SSH key has none that can be read.",
        "Put an OpenSSH private key without passphrase into it; `ssh-keygen -p` takes one off",
    ),
    both(
        "KeyMissing",
        "after",
        "There is no Secret with the SSH key.",
        "Make the Secret of `spec.keySecret`; `transom doctor` says where it is looked for",
    ),
    event("KeyMoved", "fine", "The host is opened by another key than before."),
    both(
        "KeyNotKept",
        "itself",
        "A key could not be kept in the cluster: nothing was changed on the host, and it is tried again.",
    ),
    event(
        "MachineReplaced", "itself", "A Machine was deleted, for its host takes none of the keys; its MachineSet makes another."
    ),
    event("Made", "fine", "An instance was made, as a Machine or ConfigMap `windows-instances` asks for it."),
    event(
        "MirrorNotSet", "after", "A registry mirror of the cluster cannot be expressed for containerd: it is left out.", _EDIT
    ),
    condition(
        "NetworkNotSupported",
        "after",
        "Windows nodes cannot be in this cluster's network as it is; the message says what is missing.",
        "For OVN-Kubernetes set `hybridOverlayConfig`; else use a payload for this network",
    ),
    both(
        "NeverReady",
        "after",
        "The kubelet was started, and its Node does not become Ready.",
        "Look at `kubectl describe node`, and at the kubelet's log on the host",
    ),
    condition(
        "NoNode",
        "fine",
        "No Windows Node is this host's.",
        "Where the host is to be a node: `spec.lifecycle: Node`, or `spec.nodeName`",
    ),
    event(
        "NodeLeft",
        "after",
        "The instance went, and its Node stays, for it was there before Transom made the host a node.",
        "Delete the Node if it is a left-over",
    ),
    event(
        "NodeMarkedForeign",
        "after",
        "The Node's annotation names another instance: it is left as it is.",
        "Take the annotation off the Node where that instance is not there any more",
    ),
    event("NodeRemoved", "fine", "The Node of a host that was given back was deleted."),
    condition("NotChecked", "itself", "The host has not been looked at yet."),
    event(
        "NotMade", "after", "Another instance of that name is in the way.", "Delete or rename the one that the message names"
    ),
    condition("NotProbed", "fine", "Nothing was fetched from the host: no endpoint, none behind the proxy, or no curl.exe."),
    condition("NotRead", "itself", "The host was not read in the last pass."),
    Reason(
        "NotSeen",
        frozenset({"status"}),
        "after",
        "No operator has looked at it.",
        "Ask why not: `transom doctor`",
    ),
    condition("NotReported", "itself", "The kubelet of the Node has not reported."),
    condition("NotRequired", "fine", "Nothing waits for a boot of the host."),
    condition("OtherCluster", "fine", "The host is a node of another cluster, which is not looked into."),
    both(
        "OutsideNamespace",
        "after",
        "The instance is not in the operator's namespace: nobody works on its host.",
        "Move it to the namespace that the message names; `transom doctor` has the command",
    ),
    condition(
        "Paused",
        "fine",
        "`spec.paused` is set: the host is not connected to.",
        """To go on: `kubectl patch windowsinstance NAME -n NAMESPACE --type=merge -p '{"spec":{"paused":false}}'`""",
    ),
    condition(
        "PayloadIncomplete",
        "itself",
        "Files that `payload.yaml` names by URL are being fetched; the message names what fails.",
        "See to it that the operator reaches the URL through the proxy",
    ),
    condition(
        "PayloadInvalid",
        "after",
        "The payload does not hold together: a field, or a file with another hash.",
        "Correct the payload; the message names field or URL",
    ),
    condition(
        "PayloadMissing",
        "after",
        "There is nothing to make a node of: no payload was given.",
        "Give the operator one: `transom manifests --payload-image IMAGE`, or `--payload-kubeadm VERSION`",
    ),
    condition(
        "Pending", "itself", "The settings have changed, and it is not yet the turn of all hosts, or endpoints are being tried."
    ),
    condition(
        "PendingBoot",
        "after",
        "Services see what is set after the next boot of the host.",
        "Boot the host when it suits you; one that is a node, drain it first",
    ),
    condition(
        "PendingRestart",
        "after",
        "The settings are written, and services that run do not have them.",
        "To have them restarted: `kubectl annotate windowsinstance NAME -n NAMESPACE --overwrite"
        ' transom.dev/restart="$(date)"`',
    ),
    condition("Preparation", "itself", "Windows has to boot to complete its preparation; Transom boots it, once."),
    both("Preparing", "itself", "The Containers feature, the host's name and the firewall are being prepared."),
    condition(
        "ProxyAuthentication",
        "after",
        "The proxy asks the host for other credentials (407).",
        "Correct user and password in the Secret of `spec.credentialsSecret`",
    ),
    condition(
        "ProxyNotResolved", "after", "The host cannot resolve the proxy's name.", "Correct the proxy's name, or the host's DNS"
    ),
    condition(
        "ProxyRefused",
        "after",
        "The proxy refuses the connection to the endpoint.",
        "Allow this host and this URL in the proxy's access list, or name another endpoint",
    ),
    condition(
        "ProxyUnreachable",
        "after",
        "The host cannot connect to the proxy.",
        "Open the way from the host to the proxy, or correct the port in its URL",
    ),
    event("PutRight", "itself", "Something of Transom's was changed or stopped on the host by somebody, and was put right."),
    both("Reading", "itself", "What is on the host is being read."),
    condition("Ready", "fine", "The settings that hold are where they should be."),
    event("Rebooting", "itself", "The host boots once, to complete its preparation."),
    condition("RebootRequired", "itself", "Windows has to boot; a host with a Node is drained first, then Transom boots it."),
    condition("Registering", "itself", "The kubelet was started; its Node has not registered yet."),
    both(
        "RemovalIncomplete",
        "after",
        "The instance went, and not everything of Transom's could be taken off its host.",
        "Clean up on the host what the message names",
    ),
    event(
        "RemovalWaits",
        "after",
        "Many instances vanished from their sources at once: none is removed yet.",
        "Put the sources back; if it was meant, set the annotation that the message names",
    ),
    event("Removed", "fine", "The settings were taken off the host, or the instance has gone; the message says which."),
    both("Removing", "itself", "The object is being deleted, and what it made is taken back."),
    both("Sending", "itself", "Files are being sent to the host."),
    condition(
        "SettingsInvalid",
        "after",
        "There are no valid settings yet for this host.",
        "`transom validate` names the field",
    ),
    condition(
        "TLSFailed",
        "after",
        "TLS fails on the way to the endpoint, or its certificate is not trusted.",
        "Put the CA that signs for the endpoint, or the proxy's, into the ConfigMap of `spec.trustedCA`",
    ),
    condition("TimedOut", "after", "The endpoint did not answer the host in time.", "Look at the proxy and the way to it"),
    condition("TransomApproved", "fine", "Said on a CertificateSigningRequest: Transom approved it."),
    event("Uncordoned", "fine", "The Node takes pods again."),
    event(
        "UnsupportedVersion",
        "after",
        "Windows, OpenSSH or containerd of the host has a version, or a defect, that Transom was not tried with.",
        "As the message says",
    ),
    condition("KubeletReady", "fine", "Stands for what a kubelet says where that is no word for a reason."),
    condition("UpToDate", "fine", "It is as the settings ask for."),
    condition("UpgradePending", "itself", "The payload has another version than the host, and waits for its turn."),
    condition(
        "VersionSkew",
        "after",
        "The payload's kubelet is newer than the API server, or more than three minor versions older.",
        "Give a payload of a version that fits",
    ),
    condition(
        "Waiting", "itself", "A service waits for something, such as an annotation of the Node; the message says for what."
    ),
    condition("WaitingForNode", "itself", "The payload is installed; the Node takes pods again when its kubelet was heard of."),
    condition("Working", "itself", "The host is being worked on."),
)
