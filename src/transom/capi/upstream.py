"""What Transom relies on of other projects, each with the repository, the commit and the file that says so.

The generator takes its values from here, the tests hold what was generated against them, `docs/windows-workers.md` shows
them, and `scripts/upstream` looks each one up in a clone of its repository.
"""

import msgspec


class Fact(msgspec.Struct, frozen=True):
    """One thing: `says` are the texts that stand in `file` of `repository` at `version` (a commit or a tag)."""

    name: str
    value: str
    repository: str
    version: str
    file: str
    says: tuple[str, ...]


_IMAGE_BUILDER = ("kubernetes-sigs/image-builder", "ae63061efb154adbbd4605958c506aae8fc1d03c")
_CLOUDBASE_INIT = ("cloudbase/cloudbase-init", "c48d7596bf5e176c72c01fc70d2006d4b84cb573")
_INSTALLER = ("cloudbase/cloudbase-init-installer", "798df5ec1a0bf96ff66cfe8fb315c440325a689c")
_CAPA = ("kubernetes-sigs/cluster-api-provider-aws", "2cf09d78547d32975570a4b9ba5496bdfe26abeb")
_CAPZ = ("kubernetes-sigs/cluster-api-provider-azure", "69ec3a40a818ccbc32b8ce88c84609404d8cb7a2")
_CAPV = ("kubernetes-sigs/cluster-api-provider-vsphere", "111a1ba9bc520513125324c90aa3a8b80321fc13")
_CAPO = ("kubernetes-sigs/cluster-api-provider-openstack", "e52de58abe6f70f4ad3ad7f7f51632bfd70354b7")
_CAPG = ("kubernetes-sigs/cluster-api-provider-gcp", "5e0bb3b249cab59aa2720f03094a172fd153666b")
_CAPX = ("nutanix-cloud-native/cluster-api-provider-nutanix", "946f0db32e1d28b34cf37740da1ad7546adf793d")
_SIG_WINDOWS_TOOLS = ("kubernetes-sigs/sig-windows-tools", "401ee6fcd8369cd8c293bd361275fdbe6f24ed07")
_FLANNEL = ("flannel-io/flannel", "cdf760595c23292fd03ff4daf03638ac1ceef417")
_ROLES = "images/capi/ansible/windows/roles"
_PACKER = "images/capi/packer"


def _of(source: tuple[str, str], file: str, name: str, value: str, *says: str) -> Fact:
    return Fact(name, value, *source, file, says or (value,))


OPENSSH_TAG = _of(
    ("aaronparker/apptracker", "673b10d3f3e5a2d52b3dc01528e3bd3704cb7005"),
    "json/Win32OpenSSH.json",
    "tag of the OpenSSH release",
    "10.0.0.0p2-Preview",
    "releases/download/10.0.0.0p2-Preview/OpenSSH-Win64-v10.0.0.0.msi",
)
OPENSSH_FILE = msgspec.structs.replace(OPENSSH_TAG, name="file of the OpenSSH release", value="OpenSSH-Win64-v10.0.0.0.msi")
OPENSSH_SHA256 = msgspec.structs.replace(
    OPENSSH_TAG,
    name="SHA-256 of that file",
    value="ddec9c53864280759cf9f74791cefd387100e3946aa849a1c138a4ed1b96b7d9",
    says=("ddec9c53864280759cf9f74791cefd387100e3946aa849a1c138a4ed1b96b7d9",),
)
CLOUDBASE_URL = _of(
    _IMAGE_BUILDER,
    f"{_PACKER}/ova/packer-windows.json",
    "where cloudbase-init is, by version",
    "releases/download/{version}/CloudbaseInitSetup_{version_}_x64.msi",
    "cloudbase/cloudbase-init/releases/download/{{user `cloudbase_init_version`}}/CloudbaseInitSetup_",
)
CLOUDBASE_VERSION = _of(
    ("cloudbase/cloudbase-init", "1.1.8"), "setup.cfg", "a release of cloudbase-init, by its tag", "1.1.8", "version = 1.1.8"
)
CONTAINERD_VERSION = _of(
    ("containerd/containerd", "v2.2.1"),
    "Makefile",
    "a release of containerd, by its tag, and its checksum beside it",
    "2.2.1",
    "RELEASE=containerd-$(VERSION:v%=%)-${GOOS}-${GOARCH}",
    "sha256sum $(RELEASE).tar.gz >$(RELEASE).tar.gz.sha256sum",
)
CNI_PLUGINS_URL = _of(
    ("containernetworking/plugins", "v1.8.0"),
    ".github/workflows/release.yaml",
    "where the CNI plugins are, by their tag, and the checksum beside them",
    "releases/download/{version}/cni-plugins-windows-amd64-{version}.tgz",
    "cni-plugins-windows-${{ matrix.goarch }}-${{ github.ref_name }}.tgz.sha256",
)
CONTAINERD_URL = _of(
    _IMAGE_BUILDER,
    f"{_PACKER}/config/windows/containerd.json",
    "where containerd is, by version",
    "releases/download/v{version}/containerd-{version}-windows-amd64.tar.gz",
    "containerd/containerd/releases/download/v{{user `containerd_version`}}/containerd-",
    "-windows-amd64.tar.gz",
)
KUBERNETES_URL = _of(
    _IMAGE_BUILDER,
    f"{_PACKER}/ova/packer-windows.json",
    "where Kubernetes' programs are, by version",
    "https://dl.k8s.io/release/{version}/bin/windows/amd64",
    "https://dl.k8s.io/release/{{user `kubernetes_semver`}}/bin/windows/",
)
GENERALIZED = _of(
    _IMAGE_BUILDER,
    f"{_PACKER}/azure/scripts/sysprep.ps1",
    "Windows' state once it is generalised",
    "IMAGE_STATE_GENERALIZE_RESEAL_TO_OOBE",
    r"HKLM:\SOFTWARE\Microsoft\Windows\CurrentVersion\Setup\State",
    "IMAGE_STATE_GENERALIZE_RESEAL_TO_OOBE",
)
SYSPREP = _of(_IMAGE_BUILDER, f"{_PACKER}/azure/scripts/sysprep.ps1", "how sysprep is called", "/oobe /generalize /mode:vm")
AZURE_AGENTS = _of(
    _IMAGE_BUILDER,
    f"{_PACKER}/azure/scripts/sysprep.ps1",
    "services that must run before sysprep on Azure",
    "RdAgent, WindowsAzureGuestAgent",
    "Get-Service RdAgent",
    "Get-Service WindowsAzureGuestAgent",
)
VSPHERE_SHUTDOWN = _of(
    _IMAGE_BUILDER,
    f"{_PACKER}/ova/packer-windows.json",
    "sysprep on vSphere is the builder's",
    "shutdown_command",
    '"shutdown_command": "powershell A:/sysprep.ps1"',
)
AWS_STOP = _of(
    _IMAGE_BUILDER,
    f"{_PACKER}/ami/packer-windows.json",
    "on AWS sysprep stops the instance, not Packer",
    "disable_stop_instance",
    '"disable_stop_instance": true',
    "SysprepInstance.ps1",
)
AWS_ANSWER_FILE = _of(
    _IMAGE_BUILDER,
    f"{_PACKER}/ami/scripts/sysprep_prerequisites.ps1",
    "the answer file of EC2Launch's sysprep (version 1)",
    r"$Env:ProgramData\Amazon\EC2-Windows\Launch\Sysprep\Unattend.xml",
)
EARLY_REBOOT = _of(
    _INSTALLER,
    "CloudbaseInitSetup/Actions/ConfFileActions.js",
    "cloudbase-init in Setup's specialize pass does not restart Windows",
    "allow_reboot=false",
    'config["allow_reboot"] = false;',
    'config["stop_service_on_exit"] = false;',
    'config["log_file"] = "cloudbase-init-unattend.log";',
)
EARLY_PLUGINS = _of(
    _IMAGE_BUILDER,
    f"{_PACKER}/azure/packer-windows.json",
    "its plugins in the specialize pass",
    "cloudbaseinit.plugins.common.mtu.MTUPlugin",
    '"cloudbase_plugins_unattend": "cloudbaseinit.plugins.common.mtu.MTUPlugin"',
)
EARLY_SERVICE = _of(
    _IMAGE_BUILDER,
    f"{_PACKER}/azure/packer-windows.json",
    "its metadata service in the specialize pass",
    "cloudbaseinit.metadata.services.base.EmptyMetadataService",
)
REPORTED = _of(
    _IMAGE_BUILDER,
    f"{_ROLES}/cloudbase-init/templates/cloudbase-init.conf",
    "provisioning is reported to the provider",
    "metadata_report_provisioning_started, metadata_report_provisioning_completed",
    "metadata_report_provisioning_started=True",
    "metadata_report_provisioning_completed=True",
)
AZURE_AGENT_PLUGIN = _of(
    _IMAGE_BUILDER,
    f"{_PACKER}/azure/packer-windows.json",
    "the plugin that brings Azure's agent",
    "cloudbaseinit.plugins.windows.azureguestagent.AzureGuestAgentPlugin",
)
PASSWORD_PLUGIN = _of(
    _IMAGE_BUILDER,
    f"{_PACKER}/azure/packer-windows.json",
    "the plugin that sets a random password",
    "cloudbaseinit.plugins.common.setuserpassword.SetUserPasswordPlugin",
)
NETWORK_PLUGIN = _of(
    _IMAGE_BUILDER,
    f"{_PACKER}/ova/packer-windows.json",
    "the plugin that sets static addresses",
    "cloudbaseinit.plugins.common.networkconfig.NetworkConfigPlugin",
)
WIRE_SERVER = _of(
    _IMAGE_BUILDER,
    f"{_ROLES}/providers/tasks/azure.yml",
    "Azure's wire server, for SYSTEM alone (CVE-2021-27075)",
    "168.63.129.16",
    "-RemoteAddress '168.63.129.16' -RemotePort '80'",
    "S-1-5-18",
)
PUBLIC_KEYS = _of(
    _CLOUDBASE_INIT,
    "cloudbaseinit/metadata/services/ec2service.py",
    "EC2's metadata without a key pair is an exception, and no user data is read",
    "get_public_keys",
    "'%s/meta-data/public-keys' %",
)
UNCOMPRESSED = _of(_CAPA, "api/v1beta2/awsmachine_types.go", "CAPA gzips user data where this is false", "uncompressedUserData")
KEY_PAIR = _of(
    _CAPA,
    "pkg/cloud/services/ec2/bastion.go",
    "CAPA's key pair where none is named; an empty text means none",
    "default",
    'defaultSSHKeyName = "default"',
)
AMI_VERSION = _of(_CAPA, "pkg/cloud/services/ec2/ami.go", "what CAPA puts into imageLookupFormat", "{{.K8sVersion}}")
AZURE_JSON = _of(_CAPZ, "controllers/helpers.go", "CAPZ's Secret for a machine template", "worker-node-azure.json")
VSPHERE_NAMES = _of(
    _CAPV,
    "pkg/services/vimmachine.go",
    "CAPV cuts names of Windows machines",
    "15",
    "infrav1.Windows && len(machineName) > 15",
)
GLANCE_NAME = _of(
    _CAPO,
    "pkg/cloud/services/compute/instance.go",
    "CAPO takes an image by its exact name, and not two",
    "image.filter.name",
    "no images were found with the given image filter",
    "ErrMultipleMatches",
)
IMAGE_FAMILY = _of(
    _CAPG,
    "cloud/scope/machine.go",
    "CAPG takes the newest image of a family",
    "imageFamily",
    '"global", "images", "family"',
    "m.GCPMachine.Spec.ImageFamily",
)
NUTANIX_NAME = _of(
    _CAPX,
    "controllers/nutanixmachine_controller.go",
    "all that CAPX renders of user data: it takes the mark of the template engine off",
    "{{ ds.meta_data.hostname }}",
    '[]byte("## template: jinja\\n")',
    '[]byte("{{ ds.meta_data.hostname }}"), []byte(rctx.Machine.Name)',
)
NUTANIX_DISK = _of(
    _CAPX,
    "controllers/nutanixmachine_controller.go",
    "CAPX gives user data by a disk",
    "CONFIG_DRIVE_V2",
    "CLOUDINITDATASOURCETYPE_CONFIG_DRIVE_V2",
)
NUTANIX_SHUTDOWN = _of(
    _IMAGE_BUILDER,
    f"{_PACKER}/nutanix/packer-windows.json",
    "sysprep on Nutanix is the builder's",
    "shutdown_command",
    '"shutdown_command": "powershell F:/sysprep.ps1"',
    '"os_type": "{{user `guest_os_type`}}"',
)
RUNTIME_ENDPOINT = _of(
    _IMAGE_BUILDER,
    f"{_ROLES}/kubernetes/tasks/sc.yml",
    "the kubelet's flag for containerd",
    "--container-runtime-endpoint=npipe:////./pipe/containerd-containerd",
    '--container-runtime-endpoint="npipe:////./pipe/containerd-containerd"',
)
LOG_RUNNER = _of(
    _IMAGE_BUILDER,
    f"{_ROLES}/kubernetes/tasks/sc.yml",
    "the program that keeps the kubelet's log",
    "kube-log-runner",
    "kube-log-runner.exe",
    "--log-file=",
)
NO_AUTOMATIC_UPDATES = _of(
    _IMAGE_BUILDER,
    f"{_ROLES}/systemprep/tasks/main.yml",
    "automatic updates are off",
    "NoAutoUpdate",
    r"HKLM:\SOFTWARE\Policies\Microsoft\Windows\WindowsUpdate\AU",
    "name: NoAutoUpdate",
    "name: AUOptions",
)
PORT_RANGE = _of(
    _IMAGE_BUILDER,
    f"{_ROLES}/systemprep/tasks/main.yml",
    "the dynamic port range",
    "34000 31536",
    "netsh int ipv4 set dynamicportrange tcp 34000 31536",
)
HNS_SETTINGS = _of(
    _IMAGE_BUILDER,
    f"{_ROLES}/systemprep/tasks/main.yml",
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
PAUSE_1_32 = _of(_KUBESPRAY, _PAUSES, "kubeadm 1.32's pause image", "3.10", "'1.32': '3.10'\n")
PAUSE_1_33 = _of(_KUBESPRAY, _PAUSES, "kubeadm 1.33's pause image", "3.10", "'1.33': '3.10'\n")
PAUSE_1_34 = _of(_KUBESPRAY, _PAUSES, "kubeadm 1.34's pause image", "3.10.1", "'1.34': '3.10.1'")
PAUSE_1_35 = _of(_NEWER_KUBESPRAY, _PAUSES, "kubeadm 1.35's pause image", "3.10.1", "'1.35': '3.10.1'")
PAUSE_1_36 = _of(
    _KUBERNETES,
    "cmd/kubeadm/app/constants/constants.go",
    "kubeadm 1.36's pause image",
    "3.10.2",
    'PauseVersion = "3.10.2"',
)
PAUSE_2025 = _of(
    _KUBERNETES,
    "build/pause/CHANGELOG.md",
    "the first pause image for Server 2025",
    "3.10.2",
    "to add Windows Server 2025 (ltsc2025) support",
)
KUBE_PROXY_NODE = _of(
    _SIG_WINDOWS_TOOLS,
    "hostprocess/calico/kube-proxy/start.ps1",
    "the variable by which kube-proxy's image takes the Node's name",
    "NODENAME",
    "$env:NODENAME",
)
_IMAGE_SYNC = ".github/workflows/sync-kube-proxy-images.yaml"
KUBE_PROXY_OLDEST = _of(
    _SIG_WINDOWS_TOOLS,
    _IMAGE_SYNC,
    "the first version whose kube-proxy images are built as it is published",
    "1.33",
    'MIN_VERSION="1.33"',
)
KUBE_PROXY_SUFFIX = _of(
    _SIG_WINDOWS_TOOLS,
    _IMAGE_SYNC,
    "what is added to a version in the tag of kube-proxy's image",
    "-calico-hostprocess",
    'SUFFIX="-calico-hostprocess"',
    "kube-proxy:${TAG}${SUFFIX}",
)
CALICO_NETWORK = _of(
    _SIG_WINDOWS_TOOLS,
    "hostprocess/calico/kube-proxy/start.ps1",
    "what HNS calls Calico's network",
    "Calico",
    '$NetworkName = "Calico"',
)
FLANNEL_NETWORK = _of(
    _FLANNEL,
    "pkg/backend/vxlan/vxlan_windows.go",
    "what HNS calls Flannel's network",
    "flannel.4096",
    "defaultVNI = 4096",
    'fmt.Sprintf("flannel.%v", cfg.VNI)',
)
JOIN_PHASES = _of(
    _KUBERNETES,
    "cmd/kubeadm/app/cmd/join.go",
    "phases that a worker's `kubeadm join` can do without",
    "preflight, kubelet-wait-bootstrap",
    "joinRunner.AppendPhase(phases.NewPreflightPhase())",
    "joinRunner.AppendPhase(phases.NewKubeletWaitBootstrapPhase())",
)
DSR = _of(
    _KUBERNETES,
    "pkg/features/kube_features.go",
    "the first version of kube-proxy that answers past the node by itself (WinDSR)",
    "1.33",
    '{Version: version.MustParse("1.33"), Default: true, PreRelease: featuregate.Beta},\n'
    '\t\t{Version: version.MustParse("1.34"), Default: true, PreRelease: featuregate.GA, LockToDefault: true},\n'
    "\t},\n\n\tWinOverlay: {",
)
METADATA_TOKEN = _of(
    _CLOUDBASE_INIT,
    "cloudbaseinit/metadata/services/ec2service.py",
    "cloudbase-init asks EC2's metadata without a session token",
    "httpTokens: optional",
    "_get_cache_data('%s/meta-data/local-hostname'",
)

FACTS: tuple[Fact, ...] = tuple(value for value in list(globals().values()) if isinstance(value, Fact))
"""All of them, in the order above."""


BEGIN, END = "<!-- what upstream says -->", "<!-- end -->"


def page_with_facts(page: str) -> str:
    """A page with the table of `FACTS` between its two marks."""
    before, _, rest = page.partition(BEGIN)
    _, _, after = rest.partition(END)
    rows = [f"| {fact.name} | `{fact.value}` | {fact.repository} `{fact.version[:12]}` | `{fact.file}` |" for fact in FACTS]
    table = "\n".join(("| what | value | repository and version | file |", "|---|---|---|---|", *rows))
    return f"{before}{BEGIN}\n{table}\n{END}{after}"
