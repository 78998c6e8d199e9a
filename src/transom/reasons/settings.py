"""What is said of an EgressProxy: its settings, their way to hosts, pods and workload clusters."""

from typing import Final

from transom.reasons.reason import Reason, both, condition, event

_FIELD: Final = "Correct the field that the message begins with; `transom validate` names all of them"
_RESUME: Final = 'then `kubectl annotate egressproxy cluster --overwrite transom.dev/resume="$(date)"`'

SETTINGS: Final[tuple[Reason, ...]] = (
    event("Changed", "fine", "Other settings hold from now on; the message says what changed, without values of credentials."),
    condition(
        "CommitNeeded",
        "after",
        "Machines are older than their settings, and what makes them is kept in files: nothing is edited in the cluster.",
        "Commit what the message, or `transom render -f DIR --machine-templates entries`, prints",
    ),
    both(
        "Conflict",
        "after",
        "An object, a template or a file is somebody else's, and left alone.",
        'Take it away, or hand it over with annotation `transom.dev/adopt: "true"`',
    ),
    condition("Covered", "fine", "NO_PROXY of each workload cluster covers the addresses of its Machines."),
    condition(
        "EgressFails",
        "after",
        "The first host of a rollout has no egress with the new settings: nothing else is begun.",
        f"Look at `EgressWorks` of that host, correct proxy or CA; {_RESUME}",
    ),
    both(
        "EndpointFailed",
        "after",
        "A readiness endpoint does not answer through the proxy. A change that is held back waits, and is tried every 30 s.",
        "Correct the proxy or the endpoint, or set `readinessPolicy: Report`",
    ),
    both("EndpointsAnswer", "fine", "Every readiness endpoint answers through the proxy."),
    condition(
        "Failed",
        "itself",
        "Objects of a workload cluster could not be written; tried again.",
        "The message says which, and why",
    ),
    condition(
        "HostsFailed",
        "after",
        "Hosts do not have the settings; the message names them.",
        "Look at them: `transom status host HOST`",
    ),
    event("HostsLeft", "fine", "The EgressProxy went, and hosts keep what they have; the message says why."),
    condition("InProgress", "itself", "Workload clusters wait to be written."),
    condition("Injected", "fine", "New pods get the settings from the admission server, which answers."),
    condition(
        "Invalid",
        "after",
        "The object or its CAs are not valid: what was valid before holds.",
        _FIELD,
    ),
    event(
        "InvalidSettings",
        "after",
        "The settings are not valid: what was valid before holds.",
        _FIELD,
    ),
    condition(
        "KeepsLast",
        "after",
        "Workload clusters keep what they have, since their settings are invalid.",
        "Correct the layer that the message names",
    ),
    condition("NoClusters", "fine", "There is no workload cluster that this holds for."),
    condition(
        "NoClusterSelector",
        "after",
        "The proxy has credentials, and nobody said which workload clusters get them.",
        "Set `spec.clusterSelector`; `{}` is all",
    ),
    condition("NoConflict", "fine", "No object of Transom's is somebody else's."),
    condition(
        "NoNamespaceSelector",
        "after",
        "The proxy has credentials, and nobody said which namespaces may have them: pods get no proxy.",
        "Set `spec.pods.namespaceSelector`",
    ),
    condition(
        "NotCalled",
        "after",
        "The admission server does not answer as it has to: pods start without the settings.",
        "Look at `deployment/transom-webhook`, its Service and the network between it and the API server",
    ),
    condition("NotConfigured", "fine", "There are no settings of this kind, and none of Transom's are left."),
    condition(
        "NotCovered",
        "after",
        "NO_PROXY of workload clusters does not cover the addresses of their Machines.",
        "Name the network in `noProxy`, or in `networks.machineNetwork`, of a layer",
    ),
    condition("NoRollout", "fine", "`Upgradeable` of OLM's OperatorCondition: no host is being changed."),
    condition("NotHalted", "fine", "No rollout is stopped."),
    condition(
        "NotHealthy",
        "after",
        "The machines of a workload cluster do not come back: no other cluster is begun.",
        f"Look at those Machines; {_RESUME}",
    ),
    condition("NotLooked", "itself", "The registration of the admission server was not looked at yet."),
    condition(
        "NotReady",
        "after",
        "It is in the workload clusters, and the Transom there says that it is not well.",
        "As its own word says",
    ),
    condition(
        "NotRegistered",
        "after",
        "There is no registration of the admission server, or it is somebody else's: no pod gets anything.",
        "Run `transom webhook`; remove what is somebody else's",
    ),
    condition("NotSuperseded", "fine", "This object is the base."),
    condition("NotWithheld", "fine", "There is no cluster that credentials of this object are withheld from."),
    event(
        "ObjectMalformed",
        "after",
        "An object does not fit, or is nested too deep; its last version that did is kept.",
        "Correct the object that the message names",
    ),
    both(
        "OpenShiftProxy",
        "fine",
        "`Proxy/cluster` of OpenShift is the base; `EgressProxy/cluster` adds to it.",
        "Edit `Proxy/cluster`",
    ),
    condition(
        "Outdated",
        "after",
        "Machines are older than their settings; or the registration of the admission server is older than these.",
        """Replace the machines, or: `kubectl patch egressproxy NAME --type=merge -p '{"spec":{"rollout":"Automatic"}}'`."""
        " An admission server: run it in this version",
    ),
    condition(
        "PodsWithheld",
        "after",
        "The proxy has credentials, and nobody said which namespaces of workload clusters may have them.",
        "Set `spec.propagated.pods.namespaceSelector`",
    ),
    condition("Propagated", "fine", "It is in every workload cluster that asks for it."),
    condition("Refused", "itself", "The API server took no edit of what makes machines; tried again.", "As the message says"),
    condition("RollingOut", "itself", "Machines are being replaced, one cluster at a time."),
    both(
        "RolloutHalted",
        "after",
        "A rollout is stopped: hosts that it left out keep what they have.",
        f"Mend the hosts that the message names; {_RESUME}",
    ),
    condition(
        "RolloutUnderWay",
        "itself",
        "`Upgradeable` of OLM's OperatorCondition: hosts are being changed, and no other version of Transom may come now.",
    ),
    event(
        "SecretMissing",
        "itself",
        "A pod needs the Secret with the proxy's URLs, which is not in its namespace yet: it waits for it.",
        "Look at the condition `PodsInjected` where it lasts",
    ),
    condition(
        "SelectsNothing", "after", "`spec.clusterSelector` selects no Cluster.", "Correct the selector, or label a Cluster"
    ),
    condition(
        "Taken",
        "after",
        "Somebody else writes, or owns, an object of Transom's: it is left alone.",
        "Take the other writer away, or the label that asked for it",
    ),
    condition("TwoFailures", "after", "Two hosts failed with this change: nothing else is begun.", f"Look at them; {_RESUME}"),
    both("Valid", "fine", "It is valid."),
)
