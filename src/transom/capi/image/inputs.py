"""The inputs of `transom capi image`, and the downloads of its build with their sources."""

from collections.abc import Iterator

import msgspec

from transom.capi.check import upstream
from transom.capi.check.worker_inputs import DEFAULT_VERSION, Daemons, ProviderName
from transom.common.installers import OPENSSH_SIGNER


class Download(msgspec.Struct, frozen=True):
    """A file that the build takes from somewhere.

    `variable` is its Packer variable, named as Kubernetes' image-builder names it; `checksum` that of its SHA-256. `check` says
    how a file without one is checked: `published` (its source also publishes a checksum) or `signature` (Authenticode).
    `signer` is who has to have signed it then. `sha256` is its checksum where that was recorded for the default URL.
    """

    name: str
    variable: str
    url: str
    checksum: str
    check: str
    file: str
    signer: str = ""
    sha256: str = ""


class ImageInputs(msgspec.Struct, frozen=True):
    """The inputs; `variables` override any Packer variable, URLs and checksums among them."""

    provider: ProviderName
    windows: str = "2022"
    kubernetes_version: str = DEFAULT_VERSION
    daemons: Daemons = "hostprocess"
    variables: dict[str, str] = {}


_GITHUB = "https://github.com"


def iter_downloads(inputs: ImageInputs) -> Iterator[Download]:
    """Each file; `inputs.variables` may say another URL."""
    version = upstream.CLOUDBASE_VERSION.value
    cloudbase = upstream.CLOUDBASE_URL.value.format(version=version, version_=version.replace(".", "_"))
    openssh = f"releases/download/{upstream.OPENSSH_TAG.value}/{upstream.OPENSSH_FILE.value}"
    plugins = upstream.CNI_PLUGINS_URL.value.format(version=upstream.CNI_PLUGINS_URL.version)

    def build_download(name: str, url: str, check: str, variable: str | None = None, signer: str = "") -> Download:
        variable = variable or f"{name}_url"
        url = inputs.variables.get(variable, url)
        return Download(name, variable, url, f"{name}_sha256", check, url.rsplit("/", 1)[-1], signer)

    containerd = upstream.CONTAINERD_URL.value.format(version=upstream.CONTAINERD_VERSION.value)
    yield build_download("containerd", f"{_GITHUB}/containerd/containerd/{containerd}", "published")
    yield build_download(
        "cloudbase_init", f"{_GITHUB}/cloudbase/cloudbase-init/{cloudbase}", "signature", signer="Cloudbase Solutions"
    )
    source = f"{_GITHUB}/PowerShell/Win32-OpenSSH/{openssh}"
    ssh = build_download("ssh", source, "signature", "ssh_source_url", signer=OPENSSH_SIGNER)
    known = "" if "ssh_source_url" in inputs.variables else upstream.OPENSSH_SHA256.value
    yield msgspec.structs.replace(ssh, name="openssh", sha256=known)
    yield build_download("cni_plugins", f"{_GITHUB}/containernetworking/plugins/{plugins}", "published")
    kubernetes = upstream.KUBERNETES_URL.value.format(version=inputs.kubernetes_version)
    if credential_provider := inputs.variables.get("credential_provider_url"):
        yield build_download("credential_provider", credential_provider, "sha256")
    base = inputs.variables.get("kubernetes_base_url", kubernetes).rstrip("/")
    for program in list_programs(inputs):
        name = program.replace("-", "_")
        yield Download(name, "kubernetes_base_url", f"{base}/{program}.exe", f"{name}_sha256", "published", f"{program}.exe")


def list_programs(inputs: ImageInputs) -> tuple[str, ...]:
    """Kubernetes' programs on the image."""
    daemons = ("kube-proxy",) if inputs.daemons != "hostprocess" else ()
    return ("kubelet", "kubeadm", "kubectl", upstream.LOG_RUNNER.value, *daemons)
