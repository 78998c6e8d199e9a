"""A release: its workflow, and the commands of its steps, which run here as far as they need no service of GitHub."""

import json
import os
import re
import shutil
import socket
import subprocess
import sys
import zipfile
from collections.abc import AsyncIterator, Mapping
from pathlib import Path
from typing import Any

import pytest
import yaml
from image.bill import FILE, BillMissing, read_bill
from lab.ports import reserve
from lab.process import Process
from tests.support.repository import ROOT
from tests.support.waiting import until

from lab import build
from transom import __version__
from transom.oci.image_layout import Image, Layout, LayoutError

WORKFLOWS = sorted((ROOT / ".github" / "workflows").glob("*.yaml"))
RELEASE = ROOT / ".github" / "workflows" / "release.yaml"
PINNED = re.compile(r"uses: (?:\./\S+|[\w.-]+/[\w./-]+@[0-9a-f]{40} # v\d+\.\d+\.\d+)")
TAG = f"v{__version__}"


def jobs() -> dict[str, Any]:
    found: dict[str, Any] = yaml.safe_load(RELEASE.read_text("utf-8"))["jobs"]
    return found


def run_of(name: str) -> str:
    """Return the commands of a step of the release."""
    (step,) = (step for job in jobs().values() for step in job.get("steps", ()) if step.get("name") == name)
    return str(step["run"])


def run_step(name: str, directory: Path, environment: Mapping[str, str]) -> subprocess.CompletedProcess[str]:
    """Run the commands of a step as GitHub does: with `bash -e`, and pipes that fail."""
    command = ["bash", "--noprofile", "--norc", "-eo", "pipefail", "-c", run_of(name)]
    variables = {**os.environ, **environment}
    return subprocess.run(command, cwd=directory, env=variables, capture_output=True, text=True, check=False)


@pytest.mark.lab
@pytest.mark.parametrize("file", WORKFLOWS, ids=lambda file: str(file.stem))
def test_each_workflow_is_one(file: Path) -> None:
    schema = ["check-jsonschema", "--builtin-schema", "vendor.github-workflows"]
    lint = [str(build.build_program(build.ACTIONLINT)), "-shellcheck=", "-pyflakes="]
    for command in (schema, lint):
        ended = subprocess.run([*command, file], capture_output=True, text=True, check=False)
        assert ended.returncode == 0, ended.stdout + ended.stderr


@pytest.mark.parametrize("file", WORKFLOWS, ids=lambda file: str(file.stem))
def test_each_action_is_pinned_and_a_token_can_only_read_unless_a_job_needs_more(file: Path) -> None:
    text = file.read_text("utf-8")
    assert [line.strip() for line in text.splitlines() if "uses:" in line and not PINNED.search(line)] == []
    workflow = yaml.safe_load(text)
    assert workflow["permissions"] == {"contents": "read"}
    checkouts = [
        step
        for job in workflow["jobs"].values()
        for step in job.get("steps", ())
        if str(step.get("uses", "")).startswith("actions/checkout@") and file.stem != "windows"
    ]
    assert all(step["with"]["persist-credentials"] is False for step in checkouts)


def test_nothing_is_published_before_the_tests_and_the_build_have_passed() -> None:
    assert {name: set(job.get("needs", ())) for name, job in jobs().items()} == {
        "test": set(),
        "build": set(),
        "registry": {"test", "build"},
        "pypi": {"test", "build"},
        "github": {"registry", "pypi"},
    }
    assert jobs()["pypi"]["permissions"] == {"id-token": "write"}
    assert "secrets." not in RELEASE.read_text("utf-8")


NOTES: dict[str, tuple[str, dict[str, str], str]] = {
    "another version": ("v9.9.9", {}, "src/transom/__init__.py"),
    "no version": ("0.1.0", {}, "vX.Y.Z"),
    "no section": (TAG, {"CHANGELOG.md": "# Changelog\n\n## Unreleased\n\n- It.\n"}, "CHANGELOG.md"),
    "an empty section": (
        TAG,
        {"CHANGELOG.md": f"## {__version__} - 2026-11-23\n\n## 0.0.1 - 2026-01-01\n\n- It.\n"},
        "CHANGELOG.md",
    ),
    "another chart": (TAG, {"charts/transom/Chart.yaml": 'version: "9.9.9"\nappVersion: "9.9.9"\n'}, "Chart.yaml"),
}


def copied(directory: Path, files: Mapping[str, str]) -> Path:
    """Return a tree with what the step reads, where `files` have other texts."""
    for name in ("scripts/notes", "src/transom/__init__.py", "charts/transom/Chart.yaml", "CHANGELOG.md"):
        target = directory / name
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(ROOT / name, target)
        if name in files:
            target.write_text(files[name], "utf-8")
    return directory


@pytest.mark.parametrize("name", NOTES)
def test_a_tag_that_does_not_fit_makes_no_release(name: str, tmp_path: Path) -> None:
    tag, files, told = NOTES[name]
    tree = copied(tmp_path / "tree", files)
    done = run_step("Check the tag and write the notes", tree, {"GITHUB_REF_NAME": tag, "RUNNER_TEMP": str(tmp_path)})
    assert done.returncode != 0
    assert told in done.stderr


def test_the_notes_are_the_section_of_the_changelog(tmp_path: Path) -> None:
    sections = (
        "Unreleased\n\n- Later.",
        f"{__version__} - 2026-11-23\n\n### Added\n\n- It.",
        "0.0.1 - 2026-01-01\n\n- Before.",
    )
    text = "# Changelog\n\n" + "".join(f"## {section}\n\n" for section in sections)
    tree = copied(tmp_path / "tree", {"CHANGELOG.md": text})
    done = run_step("Check the tag and write the notes", tree, {"GITHUB_REF_NAME": TAG, "RUNNER_TEMP": str(tmp_path)})
    assert done.returncode == 0, done.stderr
    assert (tmp_path / "release" / "notes.md").read_text("utf-8").strip() == "### Added\n\n- It."


def small_image(directory: Path, architectures: tuple[str, ...] = ("amd64", "arm64")) -> str:
    """Write the layout of an image that has a bill of materials alone; return its digest."""
    layout = Layout(directory, 0)
    images = []
    for architecture in architectures:
        tree = directory.parent / architecture
        (tree / FILE).parent.mkdir(parents=True)
        (tree / FILE).write_text(json.dumps({"bomFormat": "CycloneDX", "of": architecture}))
        images.append(Image((layout.write_layer(tree),), architecture, {}))
    return layout.write(images, __version__, {})


def test_the_bill_of_materials_is_the_one_of_the_image(tmp_path: Path) -> None:
    small_image(tmp_path / "image")
    for architecture in ("amd64", "arm64"):
        assert json.loads(read_bill(tmp_path / "image", architecture))["of"] == architecture
    with pytest.raises(LayoutError):
        read_bill(tmp_path / "image", "riscv64")
    empty = Layout(tmp_path / "empty", 0)
    (tmp_path / "nothing").mkdir()
    empty.write([Image((empty.write_layer(tmp_path / "nothing"),), "amd64", {})], "1", {})
    with pytest.raises(BillMissing):
        read_bill(tmp_path / "empty", "amd64")


@pytest.fixture
async def registry(tmp_path: Path) -> AsyncIterator[str]:
    """Return the address of a registry that speaks HTTP."""
    port = reserve()
    settings = tmp_path / "registry.yaml"
    settings.write_text(
        "version: 0.1\nlog: {level: warn, accesslog: {disabled: true}}\n"
        f"storage: {{filesystem: {{rootdirectory: {tmp_path}/registry}}}}\nhttp: {{addr: '127.0.0.1:{port}'}}\n"
    )
    process = Process(["docker-registry", "serve", settings], tmp_path / "registry.log")
    try:
        await until(lambda: is_open(port))
        yield f"127.0.0.1:{port}"
    finally:
        process.stop()


def is_open(port: int) -> bool:
    with socket.socket() as client:
        return client.connect_ex(("127.0.0.1", port)) == 0


@pytest.mark.lab
def test_two_commits_make_two_versions(tmp_path: Path) -> None:
    """The wheel, by way of the sdist, has the commit; that of changed files says so."""
    tree = tmp_path / "tree"
    for name in ("pyproject.toml", "hatch_build.py", "README.md", "LICENSE", "CHANGELOG.md", "docs/transom.1", "src"):
        source, target = ROOT / name, tree / name
        target.parent.mkdir(parents=True, exist_ok=True)
        if source.is_dir():
            shutil.copytree(source, target, ignore=shutil.ignore_patterns("__pycache__"))
        else:
            shutil.copy(source, target)
    git = ["git", "-C", str(tree), "-c", "user.name=a", "-c", "user.email=a@example.com"]
    subprocess.run([*git, "init", "--quiet"], check=True)
    subprocess.run([*git, "add", "--all"], check=True)
    seen = []
    for number, changed in enumerate((False, False, True)):
        if changed:
            (tree / "README.md").write_text("changed", "utf-8")
        else:
            subprocess.run([*git, "commit", "--quiet", "--allow-empty", "-m", str(number)], check=True)
        commit = subprocess.run([*git, "rev-parse", "HEAD"], capture_output=True, text=True, check=True).stdout.strip()
        output = tmp_path / str(number)
        build_wheel = ["uv", "build", "--quiet", "--out-dir", output, tree]
        subprocess.run(build_wheel, check=True, env={**os.environ, "UV_PYTHON": sys.executable})
        with zipfile.ZipFile(next(output.glob("*.whl"))) as wheel:
            revision = wheel.read("transom/REVISION").decode().strip()
            wheel.extractall(output / "installed")
        assert revision == (f"{commit}-dirty" if changed else commit)
        said = [sys.executable, "-m", "transom", "--version"]
        environment = {**os.environ, "PYTHONPATH": str(output / "installed")}
        seen.append(subprocess.run(said, capture_output=True, text=True, check=True, env=environment, cwd=tmp_path).stdout)
        assert commit[:12] in seen[-1]
    assert len(set(seen)) == 3


@pytest.mark.lab
def test_the_image_and_the_chart_get_into_a_registry_and_out_of_it(registry: str, tmp_path: Path) -> None:
    """The registry here speaks HTTP, which both programs have to be told."""
    work = tmp_path / "work"
    shutil.copytree(ROOT / "charts", work / "charts")
    digest = small_image(work / "release" / "image")
    programs = tmp_path / "programs"
    programs.mkdir()
    helm = build.build_program(build.HELM)
    for name, program, command, option in (
        ("helm", helm, "push", "--plain-http"),
        ("skopeo", shutil.which("skopeo"), "copy", "--dest-tls-verify=false"),
    ):
        lines = (
            "#!/bin/bash",
            "more=()",
            f'[ "$1" != {command} ] || more=({option})',
            f'exec {program} "$@" "${{more[@]}}"',
            "",
        )
        (programs / name).write_text("\n".join(lines))
        (programs / name).chmod(0o755)
    address = f"{registry}/team"
    environment = {
        "PATH": f"{programs}:{os.environ['PATH']}",
        "REGISTRY": address,
        "VERSION": __version__,
        "GITHUB_OUTPUT": str(tmp_path / "output"),
        "HOME": str(tmp_path),
    }
    for name in ("Push the image", "Push the chart"):
        done = run_step(name, work, environment)
        assert done.returncode == 0, done.stdout + done.stderr
    pushed, chart = (tmp_path / "output").read_text().splitlines()
    assert pushed == f"digest={digest}"
    assert re.fullmatch(r"digest=sha256:[0-9a-f]{64}", chart)
    inspect = ["skopeo", "inspect", "--raw", "--tls-verify=false", f"docker://{address}/transom@{digest}"]
    listed = json.loads(subprocess.run(inspect, capture_output=True, text=True, check=True).stdout)["manifests"]
    assert {item["platform"]["architecture"] for item in listed} == {"amd64", "arm64"}
    # as README says
    template = [helm, "template", "transom", f"oci://{address}/charts/transom", "--version", __version__, "--plain-http"]
    made = subprocess.run(template, capture_output=True, text=True, check=False, env={"HOME": str(tmp_path)})
    assert made.returncode == 0, made.stderr
    assert f'image: "{address}/transom:{__version__}"' in made.stdout


def test_only_the_packages_go_to_pypi(tmp_path: Path) -> None:
    dist = tmp_path / "release" / "dist"
    dist.mkdir(parents=True)
    for name in ("transom-1.tar.gz", "transom-1-py3-none-any.whl", "SHA256SUMS", "transom.cdx.json", "requirements.txt"):
        (dist / name).touch()
    assert run_step("Select the files for PyPI", tmp_path, {}).returncode == 0
    assert {path.name for path in (tmp_path / "packages").iterdir()} == {"transom-1.tar.gz", "transom-1-py3-none-any.whl"}
