"""The reasons of an EgressProxy: its settings, and their rollout to hosts, pods and workload clusters."""

from typing import Final

from transom.reasons.reason import Reason, define_both, define_condition, define_event

_FIELD: Final = "Correct the field that the message begins with; `transom validate` lists all errors"
_RESUME: Final = "then `transom resume --rollout`"

SETTINGS: Final[tuple[Reason, ...]] = (
    define_event(
        "Changed", "fine", "New settings apply from now on. The message lists the changes, without values of credentials."
    ),
    define_condition(
        "CommitNeeded",
        "after",
        "Machines are older than their settings, and their templates are managed in files. Transom does not edit them"
        " in the cluster.",
        "Commit the files that the message, or `transom render -f DIR --machine-templates entries`, prints",
    ),
    define_both(
        "Conflict",
        "after",
        "An object, a template or a file belongs to another owner. Transom does not change it.",
        "Delete it, or let Transom adopt it: `transom adopt secret/OBJECT -n ITS_NAMESPACE --yes --context CONTEXT`",
    ),
    define_condition("Supported", "fine", "Transom has entries for the machines of each workload cluster."),
    define_condition("Covered", "fine", "NO_PROXY of each workload cluster covers the addresses of its Machines."),
    define_condition(
        "EgressFails",
        "after",
        "The first host of a rollout has no egress with the new settings. Transom changes no further host.",
        f"Check `EgressWorks` of that host, correct the proxy or the CA, {_RESUME}",
    ),
    define_both(
        "EndpointFailed",
        "after",
        "A readiness endpoint does not answer through the proxy. Transom tests the endpoint every 30 s. With `readinessPolicy:"
        " Gate`, the default, it holds the change back; the message reports this.",
        "Correct the proxy or the endpoint",
    ),
    define_both("EndpointsAnswer", "fine", "Every readiness endpoint answers through the proxy."),
    define_condition(
        "Failed",
        "itself",
        "Transom could not write objects of a workload cluster, and retries.",
        "Read the message: it names the objects and the cause",
    ),
    define_condition(
        "HostsFailed",
        "after",
        "Some hosts do not have the settings. The message names them.",
        "Check these hosts: `transom status host HOST`",
    ),
    define_event(
        "HostsLeft", "fine", "The EgressProxy was deleted, and hosts keep their settings. The message gives the reason."
    ),
    define_condition("InProgress", "itself", "Transom still has to write objects of some workload clusters."),
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
        "The API server's objects are older than those that Transom has read: a user restored etcd. Transom reads all objects"
        " again and checks every host.",
        "Run `transom diff --context NAME`: it lists the hosts that differ from the restored settings",
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
        "The proxy has credentials, but no field selects the workload clusters that get them.",
        "Set `spec.clusterSelector`; `{}` selects all clusters",
    ),
    define_condition("NoConflict", "fine", "No object that Transom writes belongs to another owner."),
    define_condition(
        "NoNamespaceSelector",
        "after",
        "The proxy has credentials, but no field selects the namespaces that may have them. Pods get no proxy.",
        "Set `spec.pods.namespaceSelector`",
    ),
    define_condition(
        "NotCalled",
        "after",
        "The admission server does not answer as expected. Pods start without the settings, because the webhook configuration"
        " has `failurePolicy: Ignore`.",
        "Check `deployment/transom-webhook`, its Service, and the network between it and the API server",
    ),
    define_condition("NotConfigured", "fine", "Settings of this kind are not configured, and Transom has removed its own."),
    define_condition(
        "NotCovered",
        "after",
        "NO_PROXY of workload clusters does not cover the addresses of their Machines.",
        "Add the network to `noProxy`, or to `networks.machineNetwork`, of an EgressProxy for these clusters",
    ),
    define_condition(
        "KindNotSupported",
        "after",
        "Machines of workload clusters have a control plane or a bootstrap configuration for which Transom has no entries.",
        "Configure the proxy and the CAs of these machines by hand, or exclude the clusters with `spec.clusterSelector`",
    ),
    define_condition("NoRollout", "fine", "`Upgradeable` of OLM's OperatorCondition: Transom is changing no host."),
    define_condition("NotHalted", "fine", "No rollout is halted."),
    define_condition(
        "NotHealthy",
        "after",
        "The machines of a workload cluster do not become healthy. Transom starts no other cluster.",
        f"Check these Machines, {_RESUME}",
    ),
    define_condition("NotLooked", "itself", "Transom has not checked the webhook configuration of the admission server yet."),
    define_condition(
        "NotReady",
        "after",
        "The settings are in the workload clusters, and the Transom in one of them reports that they are not ready.",
        "Follow the message of that cluster, which the condition quotes",
    ),
    define_condition(
        "NotRegistered",
        "after",
        "The webhook configuration of the admission server does not exist or belongs to another owner. Pods get no settings.",
        "Run `transom webhook`, and delete a webhook configuration of another owner",
    ),
    define_condition("NotSuperseded", "fine", "This object contains the default settings."),
    define_condition("NotWithheld", "fine", "Transom withholds the credentials of this object from no cluster."),
    define_event(
        "ObjectMalformed",
        "after",
        "An object does not match its schema, or is nested too deeply. Transom keeps its last valid version.",
        "Correct the object that the message names",
    ),
    define_both(
        "OpenShiftProxy",
        "fine",
        "OpenShift's `Proxy/cluster` takes precedence, and `EgressProxy/cluster` adds to it.",
        "Edit `Proxy/cluster`",
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
        "Replace the machines, or let Transom do it:"
        """ `kubectl patch egressproxy NAME --type=merge -p '{"spec":{"rollout":"Automatic"}}'`."""
        " For a webhook configuration: run this version of the admission server",
    ),
    define_event("PodsAdmitted", "fine", "The API server admits new pods again."),
    define_both(
        "PodsRefused",
        "after",
        "The admission server does not answer, and its webhook configuration has `failurePolicy: Fail`: the API server refuses"
        " every new pod that it selects.",
        "Admit pods without the settings: `kubectl delete mutatingwebhookconfiguration transom`, or, for one namespace,"
        " `kubectl label namespace YOUR_NAMESPACE transom.dev/inject=disabled`. Then repair `deployment/transom-webhook`, which"
        " registers itself again",
    ),
    define_condition(
        "PodsWithheld",
        "after",
        "The proxy has credentials, but no field selects the namespaces of workload clusters that may have them.",
        "Set `spec.propagated.pods.namespaceSelector`",
    ),
    define_condition("Propagated", "fine", "The settings are in every workload cluster that requests them."),
    define_condition(
        "Refused",
        "itself",
        "The API server refused to change a machine template. Transom retries.",
        "Read the message: it gives the API server's reason",
    ),
    define_condition("RollingOut", "itself", "Transom replaces machines, one cluster at a time."),
    define_both(
        "RolloutHalted",
        "after",
        "A rollout is halted. Hosts that it has not reached keep their settings.",
        f"Fix the hosts that the message names, {_RESUME}",
    ),
    define_condition(
        "RolloutUnderWay",
        "itself",
        "`Upgradeable` of OLM's OperatorCondition: Transom is changing hosts, so OLM must not upgrade it now.",
    ),
    define_both(
        "RightMissing",
        "after",
        "For 30 s, the API server has refused requests of the operator with 403, because RBAC forbids them. The message names"
        " the verb, the kind and the namespace.",
        "Apply the roles again: `transom manifests -n NAMESPACE --part rbac | kubectl apply -f -`, with the options of the"
        " install",
    ),
    define_condition("RightsComplete", "fine", "The API server refuses no request of the operator any more."),
    define_both(
        "WriteRefused",
        "after",
        "For 30 s, the API server has refused a kind of write of the operator, although its ServiceAccount has the right: a"
        " quota, an admission webhook or policy, a namespace that is being deleted, or a full etcd. Objects of this kind keep"
        " the state that they had. The message has the API server's reason.",
        "Remove what the message names: raise the quota, repair the webhook or delete its configuration, or free space in etcd."
        " Transom retries",
    ),
    define_both(
        "ReadFailed",
        "after",
        "For 30 s, the API server has answered with an error when the operator lists or watches a kind, although its"
        " ServiceAccount has the right. Transom works with the objects of before, so edits of this kind have no effect. The"
        " message has the API server's reason.",
        "Repair what the message names, such as the API server's encryption provider (KMS). Transom retries",
    ),
    define_condition("ReadsSucceed", "fine", "The operator reads all kinds."),
    define_condition("WritesAccepted", "fine", "The API server refuses no write of the operator any more."),
    define_event(
        "SecretMissing",
        "itself",
        "A pod requires the Secret with the proxy's URLs, which is not in its namespace yet. The pod waits for it.",
        "If this lasts, check the condition `PodsInjected`",
    ),
    define_condition(
        "SelectsNothing", "after", "`spec.clusterSelector` selects no Cluster.", "Correct the selector, or label a Cluster"
    ),
    define_condition(
        "Taken",
        "after",
        "Another writer changes, or owns, an object that Transom writes. Transom does not change it.",
        "Remove the other writer, or the label that requests the object",
    ),
    define_condition(
        "TwoFailures",
        "after",
        "Two hosts failed with this change. Transom changes no further host.",
        f"Check these hosts, {_RESUME}",
    ),
    define_both("Valid", "fine", "The object is valid."),
)
