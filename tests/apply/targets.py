"""Hosts as the passes of `transom.hosts` take them."""

from datetime import UTC, datetime

from tests.apply.windows import Desk

from transom.apply.target import Target
from transom.sources.directory import load_objects
from transom.sources.examination import examine_objects
from transom.windows.nodes.windows_instance import read_private_key


def target(desk: Desk) -> Target:
    objects = load_objects([str(desk.manifests)])
    egress = examine_objects(objects, datetime.now(UTC)).settings.for_instance(objects.windows_instances[0])
    assert egress is not None
    return Target(objects.windows_instances[0], egress, read_private_key(objects.windows_instances[0], objects))
