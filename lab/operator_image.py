"""The operator's image and a payload's: made once, put into a registry, pulled by digest, and run as a pod is."""

from __future__ import annotations

import inspect
import json
import secrets
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import msgspec
from image import bill, build, python
from image.progress import run_step

from lab import cache, payload
from transom.oci.image_layout import ImageLayer, Layout, read_image

EPOCH = 1_700_000_000
"""Seconds since 1970: the time of what is made here."""


class ImageError(Exception):
    """A program that works on images failed; the message has the end of what it said."""


def build_base() -> build.Base:
    """Return the base layers, below Transom's own layer; build them once."""
    here = Path(build.__file__).parent
    sources = [
        here / name
        for name in ("build.py", "debian.py", "python.py", "root.py", f"debian-{python.get_native_architecture()}.lock")
    ]
    key = cache.digest([*sources, Path(inspect.getfile(Layout)), python.export_requirements()])

    def make(target: Path) -> None:
        made = build.build_base(python.get_native_architecture(), target, cache.get_directory() / "debian", run_step)
        (target / "layers.json").write_bytes(msgspec.json.encode(made.layers))

    directory = cache.get_entry("image-base", key, make)
    layers = msgspec.json.decode((directory / "layers.json").read_bytes(), type=tuple[ImageLayer, ...])
    return build.Base(python.get_native_architecture(), layers, directory)


def build_layout() -> Path:
    """Return the OCI layout of the operator's image for this machine; build it once."""
    below = build_base()
    project = python.PROJECT
    sources = [path for path in sorted((project / "src").rglob("*")) if path.is_file() and "__pycache__" not in path.parts]
    key = cache.digest([below.directory.name, Path(bill.__file__), project / "pyproject.toml", *sources])

    def make(target: Path) -> None:
        with run_step("building the operator's image"):
            build.write([below], target / "made", target / "layout", EPOCH)
            shutil.rmtree(target / "made")

    return cache.get_entry("image", key, make) / "layout"


def build_payload_layout() -> Path:
    """Return the OCI layout of an image of the lab's payload, built by `transom payload build --image`."""
    directory = payload.build_directory()

    def make(target: Path) -> None:
        with run_step("building the payload's image"):
            made = (
                "payload",
                "build",
                str(directory),
                "--image",
                str(target / "layout"),
                "--architecture",
                python.get_native_architecture(),
            )
            run(sys.executable, "-m", "transom", *made)

    return cache.get_entry("payload-image", directory.name.rpartition("-")[2], make) / "layout"


def build_wheels() -> Path:
    """Return a directory with Transom's wheel and its dependencies, built as docs/image.md describes."""
    wanted = python.export_requirements()
    key = cache.digest([wanted, build_layout().parent.name])

    def make(target: Path) -> None:
        with run_step("fetching wheels"):
            listed = target / "requirements.txt"
            listed.write_text(wanted)
            pip = (f"{sys.base_prefix}/bin/python3", "-m", "pip", "download", "--quiet", "--only-binary", ":all:")
            run(*pip, "--dest", str(target / "wheels"), "--require-hashes", "-r", str(listed))
            python.build(target / "wheels", EPOCH)

    return cache.get_entry("wheels", key, make) / "wheels"


@dataclass(frozen=True)
class Registry:
    """A registry with TLS: `host:port`, and the PEM file of the CA that its certificate is of."""

    name: str
    authority: Path

    def push(self, source: Path, name: str) -> str:
        """Put an OCI layout's image there, under the tag that it has; its full reference, by digest."""
        (entry,) = json.loads((source / "index.json").read_bytes())["manifests"]
        tag = entry["annotations"]["org.opencontainers.image.ref.name"]
        self._run_skopeo("copy", "--all", f"oci:{source}:{tag}", f"docker://{self.name}/{name}:{tag}", way="dest-cert-dir")
        return f"{self.name}/{name}@{entry['digest']}"

    def pull(self, reference: str, target: Path) -> Path:
        """Write the image of a full reference as an OCI layout, under tag `pulled`."""
        self._run_skopeo("copy", f"docker://{reference}", f"oci:{target}:pulled", way="src-cert-dir")
        return target

    def _run_skopeo(self, *words: str, way: str) -> None:
        with tempfile.TemporaryDirectory(prefix="transom-certificates-") as certificates:
            shutil.copy(self.authority, Path(certificates) / "ca.crt")
            run("skopeo", "--insecure-policy", words[0], f"--{way}={certificates}", *words[1:])


class Images:
    """What a node has of a registry's images, below a directory: each is pulled and unpacked once."""

    def __init__(self, registry: Registry, directory: Path) -> None:
        self._registry, self._directory = registry, directory
        self._pulled: dict[str, Path] = {}

    def pull_layout(self, reference: str) -> Path:
        """Pull an image and return its OCI layout."""
        if reference not in self._pulled:
            target = self._directory / f"image-{len(self._pulled)}"
            self._pulled[reference] = self._registry.pull(reference, target)
        return self._pulled[reference]

    def unpack_bundle(self, reference: str) -> Path:
        """Unpack an image as a bundle of the OCI runtime specification: its files and its runtime configuration."""
        source = self.pull_layout(reference)
        target = source.with_name(f"{source.name}-bundle")
        if not target.exists():
            run("umoci", "unpack", "--image", f"{source}:pulled", str(target))
        return target

    def unpack_files(self, reference: str) -> Path:
        """Unpack the files of an image and return their directory."""
        source = self.pull_layout(reference)
        target = source.with_name(f"{source.name}-files")
        if not target.exists():
            _take(source, target)
        return target


class Pod:
    """A pod of a Deployment on this machine: its images, its volumes, the token of its ServiceAccount; runc runs it.

    Not there: probes, limits, a network of its own, and any user but the image's.
    """

    def __init__(self, spec: Mapping[str, Any], images: Images, directory: Path, account: Mapping[str, str]) -> None:
        """`account` is what lies in the directory of a ServiceAccount's token: `token`, `ca.crt`, `namespace`."""
        self._spec, self._images, self._directory = spec, images, directory
        account_files = directory / "account"
        account_files.mkdir(parents=True)
        for name, text in account.items():
            (account_files / name).write_text(text)
        self._sources = {volume["name"]: self._create_volume(volume) for volume in spec["volumes"]}
        self._account = _bind(account_files, "/var/run/secrets/kubernetes.io/serviceaccount", writes=False)

    def initialize(self) -> None:
        """Run the init containers, one after the other. Raises ImageError."""
        for number, container in enumerate(self._spec.get("initContainers", ())):
            run(*self.build_command(container | {"name": f"init-{number}"}, {}))

    def build_command(self, container: Mapping[str, Any], environment: Mapping[str, str], *more: str) -> list[str]:
        """Build the command that runs a container in the foreground, with further variables and arguments."""
        unpacked = self._images.unpack_bundle(container["image"])
        settings = json.loads((unpacked / "config.json").read_text())
        process = settings["process"]
        process |= {"terminal": False, "args": [*container["command"], *container["args"], *more], "noNewPrivileges": True}
        variables = {item["name"]: item["value"] for item in container.get("env", ())}
        process["env"] += [f"{name}={value}" for name, value in {**variables, **environment}.items()]
        process["capabilities"] = {}
        process.pop("rlimits", None)
        read_only = bool(container["securityContext"]["readOnlyRootFilesystem"])
        settings["root"] = {"path": str(unpacked / "rootfs"), "readonly": read_only}
        settings["linux"] = {"namespaces": [{"type": kind} for kind in ("pid", "ipc", "uts", "mount")]}
        mounts = [
            _bind(self._sources[volume_mount["name"]], volume_mount["mountPath"], writes=not volume_mount.get("readOnly"))
            for volume_mount in container["volumeMounts"]
        ]
        settings["mounts"] = [mount for mount in settings["mounts"] if mount["destination"] in ("/proc", "/dev")]
        settings["mounts"] += [*mounts, self._account, _bind(Path("/etc/hosts"), "/etc/hosts", writes=False)]
        bundle = self._directory / f"container-{container['name']}"
        bundle.mkdir()
        (bundle / "config.json").write_text(json.dumps(settings))
        # also the name of its control groups, which all of this machine's containers share
        name = f"transom-lab-{secrets.token_hex(8)}"
        return [_find_runc(), "--root", str(self._directory / "runc"), "run", "--bundle", str(bundle), name]

    def _create_volume(self, volume: Mapping[str, Any]) -> Path:
        if "image" in volume:
            return self._images.unpack_files(volume["image"]["reference"])
        target = self._directory / f"volume-{volume['name']}"
        target.mkdir()
        # as the kubelet makes an emptyDir
        target.chmod(0o777)
        return target


def _find_runc() -> str:
    # Debian has it where only root's PATH leads
    return shutil.which("runc") or "/usr/sbin/runc"


def unpack_image(source: Path) -> Path:
    """Return the files of an image for this machine's architecture, unpacked once; do not change them."""
    index = json.loads((source / "index.json").read_bytes())
    key = index["manifests"][0]["digest"].removeprefix("sha256:")[: cache.KEY_LENGTH]
    return cache.get_entry("image-files", key, lambda target: _take(source, target / "files")) / "files"


def _take(source: Path, target: Path) -> None:
    target.mkdir()
    for layer in read_image(source, python.get_native_architecture()).layers:
        run("tar", "-C", str(target), "--no-same-owner", "-xzf", str(source / "blobs" / "sha256" / layer.digest))


def _bind(source: Path, target: str, *, writes: bool) -> dict[str, Any]:
    options = ["rbind", "rw" if writes else "ro"]
    return {"destination": target, "type": "bind", "source": str(source), "options": options}


def run(*command: str) -> str:
    """Run a command and return its output. Raises ImageError."""
    done = subprocess.run(command, capture_output=True, text=True, check=False, stdin=subprocess.DEVNULL)
    if done.returncode != 0:
        raise ImageError(f"{' '.join(command[:3])} failed: {(done.stderr or done.stdout)[-2000:]}")
    return done.stdout
