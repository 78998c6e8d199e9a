"""The recipe of an image as files: a Packer template in HCL2, its scripts, the configuration of cloudbase-init, a manifest."""

import hashlib
import importlib.resources
import json
import re
from collections.abc import Iterator, Mapping
from typing import Any

import msgspec

from transom.capi.checks import VERSION
from transom.capi.image.builders import BUILDERS, Builder
from transom.capi.image.inputs import Download, ImageInputs
from transom.capi.image_name import image_name
from transom.capi.providers import PROVIDERS
from transom.capi.windows_release import RELEASES

CONTAINERD = "2.2.1"
CLOUDBASE_INIT = "1.1.8"
OPENSSH = "v10.0.0.0p2-Preview"
CNI_PLUGINS = "v1.8.0"
PAUSE = "registry.k8s.io/pause:3.10.1"

_SHA256 = re.compile(r"[0-9A-Fa-f]{64}\Z")
_PACKAGE = "transom.capi"
_BOOTHOOK = "cloudbaseinit.plugins.common.userdataplugins.cloudboothook.CloudBootHookPlugin"
_USER_DATA_PLUGINS = (
    "cloudbaseinit.plugins.common.userdataplugins.parthandler.PartHandlerPlugin",
    "cloudbaseinit.plugins.common.userdataplugins.cloudconfig.CloudConfigPlugin",
    _BOOTHOOK,
    "cloudbaseinit.plugins.common.userdataplugins.shellscript.ShellScriptPlugin",
    "cloudbaseinit.plugins.common.userdataplugins.multipartmixed.MultipartMixedPlugin",
)
_PLUGINS = (
    "cloudbaseinit.plugins.common.mtu.MTUPlugin",
    "cloudbaseinit.plugins.windows.extendvolumes.ExtendVolumesPlugin",
    "cloudbaseinit.plugins.common.sethostname.SetHostNamePlugin",
    "cloudbaseinit.plugins.common.localscripts.LocalScriptsPlugin",
    "cloudbaseinit.plugins.common.userdata.UserDataPlugin",
)
_EARLY_PLUGINS = _PLUGINS[:3]


class InvalidRecipe(ValueError):
    """An input of an image that cannot be; the message names it and says what to do instead."""


class Recipe(msgspec.Struct, frozen=True):
    """The files by path, and what the build downloads."""

    files: dict[str, bytes]
    downloads: tuple[Download, ...]


def make(inputs: ImageInputs, local: Mapping[str, str] | None = None) -> Recipe:
    """The recipe. `local` are files for an offline build with their SHA-256. Raises InvalidRecipe."""
    downloads = tuple(needed(inputs))
    builder = BUILDERS[inputs.provider]
    variables = _variables(inputs, builder, downloads)
    unknown = [name for name in inputs.variables if name not in variables]
    if unknown:
        raise InvalidRecipe(f"{unknown[0]} is no variable of this image: one of {', '.join(sorted(variables))}")
    if not VERSION.match(inputs.kubernetes_version):
        raise InvalidRecipe(f"{inputs.kubernetes_version!r} is no version of the form v1.N.M")
    if inputs.windows not in RELEASES:
        raise InvalidRecipe(f"Kubernetes does not list Windows Server {inputs.windows!r}: one of {', '.join(RELEASES)}")
    variables |= inputs.variables
    given = {download.checksum: variables[download.checksum] for download in downloads}
    for name, value in given.items():
        if value and not _SHA256.match(value):
            raise InvalidRecipe(f"{name}: a SHA-256 is 64 hex digits")
    files = {f"scripts/{name}": content for name, content in _scripts(inputs)}
    files["windows.pkr.hcl"] = _template(inputs, builder, downloads, offline=local is not None).encode()
    files["variables.pkr.hcl"] = _declarations(variables, builder).encode()
    files["manifest.json"] = _manifest(inputs, files, downloads, variables, local or {})
    return Recipe(files, downloads)


def needed(inputs: ImageInputs) -> Iterator[Download]:
    """What a build downloads."""
    version = inputs.kubernetes_version
    github = "https://github.com"
    containerd = f"containerd-{CONTAINERD}-windows-amd64.tar.gz"
    cloudbase = f"CloudbaseInitSetup_{CLOUDBASE_INIT.replace('.', '_')}_x64.msi"
    openssh = f"OpenSSH-Win64-{OPENSSH.removesuffix('p2-Preview')}.msi"
    plugins = f"cni-plugins-windows-amd64-{CNI_PLUGINS}.tgz"

    def download(name: str, url: str, check: str, variable: str | None = None) -> Download:
        variable = variable or f"{name}_url"
        url = inputs.variables.get(variable, url)
        return Download(name, variable, url, f"{name}_sha256", check, url.rsplit("/", 1)[-1])

    yield download("containerd", f"{github}/containerd/containerd/releases/download/v{CONTAINERD}/{containerd}", "published")
    yield download(
        "cloudbase_init", f"{github}/cloudbase/cloudbase-init/releases/download/{CLOUDBASE_INIT}/{cloudbase}", "signature"
    )
    source = f"{github}/PowerShell/Win32-OpenSSH/releases/download/{OPENSSH}/{openssh}"
    yield msgspec.structs.replace(download("ssh", source, "signature", "ssh_source_url"), name="openssh")
    yield download(
        "cni_plugins", f"{github}/containernetworking/plugins/releases/download/{CNI_PLUGINS}/{plugins}", "published"
    )
    base = inputs.variables.get("kubernetes_base_url", f"https://dl.k8s.io/release/{version}/bin/windows/amd64").rstrip("/")
    for program in _programs(inputs):
        name = program.replace("-", "_")
        yield Download(name, "kubernetes_base_url", f"{base}/{program}.exe", f"{name}_sha256", "published", f"{program}.exe")


def _programs(inputs: ImageInputs) -> tuple[str, ...]:
    of_services = ("kube-proxy", "kube-log-runner") if inputs.daemons == "services" else ()
    return ("kubelet", "kubeadm", "kubectl", *of_services)


def _variables(inputs: ImageInputs, builder: Builder, downloads: tuple[Download, ...]) -> dict[str, Any]:
    made: dict[str, Any] = {
        **{item.variable: item.url for item in downloads},
        "kubernetes_base_url": next(item.url.rsplit("/", 1)[0] for item in downloads if item.name == "kubelet"),
        **{item.checksum: "" for item in downloads},
        "pause_image": PAUSE,
        "disk_size": "100",
        # of the build alone; those of the machines come at their first boot
        "http_proxy": "",
        "https_proxy": "",
        "no_proxy": "",
    }
    return {**made, **builder.variables}


def _scripts(inputs: ImageInputs) -> Iterator[tuple[str, bytes]]:
    names = ["common", "features", "hns", "openssh", "containerd", "kubernetes", "cni", "pause", "cloudbase-init"]
    names += ["manifest", "finish", "winrm-off"]
    for name in names:
        yield f"{name}.ps1", _file(f"{name}.ps1")
    if BUILDERS[inputs.provider].body.find("scripts/winrm.ps1") >= 0:
        script = _file("winrm.ps1")
        tagged = b"<powershell>\r\n" + script + b"</powershell>\r\n"
        yield "winrm.ps1", script if inputs.provider == "gcp" else tagged
    yield "containerd.toml", _file("containerd.toml")
    yield "cloudbase-init.conf", configuration(inputs, _PLUGINS)
    yield "cloudbase-init-unattend.conf", configuration(inputs, _EARLY_PLUGINS)
    if inputs.provider == "aws":
        yield "transom_boothook.py", _file("transom_boothook.py")


def configuration(inputs: ImageInputs, plugins: tuple[str, ...] = _PLUGINS) -> bytes:
    """`cloudbase-init.conf`: the provider's metadata service, and on AWS the plugin that fetches from a secret store."""
    user_data = list(_USER_DATA_PLUGINS)
    if inputs.provider == "aws":
        user_data[user_data.index(_BOOTHOOK)] = "transom_boothook.BoothookPlugin"
    lines = [
        "[DEFAULT]",
        "username=Administrator",
        "inject_user_password=false",
        "first_logon_behaviour=no",
        "check_latest_version=false",
        "allow_reboot=true",
        "stop_service_on_exit=false",
        "verbose=true",
        "debug=false",
        "logdir=C:\\Program Files\\Cloudbase Solutions\\Cloudbase-Init\\log\\",
        "logfile=cloudbase-init.log",
        "local_scripts_path=C:\\Program Files\\Cloudbase Solutions\\Cloudbase-Init\\LocalScripts\\",
        f"metadata_services={','.join(PROVIDERS[inputs.provider].metadata_services)}",
        f"plugins={','.join(plugins)}",
        f"user_data_plugins={','.join(user_data)}",
        "",
    ]
    return "\r\n".join(lines).encode("ascii")


def _template(inputs: ImageInputs, builder: Builder, downloads: tuple[Download, ...], *, offline: bool) -> str:
    scripts = ["hns", "openssh", "containerd", "kubernetes", "cni", "pause"]
    scripts += ["cloudbase-init", "manifest"]
    environment = {
        **{item.variable.upper(): f"var.{item.variable}" for item in downloads},
        **{item.checksum.upper(): f"var.{item.checksum}" for item in downloads},
        "PAUSE_IMAGE": "var.pause_image",
        "KUBERNETES_PROGRAMS": _quoted(" ".join(_programs(inputs))),
        "BUILD_HTTP_PROXY": "var.http_proxy",
        "BUILD_HTTPS_PROXY": "var.https_proxy",
        "BUILD_NO_PROXY": "var.no_proxy",
    }
    width = max(map(len, environment))
    listed = "\n".join(f"    {name.ljust(width)} = {value}" for name, value in environment.items())
    name = f"source.{builder.type}.windows"
    uploads = "" if not offline else _UPLOAD
    return (
        _HEAD.replace("@PLUGIN@", builder.plugin).replace("@SOURCE@", builder.source).replace("@VERSION@", builder.version)
        + f"\nlocals {{\n  image_name = {_quoted(image_name(inputs.windows, inputs.kubernetes_version))}\n"
        + '  stamp      = formatdate("YYYYMMDDhhmm", timestamp())\n'
        + f"  environment = {{\n{listed}\n  }}\n}}\n\n"
        + f'source "{builder.type}" "windows" {{\n{builder.body.replace("@WINDOWS@", inputs.windows)}}}\n\n'
        + f'build {{\n  sources = ["{name}"]\n\n'
        + _PROVISION.replace("@UPLOADS@", uploads)
        + "".join(_powershell(script) for script in scripts)
        + _FETCH
        + _powershell("finish")
        + "}\n"
    )


_HEAD = """packer {
  required_plugins {
    @PLUGIN@ = {
      source  = "@SOURCE@"
      version = "@VERSION@"
    }
  }
}
"""
_PROVISION = """  provisioner "powershell" {
    inline = ["New-Item -ItemType Directory -Force -Path 'C:\\\\k\\\\image' | Out-Null"]
  }

  provisioner "file" {
    source      = "scripts/"
    destination = "C:/k/image/"
  }
@UPLOADS@
  provisioner "powershell" {
    inline           = ["& 'C:\\\\k\\\\image\\\\features.ps1'"]
    environment_vars = [for name, value in local.environment : "${name}=${value}"]
  }

  provisioner "windows-restart" {}
"""
_UPLOAD = """
  provisioner "file" {
    source      = "downloads/"
    destination = "C:/k/image/downloads/"
  }
"""
_FETCH = """
  provisioner "file" {
    direction   = "download"
    source      = "C:/k/image-manifest.json"
    destination = "image-manifest.json"
  }
"""


def _powershell(script: str) -> str:
    return f"""
  provisioner "powershell" {{
    inline           = ["& 'C:\\\\k\\\\image\\\\{script}.ps1'"]
    environment_vars = [for name, value in local.environment : "${{name}}=${{value}}"]
  }}
"""


def _declarations(variables: Mapping[str, Any], builder: Builder) -> str:
    blocks = []
    for name, value in variables.items():
        lines = ["  type = string"]
        if value is not None:
            lines.append(f"  default = {_quoted(str(value))}")
        if name in builder.secret or name.endswith("_proxy"):
            lines.append("  sensitive = true")
        blocks.append(f'variable "{name}" {{\n' + "\n".join(lines) + "\n}\n")
    return "\n".join(blocks)


def _quoted(text: str) -> str:
    """A string of HCL2, in which `${` and `%{` would begin a template."""
    return json.dumps(text, ensure_ascii=False).replace("${", "$${").replace("%{", "%%{")


def _manifest(
    inputs: ImageInputs,
    files: Mapping[str, bytes],
    downloads: tuple[Download, ...],
    variables: Mapping[str, Any],
    local: Mapping[str, str],
) -> bytes:
    """What goes into the image: our own files with their SHA-256, the downloads with theirs or with how they are checked."""
    listed = [
        {
            "name": item.name,
            "url": item.url,
            "file": item.file,
            "sha256": variables[item.checksum].lower() or local.get(item.file, ""),
            "check": "sha256" if variables[item.checksum] or item.file in local else item.check,
        }
        for item in downloads
    ]
    made = {
        "image": image_name(inputs.windows, inputs.kubernetes_version),
        "provider": inputs.provider,
        "windows": {"year": inputs.windows, "build": RELEASES[inputs.windows].build},
        "kubernetes": inputs.kubernetes_version,
        "pauseImage": variables["pause_image"],
        "downloads": listed,
        "files": {name: hashlib.sha256(content).hexdigest() for name, content in sorted(files.items())},
        "licence": "The base image is Windows Server, which needs a licence; Transom brings none.",
    }
    return msgspec.json.format(msgspec.json.encode(made), indent=2) + b"\n"


def _file(name: str) -> bytes:
    text = (importlib.resources.files(_PACKAGE) / "image" / "files" / name).read_text("utf-8")
    return text.replace("\n", "\r\n").encode()
