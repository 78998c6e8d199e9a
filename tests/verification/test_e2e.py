"""`scripts/e2e` on a real API server, with an operator that is played: what it does to the settings, and how it leaves them."""

import asyncio
import contextlib
import os
import subprocess
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
import typer
import yaml
from lab.control_plane import ControlPlane
from tests.support.operator.clusters import admin
from tests.support.repository import DOCS, ROOT
from tests.verification.verifying import going_on

from transom.cli.program import build_program
from transom.kube.client import Client
from transom.kube.errors import NotFound
from transom.kube.resources import EGRESS_PROXIES
from transom.manifests.roles import build_verify_cluster_role

SCRIPT = ROOT / "scripts" / "e2e"
JOB = [item for item in yaml.safe_load_all((DOCS / "e2e-job.yaml").read_text("utf-8")) if item]
SPECS: dict[str, str] = next(item for item in JOB if item["kind"] == "ConfigMap")["data"]


@pytest.fixture
def files(tmp_path: Path) -> list[str]:
    for name, text in SPECS.items():
        (tmp_path / name).write_text(text)
    return ["--settings", str(tmp_path / "settings.yaml"), "--changed", str(tmp_path / "changed.yaml")]


def ran(directory: Path, *words: str, before: str = "/nonexistent", **more: str) -> "subprocess.CompletedProcess[str]":
    environment = {"PATH": f"{before}:{os.defpath}", **more}
    return subprocess.run([SCRIPT, *words], cwd=directory, env=environment, capture_output=True, text=True, check=False)


def test_a_dry_run_prints_commands_that_there_are(tmp_path: Path, files: list[str]) -> None:
    (job,) = (item for item in JOB if item["kind"] == "Job")
    given = job["spec"]["template"]["spec"]["containers"][0]["args"]
    assert given[:4] == ["--settings", "/settings/settings.yaml", "--changed", "/settings/changed.yaml"]
    done = ran(tmp_path, *files, *given[4:], "--host", "10.0.0.11", "--key", "id", "--dry-run")
    assert done.returncode == 0
    root: Any = typer.main.get_command(build_program())
    lines = [line.split()[1:] for line in done.stdout.splitlines() if line.startswith("transom ")]
    assert len(lines) == 10
    for group, name, *rest in lines:
        root.commands[group].commands[name].make_context(name, rest)
    assert done.stdout.count("--egress-url") == 3


PROXY = {"apiVersion": "config.openshift.io/v1", "kind": "Proxy", "metadata": {"name": "cluster"}}


@pytest.fixture
def proxies(tmp_path: Path) -> list[str]:
    for name, url in (("first", "http://a.example:3128"), ("second", "http://b.example:3128")):
        spec = {"httpProxy": url, "httpsProxy": url, "noProxy": ".x.example,y.example", "trustedCA": {"name": f"{name}-ca"}}
        (tmp_path / f"{name}.yaml").write_text(yaml.safe_dump({**PROXY, "spec": spec}))
        (tmp_path / f"{name}.pem").write_text(f"{name}\n")
    words = ["--openshift", "--settings", str(tmp_path / "first.yaml"), "--changed", str(tmp_path / "second.yaml")]
    return [*words, "--ca", str(tmp_path / "first.pem"), "--changed-ca", str(tmp_path / "second.pem")]


def test_a_dry_run_on_openshift_changes_its_proxy_and_waits_for_the_hosts(tmp_path: Path, proxies: list[str]) -> None:
    done = ran(tmp_path, *proxies, "--dry-run")
    assert done.returncode == 0
    lines = done.stdout.splitlines()
    assert "egressproxy" not in done.stdout
    assert sum(line.startswith("kubectl patch proxies.config.openshift.io cluster ") for line in lines) == 6
    assert sum("-n openshift-config" in line for line in lines) == 2
    root: Any = typer.main.get_command(build_program())
    waits = [line.split()[2:] for line in lines if line.startswith("transom status ")]
    assert len(waits) == 5
    root.commands["status"].make_context("status", waits[0])


@pytest.mark.parametrize("words", [("--ca", "first.pem"), ("--openshift", "--ca", "/nonexistent")])
def test_a_ca_that_cannot_be_used(tmp_path: Path, files: list[str], words: tuple[str, ...]) -> None:
    assert ran(tmp_path, *files, *words).returncode == 2


@pytest.mark.parametrize("words", [(), ("--nope",), ("--nope", "x"), ("--settings",), ("--settings", "/nonexistent")])
def test_wrong_words(tmp_path: Path, words: tuple[str, ...]) -> None:
    done = ran(tmp_path, *words)
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.startswith("scripts/e2e: ")


def test_help(tmp_path: Path) -> None:
    done = ran(tmp_path, "--help")
    assert done.returncode == 0
    assert "--reports DIR" in done.stdout and "set -e" not in done.stdout


def test_the_jobs_rights_are_those_of_the_page() -> None:
    assert build_verify_cluster_role() in JOB


@pytest.fixture
async def client(control_plane: ControlPlane) -> AsyncIterator[Client]:
    async with admin(control_plane) as made:
        yield made


@pytest.mark.lab
def test_an_api_server_takes_the_job(control_plane: ControlPlane) -> None:
    for item in JOB:
        version, metadata, place = item["apiVersion"], item["metadata"], ""
        if "namespace" in metadata:
            metadata, place = metadata | {"namespace": "default"}, "/namespaces/default"
        path = f"{'/apis' if '/' in version else '/api'}/{version}{place}/{item['kind'].lower()}s"
        control_plane.request("POST", f"{path}?dryRun=All&fieldValidation=Strict", item | {"metadata": metadata})


@pytest.mark.lab
async def test_the_settings_go_through_all_and_are_as_before(
    control_plane: ControlPlane, client: Client, tmp_path: Path, files: list[str]
) -> None:
    """`transom` is played, as its checks are seen elsewhere: it notes the settings that it finds, and fails."""
    programs = tmp_path / "programs"
    programs.mkdir()
    (programs / "kubectl").symlink_to(control_plane.programs / "kubectl")
    found = "$(kubectl get egressproxy cluster -o 'jsonpath={.spec.httpProxy}')"
    (programs / "transom").write_text(f'#!/bin/sh\necho "{found} $2 $4" >>notes\nexit 1\n')
    (programs / "transom").chmod(0o755)
    spec = {"httpProxy": "http://before.example:3128", "priority": 0}
    with contextlib.suppress(NotFound):
        # an earlier test's
        await client.delete(EGRESS_PROXIES, "cluster")
    kind = {"apiVersion": EGRESS_PROXIES.api_version, "kind": EGRESS_PROXIES.kind}
    await client.create(EGRESS_PROXIES, {**kind, "metadata": {"name": "cluster"}, "spec": spec})

    async def operator() -> None:
        live = (await client.get(EGRESS_PROXIES, "cluster")).value
        status = {"settings": str(live["metadata"]["generation"]), "hosts": {"total": 1, "updated": 1}}
        if live.get("status") != status:
            path, kind = EGRESS_PROXIES.build_path(None, "cluster", "status"), "application/merge-patch+json"
            await client.request("PATCH", path, None, {"status": status}, content_type=kind)

    try:
        async with going_on(operator):
            where = {"before": str(programs), "KUBECONFIG": str(control_plane.kubeconfig), "HOME": str(tmp_path)}
            done = await asyncio.to_thread(ran, tmp_path, *files, **where)
        assert (await client.get(EGRESS_PROXIES, "cluster")).value["spec"] == spec
    finally:
        await client.delete(EGRESS_PROXIES, "cluster")
    assert done.returncode == 1, done.stderr
    assert "# runtime: " in done.stderr
    names = " ".join(f"{name}-cluster.xml" for name in ("start", "none", "runtime", "changed", "removed"))
    assert f"# 5 of 5 verifications failed, in reports: {names}" in done.stderr
    first, second = "http://proxy.corp.example:3128", "http://proxy-2.corp.example:3128"
    assert (tmp_path / "notes").read_text().splitlines() == [
        f"{proxy} cluster reports/{name}-cluster.xml"
        for name, proxy in {"start": first, "none": "", "runtime": first, "changed": second, "removed": ""}.items()
    ]
