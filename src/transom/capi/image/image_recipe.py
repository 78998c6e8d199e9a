"""The image that Windows workers boot from, as files: a Packer template in HCL2, its scripts, cloudbase-init, a manifest."""

import hashlib
import importlib.resources
import re
from collections.abc import Iterator, Mapping
from typing import Any

import msgspec

from transom.capi.check import upstream_image as upstream
from transom.capi.check.input_checks import VERSION
from transom.capi.image import cloudbase_init
from transom.capi.image.inputs import Download, ImageInputs
from transom.capi.image.inputs import iter_downloads as needed
from transom.capi.image.template import render_declarations, render_template, select_builder
from transom.capi.providers.provider import Builder
from transom.capi.worker.windows_release import RELEASES, build_image_name, select_pause_image

_SHA256 = re.compile(r"[0-9A-Fa-f]{64}\Z")
_PACKAGE = "transom.capi"


class InvalidRecipe(ValueError):
    """An input of an image that cannot be; the message names it and says what to do instead."""


class Recipe(msgspec.Struct, frozen=True):
    """The files by path, and what the build downloads."""

    files: dict[str, bytes]
    downloads: tuple[Download, ...]


def build_recipe(inputs: ImageInputs, local: Mapping[str, str] | None = None) -> Recipe:
    """Build the recipe. `local` are files for an offline build with their SHA-256. Raises InvalidRecipe."""
    _validate_inputs(inputs)
    downloads = tuple(needed(inputs))
    builder = select_builder(inputs)
    variables = _build_variables(inputs, builder, downloads)
    unknown = [name for name in inputs.variables if name not in variables]
    if unknown:
        raise InvalidRecipe(f"{unknown[0]} is not a variable of this image; valid variables: {', '.join(sorted(variables))}")
    variables |= inputs.variables
    hashes = {download.checksum: variables[download.checksum] for download in downloads}
    for name, value in hashes.items():
        if value and not _SHA256.match(value):
            raise InvalidRecipe(f"{name}: a SHA-256 hash must have 64 hex digits")
    files = {f"scripts/{name}": content for name, content in _iter_scripts(inputs)}
    files["windows.pkr.hcl"] = render_template(inputs, builder, downloads, offline=local is not None).encode()
    files["variables.pkr.hcl"] = render_declarations(variables, builder).encode()
    files["manifest.json"] = _build_manifest(inputs, files, downloads, variables, local or {})
    return Recipe(files, downloads)


def _validate_inputs(inputs: ImageInputs) -> None:
    if not VERSION.match(inputs.kubernetes_version):
        raise InvalidRecipe(f"{inputs.kubernetes_version!r} is not a version of the form v1.N.M")
    if re.search(r"[+-]", inputs.kubernetes_version) and "kubernetes_base_url" not in inputs.variables:
        raise InvalidRecipe(
            f"{inputs.kubernetes_version} is a vendor's: say where it is published, --var kubernetes_base_url=…"
        )
    if "@" in inputs.variables.get("secret_store_proxy", ""):
        raise InvalidRecipe("secret_store_proxy: it stays on the image, which everybody can read: give one without credentials")
    _validate_variables(inputs)
    if inputs.windows not in RELEASES:
        raise InvalidRecipe(f"Kubernetes does not list Windows Server {inputs.windows!r}: one of {', '.join(RELEASES)}")


def _validate_variables(inputs: ImageInputs) -> None:
    variables = inputs.variables
    for name in _SWITCHES:
        if variables.get(name, "false") not in ("true", "false"):
            raise InvalidRecipe(f"{name}: true or false, not {variables[name]!r}")
    if variables.get("disable_hypervisor") == "true" and variables.get("hyper_v") != "true":
        raise InvalidRecipe("disable_hypervisor requires hyper_v=true: without it no hypervisor exists")
    if variables.get("credential_provider_url") and not variables.get("credential_provider_sha256"):
        raise InvalidRecipe("credential_provider_url requires credential_provider_sha256, to verify the download")
    unnamed = inputs.provider not in _CREDENTIAL_PROVIDERS and not variables.get("credential_provider_name")
    if variables.get("credential_provider_url") and unnamed:
        raise InvalidRecipe("credential_provider_name: missing, what the kubelet's configuration calls the program")
    version = variables.get("sig_image_version", "")
    if version and not re.fullmatch(r"\d+\.\d+\.\d+", version):
        raise InvalidRecipe(f"sig_image_version: three numbers with dots, not {version!r}")
    for name, pattern in _LISTS.items():
        if not re.fullmatch(pattern, variables.get(name, "")):
            raise InvalidRecipe(f"{name}: {variables[name]!r} is none, see docs/windows-images.md")


_SWITCHES = ("automatic_updates", "windows_updates", "hyper_v", "disable_hypervisor", "cloudbase_real_time_clock_utc")
_LISTS = {
    "windows_updates_kbs": r"((KB)?\d+( (KB)?\d+)*)?",
    "windows_updates_categories": r"([A-Za-z]+( [A-Za-z]+)*)?",
    "additional_registry_images_list": r"([A-Za-z0-9][^\s,\"'`$;&|<>]*(,[A-Za-z0-9][^\s,\"'`$;&|<>]*)*)?",
    "cloudbase_logging_serial_port": r"(COM\d,\d+,[NEO],[5-8])?",
    "credential_provider_name": r"([A-Za-z0-9][A-Za-z0-9._-]*)?",
}
_CREDENTIAL_PROVIDERS = {
    "azure": upstream.ACR_PROVIDER.value,
    "aws": upstream.ECR_PROVIDER.value,
}
"""The name in the kubelet's configuration, by provider."""


def _build_variables(inputs: ImageInputs, builder: Builder, downloads: tuple[Download, ...]) -> dict[str, Any]:
    made: dict[str, Any] = {
        **{item.variable: item.url for item in downloads},
        "kubernetes_base_url": next(item.url.rsplit("/", 1)[0] for item in downloads if item.name == "kubelet"),
        **{item.checksum: item.sha256 for item in downloads},
        "pause_image": select_pause_image(inputs.windows, inputs.kubernetes_version),
        "disk_size": "100",
        # of the build alone; those of the machines come at their first boot
        "http_proxy": "",
        "https_proxy": "",
        "no_proxy": "",
        "proxy_ca": "",
        "automatic_updates": "false",
        "windows_updates": "false",
        "windows_updates_kbs": "",
        "windows_updates_categories": "",
        "hyper_v": "false",
        "disable_hypervisor": "false",
        "additional_registry_images_list": "",
        "cloudbase_real_time_clock_utc": "false",
        "cloudbase_logging_serial_port": "",
        "credential_provider_url": "",
        "credential_provider_sha256": "",
        "credential_provider_name": _CREDENTIAL_PROVIDERS.get(inputs.provider, ""),
    }
    return {**made, **builder.variables}


def _iter_scripts(inputs: ImageInputs) -> Iterator[tuple[str, bytes]]:
    names = ["common", "features", "hns", "openssh", "containerd", "kubernetes", "cni", "pause", "cloudbase-init"]
    if inputs.variables.get("credential_provider_url"):
        names.append("credential-provider")
    names += ["updates", "transom-image-check", "manifest", "finish", "winrm-off"]
    if inputs.provider == "azure":
        names.append("azure")
    for name in names:
        yield f"{name}.ps1", _read_file(f"{name}.ps1")
    yield "sysprep.ps1", _read_file(f"sysprep-{select_builder(inputs).sysprep}.ps1")
    if "scripts/winrm.ps1" in select_builder(inputs).body:
        script = _read_file("winrm.ps1")
        tagged = b"<powershell>\r\n" + script + b"</powershell>\r\n"
        yield "winrm.ps1", script if inputs.provider == "gcp" else tagged
    yield "containerd.toml", _read_file("containerd.toml")
    yield "sshd_config", _read_file("sshd_config")
    yield "cloudbase-init.conf", cloudbase_init.render_service_config(inputs)
    yield "cloudbase-init-unattend.conf", cloudbase_init.render_unattended_config()
    if inputs.provider == "aws":
        yield "transom_boothook.py", _read_file("transom_boothook.py")
        yield "transom_ec2.py", _read_file("transom_ec2.py")


def _build_manifest(
    inputs: ImageInputs,
    files: Mapping[str, bytes],
    downloads: tuple[Download, ...],
    variables: Mapping[str, Any],
    local: Mapping[str, str],
) -> bytes:
    """List the image's content: our own files with their SHA-256, the downloads with theirs or with their verification."""
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
        "image": build_image_name(inputs.windows, inputs.kubernetes_version),
        "provider": inputs.provider,
        "windows": {"year": inputs.windows, "build": RELEASES[inputs.windows].build},
        "kubernetes": inputs.kubernetes_version,
        "pauseImage": variables["pause_image"],
        "downloads": listed,
        "files": {name: hashlib.sha256(content).hexdigest() for name, content in sorted(files.items())},
        "licence": "The base image is Windows Server, which needs a licence; Transom brings none.",
    }
    return msgspec.json.format(msgspec.json.encode(made), indent=2) + b"\n"


def _read_file(name: str) -> bytes:
    text = (importlib.resources.files(_PACKAGE) / "image" / "files" / name).read_text("utf-8")
    return text.replace("\n", "\r\n").encode()
