"""What the build of an image downloads, and from where."""

from collections.abc import Iterator

import msgspec

from transom.capi import upstream
from transom.capi.image.inputs import Download, ImageInputs

_GITHUB = "https://github.com"


def downloads(inputs: ImageInputs) -> Iterator[Download]:
    """Each file; `inputs.variables` may say another URL."""
    version = upstream.CLOUDBASE_VERSION.value
    cloudbase = upstream.CLOUDBASE_URL.value.format(version=version, version_=version.replace(".", "_"))
    openssh = f"releases/download/{upstream.OPENSSH_TAG.value}/{upstream.OPENSSH_FILE.value}"
    plugins = upstream.CNI_PLUGINS_URL.value.format(version=upstream.CNI_PLUGINS_URL.version)

    def download(name: str, url: str, check: str, variable: str | None = None, signer: str = "") -> Download:
        variable = variable or f"{name}_url"
        url = inputs.variables.get(variable, url)
        return Download(name, variable, url, f"{name}_sha256", check, url.rsplit("/", 1)[-1], signer)

    containerd = upstream.CONTAINERD_URL.value.format(version=upstream.CONTAINERD_VERSION.value)
    yield download("containerd", f"{_GITHUB}/containerd/containerd/{containerd}", "published")
    yield download(
        "cloudbase_init", f"{_GITHUB}/cloudbase/cloudbase-init/{cloudbase}", "signature", signer="Cloudbase Solutions"
    )
    source = f"{_GITHUB}/PowerShell/Win32-OpenSSH/{openssh}"
    ssh = download("ssh", source, "signature", "ssh_source_url", signer="Microsoft Corporation")
    known = "" if "ssh_source_url" in inputs.variables else upstream.OPENSSH_SHA256.value
    yield msgspec.structs.replace(ssh, name="openssh", sha256=known)
    yield download("cni_plugins", f"{_GITHUB}/containernetworking/plugins/{plugins}", "published")
    kubernetes = upstream.KUBERNETES_URL.value.format(version=inputs.kubernetes_version)
    if credential_provider := inputs.variables.get("credential_provider_url"):
        yield download("credential_provider", credential_provider, "sha256")
    base = inputs.variables.get("kubernetes_base_url", kubernetes).rstrip("/")
    for program in programs(inputs):
        name = program.replace("-", "_")
        yield Download(name, "kubernetes_base_url", f"{base}/{program}.exe", f"{name}_sha256", "published", f"{program}.exe")


def programs(inputs: ImageInputs) -> tuple[str, ...]:
    """Kubernetes' programs on the image."""
    daemons = ("kube-proxy",) if inputs.daemons != "hostprocess" else ()
    return ("kubelet", "kubeadm", "kubectl", upstream.LOG_RUNNER.value, *daemons)
