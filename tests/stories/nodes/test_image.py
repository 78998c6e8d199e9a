"""The operator's image and a payload's: what is in them, that they are the same bytes when made again, and that they run."""

import asyncio
import hashlib
import json
import os
import re
import shutil
import sys
import time
from pathlib import Path

import pytest
from image import bill, build, python, root
from lab.operator_image import EPOCH, Images, Pod, Registry
from packaging.requirements import Requirement
from tests.support.operator.containers import pod_spec
from tests.support.operator.installation import Installation
from tests.support.pages import on_cluster, run_by
from tests.support.process import run
from tests.support.workers.payloads import write

from lab import operator_image
from transom import __version__
from transom.hosts.steps.payload_directory import PayloadDirectory
from transom.oci.image_layout import read_image

pytestmark = pytest.mark.lab
LARGEST = 120_000_000
"""Bytes of the image, packed."""
LOOKS = """
import json, os, ssl
def writes(path):
    try:
        open(os.path.join(path, "x"), "w").close()
    except OSError as error:
        return error.errno
    return 0
told = {path: writes(path) for path in ("/", "/usr/local/bin", "/home/nonroot", "/tmp", "/var/cache/transom")}
status = dict(line.split(":", 1) for line in open("/proc/self/status"))
print(json.dumps({
    "ids": [*os.getresuid(), *os.getresgid(), *os.getgroups()],
    "capabilities": [status[name].strip() for name in ("CapPrm", "CapEff", "CapBnd")],
    "authorities": ssl.create_default_context().cert_store_stats()["x509_ca"],
    "writes": told,
}))
"""


def test_it_runs_as_nobody_on_a_root_that_it_cannot_write(image: str, images: Images, tmp_path: Path) -> None:
    spec = pod_spec("--image", image)
    assert (spec["containers"][0]["image"], "@sha256:" in image) == (image, True)
    running = Pod(spec, images, tmp_path / "pod", {})
    version = running.build_command(spec["containers"][0] | {"args": ["--version"], "name": "version"}, {})
    assert operator_image.run(*version).split()[:2] == ["transom", __version__]
    looks = spec["containers"][0] | {"name": "looks", "command": ["python3.11"], "args": ["-c", LOOKS]}
    told = json.loads(operator_image.run(*running.build_command(looks, {})))
    assert told["ids"][:6] == [root.USER] * 6
    assert {int(capability, 16) for capability in told["capabilities"]} == {0}
    assert told["authorities"] > 100
    refused = {path for path, error in told["writes"].items() if error}
    assert refused == {"/", "/usr/local/bin", "/home/nonroot"}


def test_its_size_and_its_bill_of_materials() -> None:
    # a fifth of what the collection of all tests costs: they bring a grammar of URLs, and compile it
    from cyclonedx.schema import SchemaVersion
    from cyclonedx.validation.json import JsonStrictValidator

    layout = operator_image.build_layout()
    assert sum(layer.size for layer in read_image(layout, python.get_native_architecture()).layers) <= LARGEST
    made = operator_image.unpack_image(layout)
    text = (made / bill.FILE).read_text("utf-8")
    assert JsonStrictValidator(SchemaVersion.V1_6).validate_str(text) is None
    found = {component["purl"].partition("?")[0] for component in json.loads(text)["components"]}
    lines = [Requirement(line.rstrip(" \\")) for line in python.export_requirements().splitlines() if "==" in line]
    here = {"sys_platform": "linux", "python_version": "3.11", "python_full_version": "3.11.2"}
    wanted = {f"{line.name}{line.specifier}" for line in lines if line.marker is None or line.marker.evaluate(here)}
    assert {f"pkg:pypi/{item.replace('==', '@')}" for item in wanted} | {f"pkg:pypi/transom@{__version__}"} == {
        item for item in found if item.startswith("pkg:pypi/")
    }
    told = {file.name for file in (made / "var/lib/dpkg/status.d").iterdir()}
    assert told == {item.removeprefix("pkg:deb/debian/").partition("@")[0] for item in found if item.startswith("pkg:deb/")}
    assert {"libc6", "libssl3", "python3.11-minimal", "ca-certificates"} < told


def test_the_same_bytes_in_another_place_and_on_another_day(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    # the image in the cache may be of an earlier commit, which it names
    expected = build.write([operator_image.build_base()], tmp_path / "expected", tmp_path / "first", EPOCH)
    before = os.umask(0o077)
    monkeypatch.setenv("TZ", "Asia/Tokyo")
    time.tzset()
    try:
        digest = build.write([operator_image.build_base()], tmp_path / "made", tmp_path / "layout", EPOCH)
    finally:
        os.umask(before)
        monkeypatch.undo()
        time.tzset()
    assert digest == expected
    # what `--root` writes for the Containerfile
    build.merge(operator_image.build_base(), tmp_path / "made" / python.get_native_architecture(), tmp_path / "root")
    assert content(tmp_path / "root") == content(operator_image.unpack_image(tmp_path / "layout"))


def test_an_init_container_copies_a_payload_out_of_its_image(
    image: str, images: Images, registry: Registry, tmp_path: Path
) -> None:
    source, layout = write(tmp_path / "payload"), tmp_path / "layout"
    (source / "notes.txt").write_text("no part of it")
    made = run("payload", "build", str(source), "--image", str(layout), "--base", str(operator_image.build_layout()))
    assert made.returncode == 0, made.stderr
    version = PayloadDirectory.open(source).payload.version
    payload_image = registry.push(layout, "payload")
    assert f"--payload-image REGISTRY/NAME:{version}@{payload_image.partition('@')[2]}" in made.stderr
    spec = pod_spec("--image", image, "--payload-image", payload_image, "--payload-copied")
    running = Pod(spec, images, tmp_path / "pod", {})
    running.initialize()
    copied = tmp_path / "pod" / "volume-payload"
    assert PayloadDirectory.open(copied).identity == PayloadDirectory.open(source).identity
    names = {path.relative_to(copied).as_posix() for path in copied.rglob("*") if path.is_file()}
    assert names == PayloadDirectory.open(source).parts.keys()


async def test_an_installation_from_a_mirror_directory(
    images: Images, registry: Registry, installed: Installation, tmp_path: Path
) -> None:
    """The lines of the page, with the lab's registry and no other way out; then the pods' images are there."""
    (block,) = run_by("tests/stories/nodes/test_image.py::test_an_installation_from_a_mirror_directory")
    mirror = tmp_path / "mirror"
    mirror.mkdir()
    for name, made in (
        ("transom", operator_image.build_layout()),
        ("payload", operator_image.build_payload_layout()),
        ("wheels", operator_image.build_wheels()),
    ):
        (mirror / name).symlink_to(made)
    uv = shutil.which("uv")
    assert uv is not None
    path = (tmp_path / "bin", Path(uv).parent, installed.control_plane.programs, "/usr/bin", "/bin")
    nowhere = "http://127.0.0.1:9"
    more = {
        "PATH": os.pathsep.join(map(str, path)),
        "UV_TOOL_BIN_DIR": str(tmp_path / "bin"),
        "UV_TOOL_DIR": str(tmp_path / "tools"),
        "UV_CACHE_DIR": str(tmp_path / "cache"),
        "UV_PYTHON": f"{sys.base_prefix}/bin/python3",
        "SSL_CERT_FILE": str(registry.authority),
        **dict.fromkeys(("HTTP_PROXY", "HTTPS_PROXY", "http_proxy", "https_proxy"), nowhere),
        **dict.fromkeys(("NO_PROXY", "no_proxy"), "127.0.0.1,10.0.0.0/8"),
    }
    lines = "\n".join(block.lines).replace("registry.example", registry.name)
    try:
        said = await on_cluster(tmp_path, installed.control_plane, lines, **more)
        assert "deployment.apps/transom" in said
        shown = await installed.kubectl("get", "deployment", "transom", "-n", installed.namespace, "-o", "json")
        spec = json.loads(shown)["spec"]["template"]["spec"]
        (volume,) = (volume["image"]["reference"] for volume in spec["volumes"] if "image" in volume)
        for reference in (spec["containers"][0]["image"], volume):
            assert reference.startswith(f"{registry.name}/")
            assert read_image(await asyncio.to_thread(images.pull_layout, reference), python.get_native_architecture()).layers
    finally:
        await installed.install()


def test_the_container_file_runs_what_scripts_image_writes_as_the_image_says() -> None:
    lines = (python.PROJECT / "image" / "Containerfile").read_text("utf-8").partition("FROM scratch\n")
    told: dict[str, str] = dict(line.split(" ", 1) for line in lines[2].splitlines())
    (made,) = re.findall(r"scripts/image (\S+) --root$", lines[0], re.MULTILINE)
    assert told == {
        "COPY": f"--from=build {made}/ /",
        "USER": root.CONFIG["User"],
        "ENV": " ".join(root.CONFIG["Env"]),
        "WORKDIR": root.CONFIG["WorkingDir"],
        "ENTRYPOINT": json.dumps(root.CONFIG["Entrypoint"]),
    }


def content(tree: Path) -> dict[str, bytes | str]:
    """What is in each file, and where each link leads."""
    found: dict[str, bytes | str] = {}
    for path in tree.rglob("*"):
        if path.is_symlink():
            found[str(path.relative_to(tree))] = str(path.readlink())
        elif path.is_file():
            found[str(path.relative_to(tree))] = hashlib.sha256(path.read_bytes()).digest()
    return found
