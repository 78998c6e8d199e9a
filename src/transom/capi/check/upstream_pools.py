"""What Transom relies on of CAPA and CAPZ where machines come from their pools; part of the table of `upstream`."""

from transom.capi.check.upstream import CAPA, CAPZ, Fact, create_fact

_LAUNCH_TEMPLATE = "pkg/cloud/services/ec2/launchtemplate.go"

POOL_USER_DATA = create_fact(
    CAPA,
    _LAUNCH_TEMPLATE,
    "CAPA puts the bootstrap data into a pool's launch template unchanged, not gzipped",
    "userDataForLaunchTemplate",
    "userDataForLaunchTemplate = bootstrapData",
    "base64.StdEncoding.EncodeToString(userDataForLaunchTemplate)",
)
POOL_KEY_PAIR = create_fact(
    CAPA,
    _LAUNCH_TEMPLATE,
    "a pool's machines have no key pair by default, nor with an empty string",
    "sshKeyName",
    'if lt.SSHKeyName != nil && *lt.SSHKeyName != "" {',
)
POOL_REFRESH = create_fact(
    CAPA,
    _LAUNCH_TEMPLATE,
    "CAPA replaces a pool's machines where the Secret of their bootstrap data has another name",
    "userDataSecretKeyChanged",
    "if needsUpdate || tagsChanged || amiChanged || userDataSecretKeyChanged {",
)
POOL_SIZES = create_fact(
    CAPA,
    "templates/cluster-template-machinepool.yaml",
    "minSize and maxSize of a pool in CAPA's own template",
    "1, 10",
    "  minSize: 1\n  maxSize: 10\n",
)
POOL_REPLICAS = create_fact(
    CAPA,
    "pkg/cloud/services/autoscaling/autoscalinggroup.go",
    "CAPA creates no pool whose replicas are outside these limits",
    "incorrect number of replicas",
    "if mpReplicas >= machinePoolScope.AWSMachinePool.Spec.MinSize && mpReplicas <= ",
    "incorrect number of replicas %d in MachinePool %v",
)
AZURE_POOL_NAME = create_fact(
    CAPZ,
    "azure/scope/machinepool.go",
    "CAPZ renames a Windows pool with a longer name to `win-` and its last five characters",
    "9",
    "azure.WindowsOS && len(m.AzureMachinePool.Name) > 9",
    'return "win-" + m.AzureMachinePool.Name[len(m.AzureMachinePool.Name)-5:]',
)
AZURE_POOL_COMPUTERS = create_fact(
    CAPZ,
    "azure/services/scalesets/spec.go",
    "its computers' names begin with that of the scale set",
    "ComputerNamePrefix",
    "ComputerNamePrefix: ptr.To(s.Name)",
)
AZURE_POOL_STALE = create_fact(
    CAPZ,
    "azure/services/scalesets/spec.go",
    "another bootstrap configuration alone replaces no machine of a pool on Azure",
    "customData",
    "Bootstrap data is allowed to get stale here",
)
AZURE_POOL_JSON = create_fact(
    CAPZ,
    "templates/flavors/machinepool-windows/machine-pool-deployment-windows.yaml",
    "CAPZ's Secret for a pool, by the pool's name",
    "-azure-json",
    "name: ${CLUSTER_NAME}-mp-win-azure-json",
    "key: worker-node-azure.json",
)

FACTS: tuple[Fact, ...] = tuple(value for value in list(globals().values()) if isinstance(value, Fact))
"""All of them, in the order above."""
