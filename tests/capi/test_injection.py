"""The edits of a KubeadmConfigSpec: what goes in, what stays, and what comes out again."""

import base64
import copy
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.support.bundles import certificate

from transom.capi.bootstrap import windows_proxy
from transom.capi.bootstrap.injection import (
    CONTROL_PLANE_SPEC,
    TEMPLATE_SPEC,
    build_entries_patch,
    find_managing_tool,
    is_for_windows,
    is_injection_requested,
    list_secret_names,
)
from transom.capi.bootstrap.kubeadm import Entries
from transom.capi.bootstrap.machine_files import CA_STEM, DROP_INS, ENV_FILE, READ_ENV, RESTART, TRUST, build_linux_entries
from transom.proxy.secret import Secret
from transom.proxy.settings import Egress
from transom.proxy.trust import parse_bundle

SECRET = "prod-systemd-proxy"
SECRETS = frozenset((SECRET, "prod-windows-proxy"))
PROXY = Egress(Secret("http://u:hunter2@proxy.x:3128"), Secret("http://u:hunter2@proxy.x:3128"), "svc")


def trust(count: int = 1) -> Egress:
    return Egress(trust=parse_bundle("".join(certificate(f"corp {number}") for number in range(count))).certificates)


def patched(value: Any, operations: Any) -> Any:
    """RFC 6902 as far as it is used: test, add, replace and remove of members."""
    document = copy.deepcopy(value)
    for operation in operations:
        *path, last = operation["path"].split("/")[1:]
        parent = document
        for step in path:
            parent = parent[step]
        if operation["op"] == "test":
            assert parent.get(last) == operation["value"]
        elif operation["op"] == "remove":
            del parent[last]
        else:
            parent[last] = operation["value"]
    return document


def template(spec: Any, generation: int = 1) -> Any:
    return {"metadata": {"generation": generation}, "spec": {"template": {} if spec is None else {"spec": spec}}}


def injected(spec: Any, wanted: Entries) -> Any:
    return patched(template(spec), build_entries_patch(spec, wanted, SECRETS, TEMPLATE_SPEC, 1).operations)["spec"][
        "template"
    ].get("spec")


def test_worker_gets_the_drop_ins_and_no_environment_of_kubeadm() -> None:
    spec = injected({}, build_linux_entries(SECRET, PROXY))
    source = {"secret": {"name": SECRET, "key": "containerdProxy"}}
    assert spec == {
        "files": [{"path": path, "permissions": "0600", "contentFrom": source} for path in DROP_INS],
        "preKubeadmCommands": [RESTART],
    }


def test_control_plane_reads_the_environment_first() -> None:
    before = {"preKubeadmCommands": ["echo theirs"], "clusterConfiguration": {}}
    document = {"metadata": {"generation": 7}, "spec": {"kubeadmConfigSpec": before}}
    made = build_entries_patch(before, build_linux_entries(SECRET, PROXY, control_plane=True), SECRETS, CONTROL_PLANE_SPEC, 7)
    after = patched(document, made.operations)["spec"]["kubeadmConfigSpec"]
    assert after["preKubeadmCommands"] == [READ_ENV, RESTART, "echo theirs"]
    assert after["files"][-1] == {
        "path": ENV_FILE,
        "permissions": "0600",
        "contentFrom": {"secret": {"name": SECRET, "key": "env"}},
    }


def test_certificates_stand_in_the_entries_and_no_proxy_needs_a_secret() -> None:
    entries = build_linux_entries(SECRET, trust())
    assert [file.path for file in entries.files] == [f"{CA_STEM}.crt"]
    assert entries.files[0].content == certificate("corp 0")
    assert entries.pre == (TRUST, RESTART)


def test_long_bundle_is_several_files_that_the_definition_takes() -> None:
    entries = build_linux_entries(SECRET, trust(30))
    assert len(entries.files) > 1
    assert all(len(file.content) <= 10_240 for file in entries.files)
    assert "".join(file.content for file in entries.files) == "".join(certificate(f"corp {number}") for number in range(30))
    assert len({file.path for file in entries.files}) == len(entries.files)


@pytest.mark.parametrize("egress", [Egress(), Egress(PROXY.http_proxy, consumers=("Apps", "Pods"))])
def test_no_settings_for_nodes_is_no_entry(egress: Egress) -> None:
    assert build_linux_entries(SECRET, egress, control_plane=True) == Entries()


def test_windows_entries_come_first_and_last() -> None:
    before = {"preKubeadmCommands": ["a"], "postKubeadmCommands": ["b"]}
    after = injected(before, windows_proxy.build_windows_entries("prod-windows-proxy"))
    assert after["preKubeadmCommands"] == [windows_proxy.BEFORE_JOIN, windows_proxy.OR_STOP, "a"]
    assert after["postKubeadmCommands"] == ["b", windows_proxy.AFTER_JOIN]
    assert [file["path"] for file in after["files"]] == [windows_proxy.PROXY_REG, windows_proxy.PROXY_CMD]


def test_file_of_somebody_else_at_our_path_is_named_and_nothing_is_edited() -> None:
    theirs = {"path": DROP_INS[0], "content": "[Service]\n"}
    made = build_entries_patch({"files": [theirs]}, build_linux_entries(SECRET, PROXY), SECRETS, TEMPLATE_SPEC)
    assert made.foreign == (DROP_INS[0],)
    assert made.operations == ()
    assert build_entries_patch({"files": [theirs]}, Entries(), SECRETS, TEMPLATE_SPEC).operations == ()


def test_drop_in_of_another_service_from_our_secret_is_left_alone() -> None:
    theirs = {
        "path": "/etc/systemd/system/teleport.service.d/http-proxy.conf",
        "contentFrom": {"secret": {"name": SECRET, "key": "containerdProxy"}},
    }
    assert injected({"files": [theirs]}, Entries()) == {"files": [theirs]}


def test_entry_committed_by_hand_stays_where_it_is() -> None:
    wanted = build_linux_entries(SECRET, PROXY)
    by_hand = injected({"files": [{"path": "/etc/motd", "content": "hello"}]}, wanted)
    by_hand["files"].reverse()
    by_hand["preKubeadmCommands"].insert(0, "echo first")
    assert build_entries_patch(by_hand, wanted, SECRETS, TEMPLATE_SPEC).operations == ()


def test_changed_bundle_replaces_its_files_and_nothing_else() -> None:
    before = injected({"files": [{"path": "/etc/motd", "content": "hello"}]}, build_linux_entries(SECRET, trust(30)))
    after = injected(before, build_linux_entries(SECRET, trust(1)))
    assert [file["path"] for file in after["files"]] == ["/etc/motd", f"{CA_STEM}.crt"]
    assert after["files"][1]["content"] == certificate("corp 0")


def test_template_of_our_entries_alone_is_empty_again() -> None:
    spec = injected(None, build_linux_entries(SECRET, PROXY))
    assert injected(spec, Entries()) is None


def test_edit_holds_for_one_generation_of_the_object() -> None:
    made = build_entries_patch({"files": [{"path": "/a"}]}, build_linux_entries(SECRET, PROXY), SECRETS, TEMPLATE_SPEC, 1)
    with pytest.raises(AssertionError):
        patched(template({"files": [{"path": "/a"}, {"path": "/b"}]}, 2), made.operations)


COMMANDS = st.lists(st.sampled_from(["echo a", "reboot", "systemctl daemon-reload"]), max_size=3)
FILES = st.lists(st.fixed_dictionaries({"path": st.sampled_from(["/a", "/b", "/etc/motd"]), "content": st.text()}), max_size=3)
SPECS = st.fixed_dictionaries(
    {}, optional={"files": FILES, "preKubeadmCommands": COMMANDS, "postKubeadmCommands": COMMANDS, "verbosity": st.integers()}
)
WANTED = {
    "worker": build_linux_entries(SECRET, PROXY),
    "control plane": build_linux_entries(SECRET, PROXY, control_plane=True),
    "bundle": build_linux_entries(SECRET, trust(2)),
    "Windows": windows_proxy.build_windows_entries("prod-windows-proxy"),
}
KINDS = st.sampled_from(sorted(WANTED))


def filled(spec: Any) -> Any:
    return {key: value for key, value in (spec or {}).items() if value != []}


@given(SPECS, KINDS, KINDS)
def test_edit_is_done_once_and_can_be_undone(spec: Any, one: str, another: str) -> None:
    first, second = WANTED[one], WANTED[another]
    once = injected(spec, first)
    assert build_entries_patch(once, first, SECRETS, TEMPLATE_SPEC).operations == ()
    other = injected(once, second)
    assert build_entries_patch(other, second, SECRETS, TEMPLATE_SPEC).operations == ()
    assert filled(injected(spec, second)) == filled(other)
    assert filled(injected(other, Entries())) == filled(spec)


@pytest.mark.parametrize(
    ("metadata", "who"),
    [
        ({}, None),
        ({"labels": {"topology.cluster.x-k8s.io/owned": ""}}, "ClusterClass"),
        ({"labels": {"kustomize.toolkit.fluxcd.io/name": "fleet"}}, "Flux"),
        ({"labels": {"helm.toolkit.fluxcd.io/name": "fleet"}}, "Flux"),
        ({"annotations": {"argocd.argoproj.io/tracking-id": "fleet:x/y"}}, "Argo CD"),
        ({"labels": {"app.kubernetes.io/instance": "fleet"}}, None),
        ({"labels": {"app.kubernetes.io/instance": "fleet"}, "managedFields": [{"manager": "argocd-controller"}]}, "Argo CD"),
    ],
)
def test_who_else_writes_an_object(metadata: Any, who: str | None) -> None:
    assert find_managing_tool(metadata) == who


@pytest.mark.parametrize("where", ["labels", "annotations"])
def test_only_the_text_true_asks(where: str) -> None:
    assert is_injection_requested({where: {"transom.dev/inject": "true"}})
    assert not is_injection_requested({where: {"transom.dev/inject": "false"}})
    assert not is_injection_requested({where: None})


def test_named_pipe_is_windows() -> None:
    pipe = {"nodeRegistration": {"criSocket": "npipe:////./pipe/containerd-containerd"}}
    assert is_for_windows({"joinConfiguration": pipe})
    assert not is_for_windows({"joinConfiguration": {"nodeRegistration": {"criSocket": "unix:///run/containerd.sock"}}})
    assert not is_for_windows({})


def test_secrets_that_a_spec_waits_for() -> None:
    spec = injected({"files": [{"path": "/a", "content": "b"}]}, build_linux_entries(SECRET, PROXY))
    assert list_secret_names(spec) == {SECRET}


def test_no_entry_holds_a_credential() -> None:
    for entries in (
        build_linux_entries(SECRET, PROXY, control_plane=True),
        windows_proxy.build_windows_entries("prod-windows-proxy"),
    ):
        whole = [base64.b64decode(f.content).decode() if f.encoding == "base64" else f.content for f in entries.files]
        assert "hunter2" not in " ".join((*whole, *entries.pre, *entries.post))
