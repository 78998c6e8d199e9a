"""What holds of every patch: it never removes or alters what a pod set, and a second one is empty."""

import base64
import functools
from typing import Any

import msgspec
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.pods.json_patch import applied
from tests.pods.strategies import pods
from tests.pods.table import SETTINGS, decoded, pod_egress

from transom.pods.environment import CONFIG_MAP, PROXY_VARIABLES, PodEgress
from transom.pods.patch import PodPatcher, build_patch

LABELS = [{}, {"transom.dev/inject-ca": "true"}, {"team": "a"}]


@functools.cache
def made(name: str) -> PodEgress:
    return pod_egress(name)


@functools.cache
def patcher(name: str) -> PodPatcher:
    return PodPatcher(made(name))


def containers(pod: dict[str, Any]) -> dict[str, dict[str, Any]]:
    return {item["name"]: item for field in ("initContainers", "containers") for item in pod["spec"].get(field, ())}


@settings(max_examples=400, deadline=None)
@given(pods(), st.sampled_from(list(SETTINGS)), st.sampled_from(LABELS))
def test_nothing_of_the_pods_own_is_lost(pod: dict[str, Any], name: str, labels: dict[str, str]) -> None:
    egress = made(name)
    found = build_patch(decoded(pod), "shop", labels, egress)
    after = applied(pod, found.operations)
    override = pod["metadata"].get("annotations", {}).get("transom.dev/inject-proxy") == "override"
    windows = pod["spec"].get("os", {}).get("name") == "windows"
    ours = {item for pair in egress.pairs for item in (pair.name, pair.twin)} if override and found.proxy is None else set()
    for container, before in containers(pod).items():
        now = containers(after)[container]
        env, held = now.get("env", []), before.get("env", [])
        theirs = [item for item in held if (item["name"].upper() if windows else item["name"]) not in ours]
        added = len(env) - len(theirs)
        if ours:
            assert [item for item in env if item in theirs] == theirs
            names = [item["name"].upper() if windows else item["name"] for item in env]
            assert all(names.count(pair.name) == 1 for pair in egress.pairs)
            assert all(names.count(pair.twin) == (0 if windows else 1) for pair in egress.pairs)
        else:
            # what is ours stands first, what was there follows as it was
            assert env[added:] == theirs == held
            assert len({item["name"] for item in env}) == len(env)
            # one unit: who has any of the variables gets none
            own = {item["name"].upper() if windows else item["name"] for item in held} & PROXY_VARIABLES
            assert not (own and PROXY_VARIABLES & {item["name"] for item in env[:added]})
        assert now.get("volumeMounts", [])[: len(before.get("volumeMounts", []))] == before.get("volumeMounts", [])
        assert {key: value for key, value in now.items() if key not in ("env", "volumeMounts")} == {
            key: value for key, value in before.items() if key not in ("env", "volumeMounts")
        }
    volumes = after["spec"].get("volumes", [])
    assert [volume for volume in volumes if volume["name"] != CONFIG_MAP] == pod["spec"].get("volumes", [])
    rest = {key: value for key, value in after["spec"].items() if key not in ("containers", "initContainers", "volumes")}
    assert rest == {key: value for key, value in pod["spec"].items() if key not in ("containers", "initContainers", "volumes")}
    annotations = {key: value for key, value in after["metadata"].get("annotations", {}).items() if "settings-hash" not in key}
    held_annotations = pod["metadata"].get("annotations", {})
    assert annotations == {key: value for key, value in held_annotations.items() if "settings-hash" not in key}
    assert after["metadata"].get("labels") == pod["metadata"].get("labels")
    assert build_patch(decoded(after), "shop", labels, egress).operations == ()
    if not found.operations:
        assert after == pod


@settings(max_examples=400, deadline=None)
@given(pods(), st.sampled_from(list(SETTINGS)), st.sampled_from(LABELS))
def test_what_other_pods_got_changes_nothing(pod: dict[str, Any], name: str, labels: dict[str, str]) -> None:
    """Operations are kept for the next pod of the same shape."""
    kept, new = patcher(name).build_patch(decoded(pod), "shop", labels), build_patch(decoded(pod), "shop", labels, made(name))
    assert kept == new
    assert kept.operations.encoded == new.operations.encoded
    text = base64.b64decode(msgspec.json.decode(kept.operations.encoded.base64))
    assert text == msgspec.json.encode(new.operations)
    assert len(text) == kept.operations.encoded.size


@settings(max_examples=100, deadline=None)
@given(
    pods(), st.sampled_from(["plain", "credentials"]), st.lists(st.sampled_from(["d0", "d1", "d2"]), unique=True, min_size=1)
)
def test_of_ephemeral_containers_only_the_new_ones_are_patched(pod: dict[str, Any], name: str, added: list[str]) -> None:
    egress = made(name)
    pod = applied(pod, build_patch(decoded(pod), "shop", {}, egress).operations)
    before = {**pod, "spec": {**pod["spec"], "ephemeralContainers": [{"name": "there", "image": "x"}]}}
    debuggers = [{"name": "there", "image": "x"}, *({"name": item, "image": "x"} for item in added)]
    now = {**pod, "spec": {**pod["spec"], "ephemeralContainers": debuggers}}
    found = build_patch(decoded(now), "shop", {}, egress, before=decoded(before))
    after = applied(now, found.operations)
    assert all(operation.path.startswith("/spec/ephemeralContainers/") for operation in found.operations)
    assert after["spec"]["ephemeralContainers"][0] == {"name": "there", "image": "x"}
    refused = pod["metadata"].get("annotations", {}).get("transom.dev/inject-proxy") == "false"
    mounted = any(volume["name"] == CONFIG_MAP for volume in pod["spec"].get("volumes", ()))
    for ephemeral_container in after["spec"]["ephemeralContainers"][1:]:
        names = [item["name"] for item in ephemeral_container.get("env", [])]
        assert ("HTTP_PROXY" in names) != refused
        assert ("SSL_CERT_FILE" in names or "PIP_CERT" in names) == mounted
        assert [item["name"] for item in ephemeral_container.get("volumeMounts", [])] == ([CONFIG_MAP] if mounted else [])
    assert build_patch(decoded(after), "shop", {}, egress, before=decoded(before)).operations == ()


@settings(max_examples=100, deadline=None)
@given(pods(), st.sampled_from([("plain", "http-alone"), ("credentials", "plain")]))
def test_variables_of_older_settings_keep_their_hash(pod: dict[str, Any], names: tuple[str, str]) -> None:
    """Another webhook added a container between two calls, and the settings changed meanwhile: the pod counts as older."""
    pod["metadata"].pop("annotations", None)
    for container in containers(pod).values():
        container.pop("env", None)
    older, newer = (made(name) for name in names)
    after = applied(pod, build_patch(decoded(pod), "shop", {}, older).operations)
    after["spec"]["containers"].append({"name": "late", "image": "x"})
    after = applied(after, build_patch(decoded(after), "shop", {}, newer).operations)
    assert containers(after)["late"]["env"]
    assert after["metadata"]["annotations"] == {"transom.dev/settings-hash": older.digest}


@settings(max_examples=50, deadline=None)
@given(st.binary(min_size=32, max_size=32), st.binary(min_size=32, max_size=32))
def test_credentials_cannot_be_guessed_from_the_hash(one: bytes, other: bytes) -> None:
    assert (pod_egress("userinfo", one).digest == pod_egress("userinfo", other).digest) == (one == other)
    assert pod_egress("plain", one).digest == pod_egress("plain", other).digest
