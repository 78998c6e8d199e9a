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
from image.progress import step

from lab import cache, payload
from transom.image_layout import ImageLayer, Layout, read

EPOCH = 1_700_000_000
"""Seconds since 1970: the time of what is made here."""


class ImageError(Exception):
    """A program that works on images failed; the message has the end of what it said."""


def base() -> build.Base:
    """What is below Transom's own layer."""
    here = Path(build.__file__).parent
    sources = [here / name for name in ("build.py", "debian.py", "python.py", "root.py", f"debian-{python.native()}.lock")]
    key = cache.digest([*sources, Path(inspect.getfile(Layout)), python.requirements()])

    def make(target: Path) -> None:
        made = build.base(python.native(), target, cache.directory() / "debian", step)
        (target / "layers.json").write_bytes(msgspec.json.encode(made.layers))

    found = cache.entry("image-base", key, make)
    layers = msgspec.json.decode((found / "layers.json").read_bytes(), type=tuple[ImageLayer, ...])
    return build.Base(python.native(), layers, found)


def layout() -> Path:
    """The OCI layout of the operator's image for this machine."""
    below = base()
    project = python.PROJECT
    sources = [one for one in sorted((project / "src").rglob("*")) if one.is_file() and "__pycache__" not in one.parts]
    key = cache.digest([below.directory.name, Path(bill.__file__), project / "pyproject.toml", *sources])

    def make(target: Path) -> None:
        with step("building the operator's image"):
            build.write([below], target / "made", target / "layout", EPOCH)
            shutil.rmtree(target / "made")

    return cache.entry("image", key, make) / "layout"


def payload_layout() -> Path:
    """The OCI layout of an image of the lab's payload, by `transom payload build --image`."""
    directory = payload.directory()

    def make(target: Path) -> None:
        with step("building the payload's image"):
            made = ("payload", "build", str(directory), "--image", str(target / "layout"), "--architecture", python.native())
            run(sys.executable, "-m", "transom", *made)

    return cache.entry("payload-image", directory.name.rpartition("-")[2], make) / "layout"


def wheels() -> Path:
    """A directory with Transom's wheel and those that it needs, as docs/image.md has it made."""
    wanted = python.requirements()
    key = cache.digest([wanted, layout().parent.name])

    def make(target: Path) -> None:
        with step("fetching wheels"):
            listed = target / "requirements.txt"
            listed.write_text(wanted)
            pip = (f"{sys.base_prefix}/bin/python3", "-m", "pip", "download", "--quiet", "--only-binary", ":all:")
            run(*pip, "--dest", str(target / "wheels"), "--require-hashes", "-r", str(listed))
            python.build(target / "wheels", EPOCH)

    return cache.entry("wheels", key, make) / "wheels"


@dataclass(frozen=True)
class Registry:
    """A registry with TLS: `host:port`, and the PEM file of the CA that its certificate is of."""

    name: str
    authority: Path

    def push(self, source: Path, name: str) -> str:
        """Put an OCI layout's image there, under the tag that it has; its full reference, by digest."""
        (entry,) = json.loads((source / "index.json").read_bytes())["manifests"]
        tag = entry["annotations"]["org.opencontainers.image.ref.name"]
        self._skopeo("copy", "--all", f"oci:{source}:{tag}", f"docker://{self.name}/{name}:{tag}", way="dest-cert-dir")
        return f"{self.name}/{name}@{entry['digest']}"

    def pull(self, reference: str, target: Path) -> Path:
        """Write the image of a full reference as an OCI layout, under tag `pulled`."""
        self._skopeo("copy", f"docker://{reference}", f"oci:{target}:pulled", way="src-cert-dir")
        return target

    def _skopeo(self, *words: str, way: str) -> None:
        with tempfile.TemporaryDirectory(prefix="transom-certificates-") as certificates:
            shutil.copy(self.authority, Path(certificates) / "ca.crt")
            run("skopeo", "--insecure-policy", words[0], f"--{way}={certificates}", *words[1:])


class Images:
    """What a node has of a registry's images, below a directory: each is pulled and unpacked once."""

    def __init__(self, registry: Registry, directory: Path) -> None:
        self._registry, self._directory = registry, directory
        self._pulled: dict[str, Path] = {}

    def layout(self, reference: str) -> Path:
        """An image as an OCI layout."""
        if reference not in self._pulled:
            target = self._directory / f"image-{len(self._pulled)}"
            self._pulled[reference] = self._registry.pull(reference, target)
        return self._pulled[reference]

    def bundle(self, reference: str) -> Path:
        """A bundle of the OCI runtime specification: the files of an image, and how its configuration wants them run."""
        source = self.layout(reference)
        target = source.with_name(f"{source.name}-bundle")
        if not target.exists():
            run("umoci", "unpack", "--image", f"{source}:pulled", str(target))
        return target

    def files(self, reference: str) -> Path:
        """The files of an image."""
        source = self.layout(reference)
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
        self._sources = {volume["name"]: self._volume(volume) for volume in spec["volumes"]}
        self._account = _bind(account_files, "/var/run/secrets/kubernetes.io/serviceaccount", writes=False)

    def initialize(self) -> None:
        """Run the init containers, one after the other. Raises ImageError."""
        for number, container in enumerate(self._spec.get("initContainers", ())):
            run(*self.command(container | {"name": f"init-{number}"}, {}))

    def command(self, container: Mapping[str, Any], environment: Mapping[str, str], *more: str) -> list[str]:
        """What runs a container in the foreground, with further variables and arguments."""
        unpacked = self._images.bundle(container["image"])
        settings = json.loads((unpacked / "config.json").read_text())
        process = settings["process"]
        process |= {"terminal": False, "args": [*container["command"], *container["args"], *more], "noNewPrivileges": True}
        given = {one["name"]: one["value"] for one in container.get("env", ())}
        process["env"] += [f"{name}={value}" for name, value in {**given, **environment}.items()]
        process["capabilities"] = {}
        process.pop("rlimits", None)
        read_only = bool(container["securityContext"]["readOnlyRootFilesystem"])
        settings["root"] = {"path": str(unpacked / "rootfs"), "readonly": read_only}
        settings["linux"] = {"namespaces": [{"type": kind} for kind in ("pid", "ipc", "uts", "mount")]}
        mounts = [
            _bind(self._sources[one["name"]], one["mountPath"], writes=not one.get("readOnly"))
            for one in container["volumeMounts"]
        ]
        settings["mounts"] = [one for one in settings["mounts"] if one["destination"] in ("/proc", "/dev")]
        settings["mounts"] += [*mounts, self._account, _bind(Path("/etc/hosts"), "/etc/hosts", writes=False)]
        bundle = self._directory / f"container-{container['name']}"
        bundle.mkdir()
        (bundle / "config.json").write_text(json.dumps(settings))
        # also the name of its control groups, which all of this machine's containers share
        name = f"transom-lab-{secrets.token_hex(8)}"
        return [_runc(), "--root", str(self._directory / "runc"), "run", "--bundle", str(bundle), name]

    def _volume(self, volume: Mapping[str, Any]) -> Path:
        if "image" in volume:
            return self._images.files(volume["image"]["reference"])
        target = self._directory / f"volume-{volume['name']}"
        target.mkdir()
        # as the kubelet makes an emptyDir
        target.chmod(0o777)
        return target


def _runc() -> str:
    # Debian has it where only root's PATH leads
    return shutil.which("runc") or "/usr/sbin/runc"


def unpacked(source: Path) -> Path:
    """The files of an image of this machine's architecture, unpacked once: not to be changed."""
    index = json.loads((source / "index.json").read_bytes())
    key = index["manifests"][0]["digest"].removeprefix("sha256:")[: cache.KEY_LENGTH]
    return cache.entry("image-files", key, lambda target: _take(source, target / "files")) / "files"


def _take(source: Path, target: Path) -> None:
    target.mkdir()
    for layer in read(source, python.native()).layers:
        run("tar", "-C", str(target), "--no-same-owner", "-xzf", str(source / "blobs" / "sha256" / layer.digest))


def _bind(source: Path, target: str, *, writes: bool) -> dict[str, Any]:
    options = ["rbind", "rw" if writes else "ro"]
    return {"destination": target, "type": "bind", "source": str(source), "options": options}


def run(*command: str) -> str:
    """What a command printed. Raises ImageError."""
    done = subprocess.run(command, capture_output=True, text=True, check=False, stdin=subprocess.DEVNULL)
    if done.returncode != 0:
        raise ImageError(f"{' '.join(command[:3])} failed: {(done.stderr or done.stdout)[-2000:]}")
    return done.stdout
