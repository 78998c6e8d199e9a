"""A server that several tests share is as it was after each."""

import json
import socket
import urllib.error
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime
from pathlib import Path

import pytest
from lab.control_plane import ControlPlane, ControlPlaneError, Moment
from lab.objects import DEFINITIONS
from tests.support.operator.foreign import definition

from transom.kube.resources import EGRESS_PROXIES, NAMESPACES, SECRETS

pytestmark = pytest.mark.lab
PLACE = "put-back"


def test_what_was_made_is_gone_and_what_was_changed_as_before(control_plane: ControlPlane) -> None:
    paths = NAMESPACES.build_path(None, PLACE), SECRETS.build_path(PLACE, "credentials"), EGRESS_PROXIES.build_path(None, PLACE)
    kept = SECRETS.build_path("default", PLACE)
    secret = {"apiVersion": "v1", "kind": "Secret"}
    kind = definition("example.com", "v1", "Leftover", "leftovers")
    egress = {"apiVersion": EGRESS_PROXIES.api_version, "kind": EGRESS_PROXIES.kind}
    control_plane.apply([secret | {"metadata": {"name": PLACE, "namespace": "default"}, "stringData": {"a": "before"}}])
    before = json.loads(control_plane.request("GET", kept))
    found = control_plane.read_revision()
    control_plane.apply(
        [
            {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": PLACE}},
            secret | {"metadata": {"name": "credentials", "namespace": PLACE}},
            secret | {"metadata": {"name": PLACE, "namespace": "default"}, "stringData": {"a": "after"}},
            egress | {"metadata": {"name": PLACE, "finalizers": ["transom.dev/hosts"]}, "spec": {}},
        ]
    )
    control_plane.define([kind])
    leftover = {"apiVersion": "example.com/v1", "kind": "Leftover"}
    control_plane.apply([leftover | {"metadata": {"name": PLACE, "finalizers": ["example.com/stays"]}}])
    control_plane.restore(found)
    for path in (*paths, f"{DEFINITIONS}/{kind['metadata']['name']}", "/apis/example.com/v1"):
        with pytest.raises(urllib.error.HTTPError, match="404"):
            control_plane.request("GET", path)
    after = json.loads(control_plane.request("GET", kept))
    assert after["data"] == before["data"]
    control_plane.request("DELETE", kept)


def test_a_moment_within_a_line_that_is_being_written(control_plane: ControlPlane) -> None:
    control_plane.request("GET", "/version?of=before")
    began = control_plane.get_moment()
    # the file grows in parts: a moment can find the first half of a line
    within = Moment(datetime.now(UTC), began.size - 10)
    control_plane.request("GET", "/version?of=after")
    for moment in began, within:
        found = [item["requestURI"] for item in control_plane.read_audit(moment)]
        assert "/version?of=after" in found and "/version?of=before" not in found


def test_a_kubectl_that_waits_ends_with_its_control_plane(tmp_path: Path) -> None:
    plane = ControlPlane(tmp_path)
    with socket.create_server(("127.0.0.1", 0)) as silent, ThreadPoolExecutor() as threads:
        silent.settimeout(30)
        cluster = {"name": "silent", "cluster": {"server": f"https://127.0.0.1:{silent.getsockname()[1]}"}}
        user = {"name": "somebody", "user": {"token": "none"}}
        context = {"name": "silent", "context": {"cluster": "silent", "user": "somebody"}}
        known = {"clusters": [cluster], "users": [user], "contexts": [context], "current-context": "silent"}
        plane.kubeconfig.write_text(json.dumps({"apiVersion": "v1", "kind": "Config", **known}))
        asked = threads.submit(plane.run_kubectl, "get", "pods")
        connection, _ = silent.accept()
        with connection:
            assert not asked.done()
            plane.stop()
            with pytest.raises(ControlPlaneError, match="kubectl get pods"):
                asked.result(timeout=30)
