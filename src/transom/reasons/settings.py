"""The reasons of an EgressProxy: its settings, and their rollout to hosts, pods and workload clusters."""

from typing import Final

from transom.reasons.reason import Reason, define_condition, define_condition_and_event, define_event

_FIELD: Final = "Correct the field at the beginning of the message; `transom validate` lists all errors"
_RESUME: Final = "then `transom resume --rollout`"

SETTINGS: Final[tuple[Reason, ...]] = (
    define_event("Changed", "fine", "New settings are in effect. The message lists the changes, without credentials."),
    define_condition(
        "CommitNeeded",
        "after",
        "Machines are older than their settings. Transom does not edit their templates in the cluster, because files manage"
        " them.",
        "Commit the files in the message, or from `transom render -f DIR --machine-templates entries`",
    ),
    define_condition_and_event(
        "Conflict",
        "after",
        "Another owner manages an object, a template or a file. Transom does not change it.",
        "Delete it, or adopt it with `transom adopt secret/OBJECT -n ITS_NAMESPACE --yes --context CONTEXT`",
    ),
    define_condition("Supported", "fine", "Transom has entries for the machines of each workload cluster."),
    define_condition("Covered", "fine", "NO_PROXY of each workload cluster covers the addresses of its Machines."),
    define_condition(
        "EgressFails",
        "after",
        "The first host of a rollout has no egress with the new settings. Transom changes no other host.",
        f"Check `EgressWorks` of that host, correct the proxy or the CA, {_RESUME}",
    ),
    define_condition_and_event(
        "EndpointFailed",
        "after",
        "A readiness endpoint does not answer through the proxy. Transom retries every 30 s. With `readinessPolicy: Gate`, the"
        " default, it holds the change back, as the message shows.",
        "Correct the proxy or the endpoint",
    ),
    define_condition_and_event("EndpointsAnswer", "fine", "Every readiness endpoint answers through the proxy."),
    define_condition(
        "Failed",
        "itself",
        "Transom could not write objects of a workload cluster, and retries.",
        "Check the message, which names the objects and the cause",
    ),
    define_condition(
        "HostsFailed",
        "after",
        "Some hosts do not have the settings. The message names them.",
        "Check these hosts with `transom status host HOST`",
    ),
    define_event(
        "HostsLeft", "fine", "The EgressProxy was deleted, and hosts keep their settings. The message gives the reason."
    ),
    define_condition("InProgress", "itself", "Transom is writing objects of workload clusters."),
    define_condition("Injected", "fine", "The admission server answers and adds the settings to new pods."),
    define_condition(
        "Invalid",
        "after",
        "The object or its CAs are invalid. The last valid settings stay in effect.",
        _FIELD,
    ),
    define_event(
        "ClusterRestored",
        "itself",
        "The API server's objects are older than those that Transom has read, because etcd was restored or the Lease was"
        " deleted. Transom reads all objects again and checks every host.",
        "To list hosts that differ from the restored settings, run `transom diff --context NAME`",
    ),
    define_event(
        "InvalidSettings",
        "after",
        "The settings are invalid. The last valid settings stay in effect.",
        _FIELD,
    ),
    define_condition(
        "KeepsLast",
        "after",
        "Workload clusters keep their settings, because their new settings are invalid.",
        "Correct the EgressProxy that the message names",
    ),
    define_condition("NoClusters", "fine", "No workload cluster uses these settings."),
    define_condition(
        "NoClusterSelector",
        "after",
        "The proxy has credentials, but no selector permits them in workload clusters.",
        "Set `spec.clusterSelector`; `{}` selects all clusters",
    ),
    define_condition("NoConflict", "fine", "No other owner manages objects that Transom writes."),
    define_condition(
        "NoNamespaceSelector",
        "after",
        "The proxy has credentials, but no selector permits them in namespaces. Pods get no proxy.",
        "Set `spec.pods.namespaceSelector`",
    ),
    define_condition(
        "NotCalled",
        "after",
        "The admission server does not answer as expected. Due to `failurePolicy: Ignore`, pods start without the settings.",
        "Check `deployment/transom-webhook`, its Service, and the network between it and the API server",
    ),
    define_condition("NotConfigured", "fine", "No such settings are configured, and Transom has removed its own."),
    define_condition(
        "NotCovered",
        "after",
        "NO_PROXY of workload clusters does not cover the addresses of their Machines.",
        "Add the network to `noProxy`, or to `networks.machineNetwork`, of an EgressProxy for these clusters",
    ),
    define_condition(
        "KindNotSupported",
        "after",
        "Transom has no entries for the control plane or bootstrap configuration of machines in workload clusters.",
        "Configure the proxy and the CAs of these machines manually, or exclude the clusters with `spec.clusterSelector`",
    ),
    define_condition("NoRollout", "fine", "OLM may upgrade Transom (`Upgradeable`), because it is not changing hosts."),
    define_condition("NotHalted", "fine", "No rollout is halted."),
    define_condition(
        "NotHealthy",
        "after",
        "The machines of a workload cluster do not become healthy. Transom does not continue with other clusters.",
        f"Check these Machines, {_RESUME}",
    ),
    define_condition("NotLooked", "itself", "Transom has not checked the webhook configuration of the admission server yet."),
    define_condition(
        "NotReady",
        "after",
        "The settings are in the workload clusters, but Transom in one of them reports that they are not ready.",
        "Follow the quoted message of that cluster",
    ),
    define_condition(
        "NotRegistered",
        "after",
        "The webhook configuration of the admission server does not exist or has another owner. Pods do not get the settings.",
        "Run `transom webhook`, and delete the webhook configuration of another owner",
    ),
    define_condition("NotSuperseded", "fine", "This object contains the default settings."),
    define_condition("NotWithheld", "fine", "Transom does not withhold the credentials of this object from any cluster."),
    define_event(
        "ObjectMalformed",
        "after",
        "An object does not match its schema, or is nested too deeply. Transom keeps its last valid version.",
        "Correct the object that the message names",
    ),
    define_condition_and_event(
        "OpenShiftProxy",
        "fine",
        "OpenShift's `Proxy/cluster` takes precedence, and `EgressProxy/cluster` adds other settings.",
        "To change the proxy, edit `Proxy/cluster`",
    ),
    define_condition(
        "OldSettings",
        "after",
        "The admission server answers, but not with the current settings, so new pods get older ones: it cannot read an"
        " object, or is of another version.",
        "Run `transom doctor` (`rights-missing`) and read the log: `kubectl logs deployment/transom-webhook -n NAMESPACE`. Then"
        " recreate pods that started meanwhile",
    ),
    define_condition(
        "Outdated",
        "after",
        "Machines are older than their settings, or the webhook configuration of the admission server does not match"
        " the current settings.",
        "Replace the machines, or let Transom replace them with"
        """ `kubectl patch egressproxy NAME --type=merge -p '{"spec":{"rollout":"Automatic"}}'`."""
        " For a webhook configuration, run this version of the admission server",
    ),
    define_event("PodsAdmitted", "fine", "The API server admits new pods again."),
    define_condition_and_event(
        "PodsRefused",
        "after",
        "The admission server does not answer. Due to `failurePolicy: Fail`, the API server refuses every new pod that the"
        " webhook configuration selects.",
        "To admit pods without the settings, run `kubectl delete mutatingwebhookconfiguration transom` or, for one namespace,"
        " `kubectl label namespace YOUR_NAMESPACE transom.dev/inject=disabled`. Then repair `deployment/transom-webhook`, which"
        " registers itself again",
    ),
    define_condition(
        "PodsWithheld",
        "after",
        "The proxy has credentials, but no selector permits them in namespaces of workload clusters.",
        "Set `spec.propagated.pods.namespaceSelector`",
    ),
    define_condition("Propagated", "fine", "Every workload cluster that requests the settings has them."),
    define_condition(
        "Refused",
        "itself",
        "The API server refused to change a machine template. Transom retries.",
        "Check the message for the API server's reason",
    ),
    define_condition("RollingOut", "itself", "Transom replaces machines, one cluster at a time."),
    define_condition_and_event(
        "RolloutHalted",
        "after",
        "A rollout is halted. The remaining hosts keep their settings.",
        f"Fix the hosts that the message names, {_RESUME}",
    ),
    define_condition(
        "RolloutUnderWay",
        "itself",
        "OLM must not upgrade Transom now (`Upgradeable`), because it is changing hosts.",
    ),
    define_condition_and_event(
        "RightMissing",
        "after",
        "For 30 s, the API server has refused requests of the operator with 403, because RBAC forbids them. The message names"
        " the verb, kind and namespace.",
        "Apply the roles again with `transom manifests -n NAMESPACE --part rbac | kubectl apply -f -` and the options of the"
        " install",
    ),
    define_condition("RightsComplete", "fine", "The operator has all required rights."),
    define_condition_and_event(
        "WriteRefused",
        "after",
        "For 30 s, the API server has refused a kind of write although the operator has the right, for example due to a quota,"
        " an admission webhook or policy, a namespace that is being deleted, or a full etcd. Objects of this kind are not"
        " updated. The message contains the API server's reason.",
        "Raise the quota, repair the webhook or delete its configuration, or free space in etcd. Transom retries",
    ),
    define_condition_and_event(
        "ReadFailed",
        "after",
        "For 30 s, the API server has answered with an error when the operator lists or watches a kind, although its"
        " ServiceAccount has the right. Transom uses the last objects that it read, so edits of this kind have no effect. The"
        " message contains the API server's reason.",
        "Repair what the message names, such as the API server's encryption provider (KMS). Transom retries",
    ),
    define_condition("ReadsSucceed", "fine", "The operator reads all kinds."),
    define_condition("WritesAccepted", "fine", "The API server accepts all writes of the operator."),
    define_event(
        "SecretMissing",
        "itself",
        "A pod waits for the Secret with the proxy's URLs, which is not in its namespace yet.",
        "If this persists, check the condition `PodsInjected`",
    ),
    define_condition(
        "SelectsNothing", "after", "`spec.clusterSelector` selects no Cluster.", "Correct the selector, or label a Cluster"
    ),
    define_condition(
        "Taken",
        "after",
        "Another writer changes or owns an object. Transom does not change it.",
        "Remove the other writer, or the label that requests the object",
    ),
    define_condition(
        "TwoFailures",
        "after",
        "Two hosts failed with this change. Transom changes no other host.",
        f"Check these hosts, {_RESUME}",
    ),
    define_condition_and_event("Valid", "fine", "The object is valid."),
)
