"""A server that several tests share is as it was after each."""

import json
import urllib.error
from datetime import UTC, datetime

import pytest
from lab.control_plane import ControlPlane, Moment
from lab.objects import DEFINITIONS
from tests.support.operator.foreign import definition

from transom.kube.resources import EGRESS_PROXIES, NAMESPACES, SECRETS

pytestmark = pytest.mark.lab
PLACE = "put-back"


def test_what_was_made_is_gone_and_what_was_changed_as_before(control_plane: ControlPlane) -> None:
    paths = NAMESPACES.path(None, PLACE), SECRETS.path(PLACE, "credentials"), EGRESS_PROXIES.path(None, PLACE)
    kept = SECRETS.path("default", PLACE)
    secret = {"apiVersion": "v1", "kind": "Secret"}
    kind = definition("example.com", "v1", "Leftover", "leftovers")
    egress = {"apiVersion": EGRESS_PROXIES.api_version, "kind": EGRESS_PROXIES.kind}
    control_plane.apply([secret | {"metadata": {"name": PLACE, "namespace": "default"}, "stringData": {"a": "before"}}])
    before = json.loads(control_plane.request("GET", kept))
    found = control_plane.revision()
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
    control_plane.put_back(found)
    for path in (*paths, f"{DEFINITIONS}/{kind['metadata']['name']}", "/apis/example.com/v1"):
        with pytest.raises(urllib.error.HTTPError, match="404"):
            control_plane.request("GET", path)
    after = json.loads(control_plane.request("GET", kept))
    assert after["data"] == before["data"]
    control_plane.request("DELETE", kept)


def test_a_moment_within_a_line_that_is_being_written(control_plane: ControlPlane) -> None:
    control_plane.request("GET", "/version?of=before")
    began = control_plane.moment()
    # the file grows in parts: a moment can find the first half of a line
    within = Moment(datetime.now(UTC), began.size - 10)
    control_plane.request("GET", "/version?of=after")
    for moment in began, within:
        found = [one["requestURI"] for one in control_plane.audit(moment)]
        assert "/version?of=after" in found and "/version?of=before" not in found
