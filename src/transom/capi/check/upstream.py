"""What Transom relies on of other projects, each with the repository, the commit and the file as its source.

The generator takes its values from here, the tests hold what was generated against them, `docs/windows-workers.md` shows
them, and `scripts/upstream` looks each one up in a clone of its repository.
"""

import msgspec

from transom.common import installers


class Fact(msgspec.Struct, frozen=True):
    """A fact: `says` are texts in `file` of `repository` at `version` (a commit or a tag)."""

    name: str
    value: str
    repository: str
    version: str
    file: str
    says: tuple[str, ...]


IMAGE_BUILDER = ("kubernetes-sigs/image-builder", "ae63061efb154adbbd4605958c506aae8fc1d03c")
CLOUDBASE_INIT = ("cloudbase/cloudbase-init", "c48d7596bf5e176c72c01fc70d2006d4b84cb573")
INSTALLER = ("cloudbase/cloudbase-init-installer", "798df5ec1a0bf96ff66cfe8fb315c440325a689c")
CAPA = ("kubernetes-sigs/cluster-api-provider-aws", "2cf09d78547d32975570a4b9ba5496bdfe26abeb")
CAPZ = ("kubernetes-sigs/cluster-api-provider-azure", "69ec3a40a818ccbc32b8ce88c84609404d8cb7a2")
CAPV = ("kubernetes-sigs/cluster-api-provider-vsphere", "111a1ba9bc520513125324c90aa3a8b80321fc13")
SIG_WINDOWS_TOOLS = ("kubernetes-sigs/sig-windows-tools", "401ee6fcd8369cd8c293bd361275fdbe6f24ed07")
FLANNEL = ("flannel-io/flannel", "cdf760595c23292fd03ff4daf03638ac1ceef417")
ROLES = "images/capi/ansible/windows/roles"
PACKER = "images/capi/packer"


def create_fact(source: tuple[str, str], file: str, name: str, value: str, *expected_texts: str) -> Fact:
    """Create a fact; if the value itself is in the file, it is also the expected text."""
    return Fact(name, value, *source, file, expected_texts or (value,))


OPENSSH_TAG = create_fact(
    ("aaronparker/apptracker", "673b10d3f3e5a2d52b3dc01528e3bd3704cb7005"),
    "json/Win32OpenSSH.json",
    "tag of the OpenSSH release",
    installers.OPENSSH_TAG,
    f"releases/download/{installers.OPENSSH_TAG}/{installers.OPENSSH_FILE}",
)
OPENSSH_FILE = msgspec.structs.replace(OPENSSH_TAG, name="file of the OpenSSH release", value=installers.OPENSSH_FILE)
OPENSSH_SHA256 = msgspec.structs.replace(
    OPENSSH_TAG,
    name="SHA-256 of that file",
    value=installers.OPENSSH_SHA256,
    says=(installers.OPENSSH_SHA256,),
)
CLOUDBASE_URL = create_fact(
    IMAGE_BUILDER,
    f"{PACKER}/ova/packer-windows.json",
    "download path of cloudbase-init, by version",
    "releases/download/{version}/CloudbaseInitSetup_{version_}_x64.msi",
    "cloudbase/cloudbase-init/releases/download/{{user `cloudbase_init_version`}}/CloudbaseInitSetup_",
)
CLOUDBASE_VERSION = create_fact(
    ("cloudbase/cloudbase-init", "1.1.8"), "setup.cfg", "a release of cloudbase-init, by its tag", "1.1.8", "version = 1.1.8"
)
CONTAINERD_VERSION = create_fact(
    ("containerd/containerd", "v2.2.1"),
    "Makefile",
    "a release of containerd, by its tag, and its checksum next to it",
    "2.2.1",
    "RELEASE=containerd-$(VERSION:v%=%)-${GOOS}-${GOARCH}",
    "sha256sum $(RELEASE).tar.gz >$(RELEASE).tar.gz.sha256sum",
)
CNI_PLUGINS_URL = create_fact(
    ("containernetworking/plugins", "v1.8.0"),
    ".github/workflows/release.yaml",
    "download path of the CNI plugins, by tag, with the checksum next to them",
    "releases/download/{version}/cni-plugins-windows-amd64-{version}.tgz",
    "cni-plugins-windows-${{ matrix.goarch }}-${{ github.ref_name }}.tgz.sha256",
)
CONTAINERD_URL = create_fact(
    IMAGE_BUILDER,
    f"{PACKER}/config/windows/containerd.json",
    "download path of containerd, by version",
    "releases/download/v{version}/containerd-{version}-windows-amd64.tar.gz",
    "containerd/containerd/releases/download/v{{user `containerd_version`}}/containerd-",
    "-windows-amd64.tar.gz",
)
KUBERNETES_URL = create_fact(
    IMAGE_BUILDER,
    f"{PACKER}/ova/packer-windows.json",
    "download URL of the Kubernetes binaries, by version",
    "https://dl.k8s.io/release/{version}/bin/windows/amd64",
    "https://dl.k8s.io/release/{{user `kubernetes_semver`}}/bin/windows/",
)
GENERALIZED = create_fact(
    IMAGE_BUILDER,
    f"{PACKER}/azure/scripts/sysprep.ps1",
    "Windows' state once it is generalised",
    "IMAGE_STATE_GENERALIZE_RESEAL_TO_OOBE",
    r"HKLM:\SOFTWARE\Microsoft\Windows\CurrentVersion\Setup\State",
    "IMAGE_STATE_GENERALIZE_RESEAL_TO_OOBE",
)
SYSPREP = create_fact(
    IMAGE_BUILDER, f"{PACKER}/azure/scripts/sysprep.ps1", "the arguments of sysprep", "/oobe /generalize /mode:vm"
)
AZURE_AGENTS = create_fact(
    IMAGE_BUILDER,
    f"{PACKER}/azure/scripts/sysprep.ps1",
    "services that must run before sysprep on Azure",
    "RdAgent, WindowsAzureGuestAgent",
    "Get-Service RdAgent",
    "Get-Service WindowsAzureGuestAgent",
)
VSPHERE_SHUTDOWN = create_fact(
    IMAGE_BUILDER,
    f"{PACKER}/ova/packer-windows.json",
    "image-builder runs sysprep on vSphere",
    "shutdown_command",
    '"shutdown_command": "powershell A:/sysprep.ps1"',
)
AWS_STOP = create_fact(
    IMAGE_BUILDER,
    f"{PACKER}/ami/packer-windows.json",
    "on AWS sysprep stops the instance, not Packer",
    "disable_stop_instance",
    '"disable_stop_instance": true',
    "SysprepInstance.ps1",
)
AWS_ANSWER_FILE = create_fact(
    IMAGE_BUILDER,
    f"{PACKER}/ami/scripts/sysprep_prerequisites.ps1",
    "the answer file of EC2Launch's sysprep (version 1)",
    r"$Env:ProgramData\Amazon\EC2-Windows\Launch\Sysprep\Unattend.xml",
)
EARLY_REBOOT = create_fact(
    INSTALLER,
    "CloudbaseInitSetup/Actions/ConfFileActions.js",
    "cloudbase-init in Setup's specialize pass does not restart Windows",
    "allow_reboot=false",
    'config["allow_reboot"] = false;',
    'config["stop_service_on_exit"] = false;',
    'config["log_file"] = "cloudbase-init-unattend.log";',
)
EARLY_PLUGINS = create_fact(
    IMAGE_BUILDER,
    f"{PACKER}/azure/packer-windows.json",
    "its plugins in the specialize pass",
    "cloudbaseinit.plugins.common.mtu.MTUPlugin",
    '"cloudbase_plugins_unattend": "cloudbaseinit.plugins.common.mtu.MTUPlugin"',
)
EARLY_SERVICE = create_fact(
    IMAGE_BUILDER,
    f"{PACKER}/azure/packer-windows.json",
    "its metadata service in the specialize pass",
    "cloudbaseinit.metadata.services.base.EmptyMetadataService",
)
REPORTED = create_fact(
    IMAGE_BUILDER,
    f"{ROLES}/cloudbase-init/templates/cloudbase-init.conf",
    "provisioning is reported to the provider",
    "metadata_report_provisioning_started, metadata_report_provisioning_completed",
    "metadata_report_provisioning_started=True",
    "metadata_report_provisioning_completed=True",
)
AZURE_AGENT_PLUGIN = create_fact(
    IMAGE_BUILDER,
    f"{PACKER}/azure/packer-windows.json",
    "the plugin that installs Azure's agent",
    "cloudbaseinit.plugins.windows.azureguestagent.AzureGuestAgentPlugin",
)
PASSWORD_PLUGIN = create_fact(
    IMAGE_BUILDER,
    f"{PACKER}/azure/packer-windows.json",
    "the plugin that sets a random password",
    "cloudbaseinit.plugins.common.setuserpassword.SetUserPasswordPlugin",
)
NETWORK_PLUGIN = create_fact(
    IMAGE_BUILDER,
    f"{PACKER}/ova/packer-windows.json",
    "the plugin that sets static addresses",
    "cloudbaseinit.plugins.common.networkconfig.NetworkConfigPlugin",
)
WIRE_SERVER = create_fact(
    IMAGE_BUILDER,
    f"{ROLES}/providers/tasks/azure.yml",
    "Azure's wire server, only for SYSTEM (CVE-2021-27075)",
    "168.63.129.16",
    "-RemoteAddress '168.63.129.16' -RemotePort '80'",
    "S-1-5-18",
)
PUBLIC_KEYS = create_fact(
    CLOUDBASE_INIT,
    "cloudbaseinit/metadata/services/ec2service.py",
    "without a key pair in EC2's metadata, cloudbase-init raises an exception and reads no user data",
    "get_public_keys",
    "'%s/meta-data/public-keys' %",
)
UNCOMPRESSED = create_fact(
    CAPA, "api/v1beta2/awsmachine_types.go", "CAPA gzips user data where this is false", "uncompressedUserData"
)
KEY_PAIR = create_fact(
    CAPA,
    "pkg/cloud/services/ec2/bastion.go",
    "CAPA's default key pair; an empty string means none",
    "default",
    'defaultSSHKeyName = "default"',
)
AMI_VERSION = create_fact(CAPA, "pkg/cloud/services/ec2/ami.go", "what CAPA puts into imageLookupFormat", "{{.K8sVersion}}")
AZURE_JSON = create_fact(CAPZ, "controllers/helpers.go", "CAPZ's Secret for a machine template", "worker-node-azure.json")
VSPHERE_NAMES = create_fact(
    CAPV,
    "pkg/services/vimmachine.go",
    "CAPV truncates the names of Windows machines",
    "15",
    "infrav1.Windows && len(machineName) > 15",
)
RUNTIME_ENDPOINT = create_fact(
    IMAGE_BUILDER,
    f"{ROLES}/kubernetes/tasks/sc.yml",
    "the kubelet's flag for containerd",
    "--container-runtime-endpoint=npipe:////./pipe/containerd-containerd",
    '--container-runtime-endpoint="npipe:////./pipe/containerd-containerd"',
)
LOG_RUNNER = create_fact(
    IMAGE_BUILDER,
    f"{ROLES}/kubernetes/tasks/sc.yml",
    "the program that writes the kubelet's log",
    "kube-log-runner",
    "kube-log-runner.exe",
    "--log-file=",
)
NO_AUTOMATIC_UPDATES = create_fact(
    IMAGE_BUILDER,
    f"{ROLES}/systemprep/tasks/main.yml",
    "automatic updates are off",
    "NoAutoUpdate",
    r"HKLM:\SOFTWARE\Policies\Microsoft\Windows\WindowsUpdate\AU",
    "name: NoAutoUpdate",
    "name: AUOptions",
)
PORT_RANGE = create_fact(
    IMAGE_BUILDER,
    f"{ROLES}/systemprep/tasks/main.yml",
    "the dynamic port range",
    "34000 31536",
    "netsh int ipv4 set dynamicportrange tcp 34000 31536",
)
HNS_SETTINGS = create_fact(
    IMAGE_BUILDER,
    f"{ROLES}/systemprep/tasks/main.yml",
    "registry settings of HNS by release",
    "1114842764, 520997518, HNSControlFlag, WcifsSOPCountDisabled",
    "name: 1114842764",
    "name: 520997518",
    "name: HNSControlFlag",
    "name: WcifsSOPCountDisabled",
)
_KUBERNETES = ("kubernetes/kubernetes", "v1.36.3")
_KUBESPRAY, _NEWER_KUBESPRAY = ("kubernetes-sigs/kubespray", "v2.30.0"), ("kubernetes-sigs/kubespray", "v2.31.0")
_PAUSES = "roles/kubespray_defaults/vars/main/main.yml"
PAUSE_1_32 = create_fact(_KUBESPRAY, _PAUSES, "kubeadm 1.32's pause image", "3.10", "'1.32': '3.10'\n")
PAUSE_1_33 = create_fact(_KUBESPRAY, _PAUSES, "kubeadm 1.33's pause image", "3.10", "'1.33': '3.10'\n")
PAUSE_1_34 = create_fact(_KUBESPRAY, _PAUSES, "kubeadm 1.34's pause image", "3.10.1", "'1.34': '3.10.1'")
PAUSE_1_35 = create_fact(_NEWER_KUBESPRAY, _PAUSES, "kubeadm 1.35's pause image", "3.10.1", "'1.35': '3.10.1'")
PAUSE_1_36 = create_fact(
    _KUBERNETES,
    "cmd/kubeadm/app/constants/constants.go",
    "kubeadm 1.36's pause image",
    "3.10.2",
    'PauseVersion = "3.10.2"',
)
PAUSE_2025 = create_fact(
    _KUBERNETES,
    "build/pause/CHANGELOG.md",
    "the first pause image for Server 2025",
    "3.10.2",
    "to add Windows Server 2025 (ltsc2025) support",
)
KUBE_PROXY_NODE = create_fact(
    SIG_WINDOWS_TOOLS,
    "hostprocess/calico/kube-proxy/start.ps1",
    "the variable by which kube-proxy's image takes the Node's name",
    "NODENAME",
    "$env:NODENAME",
)
_IMAGE_SYNC = ".github/workflows/sync-kube-proxy-images.yaml"
KUBE_PROXY_OLDEST = create_fact(
    SIG_WINDOWS_TOOLS,
    _IMAGE_SYNC,
    "the first version whose kube-proxy images are built when it is published",
    "1.33",
    'MIN_VERSION="1.33"',
)
KUBE_PROXY_SUFFIX = create_fact(
    SIG_WINDOWS_TOOLS,
    _IMAGE_SYNC,
    "what is added to a version in the tag of kube-proxy's image",
    "-calico-hostprocess",
    'SUFFIX="-calico-hostprocess"',
    "kube-proxy:${TAG}${SUFFIX}",
)
CALICO_NETWORK = create_fact(
    SIG_WINDOWS_TOOLS,
    "hostprocess/calico/kube-proxy/start.ps1",
    "the name of Calico's network in HNS",
    "Calico",
    '$NetworkName = "Calico"',
)
FLANNEL_NETWORK = create_fact(
    FLANNEL,
    "pkg/backend/vxlan/vxlan_windows.go",
    "the name of Flannel's network in HNS",
    "flannel.4096",
    "defaultVNI = 4096",
    'fmt.Sprintf("flannel.%v", cfg.VNI)',
)
JOIN_PHASES = create_fact(
    _KUBERNETES,
    "cmd/kubeadm/app/cmd/join.go",
    "phases that a worker's `kubeadm join` can do without",
    "preflight, kubelet-wait-bootstrap",
    "joinRunner.AppendPhase(phases.NewPreflightPhase())",
    "joinRunner.AppendPhase(phases.NewKubeletWaitBootstrapPhase())",
)
DSR = create_fact(
    _KUBERNETES,
    "pkg/features/kube_features.go",
    "the first version of kube-proxy that uses direct server return by default (WinDSR)",
    "1.33",
    '{Version: version.MustParse("1.33"), Default: true, PreRelease: featuregate.Beta},\n'
    '\t\t{Version: version.MustParse("1.34"), Default: true, PreRelease: featuregate.GA, LockToDefault: true},\n'
    "\t},\n\n\tWinOverlay: {",
)
METADATA_TOKEN = create_fact(
    CLOUDBASE_INIT,
    "cloudbaseinit/metadata/services/ec2service.py",
    "cloudbase-init asks EC2's metadata without a session token",
    "httpTokens: optional",
    "_get_cache_data('%s/meta-data/local-hostname'",
)

FACTS: tuple[Fact, ...] = tuple(value for value in list(globals().values()) if isinstance(value, Fact))
"""All of them, in the order above."""
