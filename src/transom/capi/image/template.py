"""A build of an image as Packer reads it: HCL2.

Paths of files next to the template are relative to it, so that it builds from any directory.
"""

import json
import re
from collections.abc import Iterator, Mapping
from typing import Any

import msgspec

from transom.capi.image.inputs import Download, ImageInputs, list_programs
from transom.capi.providers.provider import Builder
from transom.capi.providers.provider_table import PROVIDERS
from transom.capi.worker.windows_release import build_image_name

_GALLERY = """  shared_image_gallery_destination {
    subscription   = var.subscription_id
    resource_group = var.resource_group
    gallery_name   = var.shared_image_gallery_name
    image_name     = local.image_name
    image_version  = var.sig_image_version
  }
"""


def select_builder(inputs: ImageInputs) -> Builder:
    """Return the provider's builder; on Azure one that also fills a gallery, if one is named."""
    made = PROVIDERS[inputs.provider].builder
    if not inputs.variables.get("shared_image_gallery_name"):
        return made
    version = ".".join(re.findall(r"\d+", inputs.kubernetes_version)[:3])
    return msgspec.structs.replace(made, body=made.body + _GALLERY, variables={**made.variables, "sig_image_version": version})


def render_template(inputs: ImageInputs, builder: Builder, downloads: tuple[Download, ...], *, offline: bool) -> str:
    """`windows.pkr.hcl`: the builder, and the scripts in their order. If `offline`, the downloads are next to it."""
    environment = {
        **{item.variable.upper(): f"var.{item.variable}" for item in downloads},
        **{item.checksum.upper(): f"var.{item.checksum}" for item in downloads},
        **{f"{item.name.upper()}_SIGNER": _quote(item.signer) for item in downloads if item.signer},
        "PAUSE_IMAGE": "var.pause_image",
        "KUBERNETES_PROGRAMS": _quote(" ".join(list_programs(inputs))),
        "WINDOWS_YEAR": _quote(inputs.windows),
        "AUTOMATIC_UPDATES": "var.automatic_updates",
        **{name.upper(): f"var.{name}" for name in _CHOICES},
        **({"SECRET_STORE_PROXY": "var.secret_store_proxy"} if inputs.provider == "aws" else {}),
        "SHUT_DOWN_BY_SYSPREP": "true" if "shutdown_command" in builder.body else "false",
        "BUILD_HTTP_PROXY": "var.http_proxy",
        "BUILD_HTTPS_PROXY": "var.https_proxy",
        "BUILD_NO_PROXY": "var.no_proxy",
    }
    width = max(map(len, environment))
    listed = "\n".join(f"    {name.ljust(width)} = {value}" for name, value in environment.items())
    name = build_image_name(inputs.windows, inputs.kubernetes_version)
    return (
        _HEAD.replace("@PLUGIN@", builder.plugin).replace("@SOURCE@", builder.source).replace("@VERSION@", builder.version)
        + f"\nlocals {{\n  image_name = {_quote(name)}\n"
        + '  stamp      = formatdate("YYYYMMDDhhmm", timestamp())\n'
        + f"  environment = {{\n{listed}\n  }}\n}}\n\n"
        + f'source "{builder.type}" "windows" {{\n{builder.body.replace("@WINDOWS@", inputs.windows)}}}\n\n'
        + f'build {{\n  sources = ["source.{builder.type}.windows"]\n\n'
        + _PROVISION.replace("@UPLOADS@", _UPLOAD if offline else "")
        + _format_powershell("updates", _ELEVATED)
        + _RESTART
        + "".join(_format_powershell(script) for script in _iter_script_names(inputs))
        + _FETCH
        + _format_powershell("finish")
        + (_format_powershell("sysprep", _ELEVATED) if "shutdown_command" not in builder.body else "")
        + "}\n"
    )


_CHOICES = (
    "windows_updates",
    "windows_updates_kbs",
    "windows_updates_categories",
    "hyper_v",
    "disable_hypervisor",
    "additional_registry_images_list",
    "cloudbase_real_time_clock_utc",
    "cloudbase_logging_serial_port",
    "credential_provider_name",
)
"""Variables that scripts read, by the same name in capitals."""


def _iter_script_names(inputs: ImageInputs) -> Iterator[str]:
    yield from ("hns", "openssh", "containerd", "kubernetes", "cni", "pause")
    if inputs.variables.get("credential_provider_url"):
        yield "credential-provider"
    yield "cloudbase-init"
    if inputs.provider == "azure":
        yield "azure"
    yield from ("transom-image-check", "manifest")


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
    source      = "${path.root}/scripts/"
    destination = "C:/k/image/"
  }

  # one line break where no CA is given: a file needs some content
  provisioner "file" {
    content     = "${var.proxy_ca}\\n"
    destination = "C:/k/image/proxy-ca.pem"
  }
@UPLOADS@
  provisioner "powershell" {
    inline           = ["& 'C:\\\\k\\\\image\\\\features.ps1'"]
    environment_vars = [for name, value in local.environment : "${name}=${value}"]
  }
"""
_RESTART = """
  provisioner "windows-restart" {}
"""
_UPLOAD = """
  provisioner "file" {
    source      = "${path.root}/downloads/"
    destination = "C:/k/image/downloads/"
  }
"""
_FETCH = """
  provisioner "file" {
    direction   = "download"
    source      = "C:/k/image-manifest.json"
    destination = "${path.root}/image-manifest.json"
  }
"""


# what needs more rights than a session over WinRM has
_ELEVATED = """    elevated_user     = build.User
    elevated_password = build.Password
"""


def _format_powershell(script: str, more: str = "") -> str:
    return f"""
  provisioner "powershell" {{
    inline           = ["& 'C:\\\\k\\\\image\\\\{script}.ps1'"]
    environment_vars = [for name, value in local.environment : "${{name}}=${{value}}"]
{more}  }}
"""


def render_declarations(variables: Mapping[str, Any], builder: Builder) -> str:
    """`variables.pkr.hcl`: each variable with its default; None has to be given."""
    blocks = []
    for name, value in variables.items():
        lines = ["  type = string"]
        if value is not None:
            lines.append(f"  default = {_quote(str(value))}")
        if name in builder.secret or name.endswith("_proxy"):
            lines.append("  sensitive = true")
        blocks.append(f'variable "{name}" {{\n' + "\n".join(lines) + "\n}\n")
    return "\n".join(blocks)


def _quote(text: str) -> str:
    """Quote a string for HCL2, in which `${` and `%{` start a template."""
    return json.dumps(text, ensure_ascii=False).replace("${", "$${").replace("%{", "%%{")
