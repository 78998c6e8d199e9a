"""Definitions take nothing back that the last release accepted, but for what its row in lab/releases.yaml has a reason for."""

import copy
import json
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from lab import build, releases
from transom.manifests.definitions import build_crds

pytestmark = pytest.mark.lab
Definition = dict[str, Any]
# the default takes a further value of an enumeration for a break, and an edited sentence (kubernetes-sigs/crdify,
# docs/validations.md); what no check of it handles, such as a pattern or a rule, is a finding
CONFIGURATION = """
validations:
- {name: enum, enforcement: Error, configuration: {additionPolicy: Allow}}
- {name: description, enforcement: None}
"""


def narrowed(directory: Path, before: list[Definition], after: list[Definition]) -> set[str]:
    """What was removed or narrowed, as `definition field check`."""
    names = [{item["metadata"]["name"] for item in some} for some in (before, after)]
    found = {f"{name} gone" for name in names[0] - names[1]}
    settings = directory / "crdify.yaml"
    settings.write_text(CONFIGURATION)
    for name in names[0] & names[1]:
        sides = []
        for number, some in enumerate((before, after)):
            file = directory / f"{number}.yaml"
            (one,) = (item for item in some if item["metadata"]["name"] == name)
            file.write_text(yaml.dump(without_sentences(one), Dumper=yaml.CSafeDumper))
            sides.append(f"file://{file}")
        command = [build.build_program(build.CRDIFY), "--config", settings, "--output", "json", *sides]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        assert done.stdout or done.returncode == 0, done.stderr
        found |= {f"{name} {finding}" for finding in findings(json.loads(done.stdout or "{}"))}
    return found


def without_sentences(value: Any) -> Any:
    """A definition without what rules say to people."""
    if isinstance(value, dict):
        return {name: without_sentences(item) for name, item in value.items() if not (name == "message" and "rule" in value)}
    return [*map(without_sentences, value)] if isinstance(value, list) else value


def findings(told: dict[str, Any]) -> Iterator[str]:
    for check in told.get("crdValidation", ()):
        yield from (error.rpartition(" ")[2].partition(".")[2] + f" {check['name']}" for error in check.get("errors", ()))
    for fields in told.get("sameVersionValidation", {}).values():
        for field, checks in fields.items():
            yield from (f"{field} {check['name']}" for check in checks if check.get("errors"))


def test_nothing_is_taken_back_since_the_last_release(tmp_path: Path) -> None:
    before = list(yaml.load_all(releases.build_latest().run("manifests", "--part", "crds"), yaml.CSafeLoader))
    assert narrowed(tmp_path, before, build_crds()) == set(releases.read_latest().narrowed)


def test_what_is_taken_back_is_told_and_what_is_added_is_not(tmp_path: Path) -> None:
    before = build_crds()
    after = copy.deepcopy(before)
    whole = after[0]["spec"]["versions"][0]["schema"]["openAPIV3Schema"]
    spec = whole["properties"]["spec"]
    fields = spec["properties"]
    # more is accepted than before, or it is said otherwise
    fields["further"] = {"type": "string", "description": "New."}
    fields["readinessPolicy"]["enum"].append("Never")
    fields["httpProxy"]["description"] = "Another sentence."
    for rule in whole["x-kubernetes-validations"]:
        rule["message"] = "Another sentence."
    assert narrowed(tmp_path, before, after) == set()

    del fields["pods"]
    spec["required"] = ["httpProxy"]
    fields["consumers"]["items"]["enum"].pop()
    fields["httpsProxy"]["pattern"] = "^https:"
    fields["priority"]["type"] = "string"
    fields["networks"]["x-kubernetes-validations"] = [{"rule": "false", "message": "Not any more."}]
    name = after.pop()["metadata"]["name"]
    told = narrowed(tmp_path, before, after)
    wanted = ("pods existingFieldRemoval", "consumers[*] enum", "httpsProxy unhandled", "priority type", "networks unhandled")
    proxies = before[0]["metadata"]["name"]
    assert {f"{name} gone", f"{proxies} ^.spec required", *(f"{proxies} ^.spec.{item}" for item in wanted)} <= told
    beyond = {item for item in told if not item.startswith((f"{name} ", f"{proxies} ^.spec ", f"{proxies} ^.spec.pods"))}
    assert beyond == {f"{proxies} ^.spec.{item}" for item in wanted[1:]}
