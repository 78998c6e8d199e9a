"""payload.yaml: what is wrong is named with file and field; variables; mirrors."""

from pathlib import Path

import pytest
from tests.support.workers.payloads import TEXT, write

from transom.hosts.steps.payload_directory import PayloadDirectory
from transom.sources.payload import PayloadError, parse_payload
from transom.windows.payload.variables import InvalidPath, UnknownVariable, find_value, parse_json_path, substitute

HEAD = "apiVersion: transom.dev/v1alpha1\nkind: Payload\nversion: 1.0.0\nkubernetes: v1.36.3\n"


@pytest.mark.parametrize(
    ("text", "field", "says"),
    [
        ("", "", "one document"),
        ("a: [", "", ""),
        (HEAD.replace("Payload", "Pod"), "kind", "must be Payload"),
        (HEAD.replace("v1.36.3", "latest"), "kubernetes", "must be a version"),
        (HEAD + "sevices: []", "sevices", "did you mean `services`?"),
        (HEAD + "version: 1.0.1", "version", "duplicate key"),
        (HEAD + "ports: [0]", "ports[0]", "1 to 65535"),
        (HEAD + r"services: [{name: a, command: 'C:\a.exe', timeoutSeconds: 0}]", "services[0].timeoutSeconds", "1 to 3600"),
        (HEAD + r"services: [{name: a, command: 'C:\a.exe', timeoutSeconds: 3601}]", "services[0].timeoutSeconds", "1 to 3600"),
        (HEAD + "directories: ['/k']", "directories[0]", "full path on drive C"),
        (HEAD + r"directories: ['C:\k\..\x']", "directories[0]", "reserves"),
        (HEAD + r"directories: ['C:\k\con.txt']", "directories[0]", "reserves"),
        (HEAD + r"directories: ['C:\k %PATH%']", "directories[0]", "full path on drive C"),
        (HEAD + r"directories: ['C:\ProgramData\Transom\x']", "directories[0]", "must not lie in"),
        (HEAD + r"files: [{path: 'C:\k\a'}]", "files[0]", "exactly one of"),
        (HEAD + r"files: [{path: 'C:\k\a', source: ../a}]", "files[0].source", "below the payload's directory"),
        (HEAD + r"files: [{path: 'C:\k\a', url: 'http://x/a', sha256: " + "a" * 64 + "}]", "files[0].url", "https"),
        (HEAD + r"files: [{path: 'C:\k\a', url: 'https://x/a'}]", "files[0].sha256", "must be there"),
        (HEAD + r"files: [{path: 'C:\k\a', provided: kubeconfig}]", "files[0].provided", "kubelet-ca, bootstrap-kubeconfig"),
        (HEAD + r"files: [{path: 'C:\k\a', content: '${NO_SUCH}'}]", "files[0].content", "${NO_SUCH}"),
        (HEAD + r"files: [{path: 'C:\k\a', content: a, services: [x]}]", "files[0].services[0]", "no service 'x'"),
        (HEAD + r"files: [{path: 'C:\k\a', content: a}, {path: 'C:\K\A', content: b}]", "files[1].path", "duplicate path"),
        (HEAD + "services: [{name: 'a b', command: x}]", "services[0].name", "letters, digits"),
        (HEAD + "services: [{name: a, command: 'é'}]", "services[0].command", "ASCII"),
        (HEAD + "services: [{name: a, command: '${X}'}]", "services[0].command", "${X}"),
        (HEAD + "services: [{name: a, command: x, dependsOn: [a]}]", "services", "circular dependency: a -> a"),
        (HEAD + "services: [{name: a, command: x, restart: {policy: Maybe}}]", "services[0].restart.policy", "Always or Never"),
        (HEAD + "variables: [{name: a, node: '{.x}'}]", "variables[0].name", "capital letters"),
        (HEAD + "variables: [{name: NODE_IP, node: '{.x}'}]", "variables[0].name", "is a fact"),
        (HEAD + "variables: [{name: A, node: '{.x}', script: a.cmd}]", "variables[0]", "at most one of"),
        (HEAD + "variables: [{name: A, node: '{.x[*]}'}]", "variables[0].node", "not a JSONPath to a single value"),
        (HEAD + "variables: [{name: A, script: a.exe}]", "variables[0].script", ".cmd or .ps1"),
    ],
)
def test_what_is_wrong_is_named(text: str, field: str, says: str) -> None:
    with pytest.raises(PayloadError) as caught:
        parse_payload(text.encode(), "p/payload.yaml")
    (finding,) = caught.value.findings
    assert (finding.file, finding.field) == ("p/payload.yaml", field)
    assert says in finding.message
    assert "p/payload.yaml" in str(caught.value)


JOINING = (
    HEAD
    + r"""
variables: [{name: SUBNET, node: '{.x}'}, {name: ZONE, node: '{.y}', default: none}, {name: VIP, script: a.ps1}]
files:
- {path: 'C:\k\b', provided: bootstrap-kubeconfig, services: [kubelet]}
- {path: 'C:\k\c', content: FILE, services: [kubelet]}
services:
- {name: kubelet, command: 'k COMMAND', dependsOn: [containerd]}
- {name: containerd, command: 'c', environment: {X: ENVIRONMENT}}
- {name: kube-proxy, command: 'p ${SUBNET}', dependsOn: [kubelet]}
"""
)


@pytest.mark.parametrize(
    ("place", "field", "says"),
    [
        ("COMMAND", "services[0].command", "and joins the host: it never starts"),
        ("FILE", "files[1].content", "kubelet reads it, and joins the host"),
        ("ENVIRONMENT", "services[1].environment.X", "is needed by kubelet, which joins the host"),
    ],
)
def test_who_makes_the_node_may_not_wait_for_it(place: str, field: str, says: str) -> None:
    parse_payload(JOINING.encode())
    parse_payload(JOINING.replace(place, "'${ZONE} ${VIP}'" if place != "COMMAND" else "${ZONE} ${VIP}").encode())
    with pytest.raises(PayloadError) as caught:
        parse_payload(JOINING.replace(place, "'${SUBNET}'" if place != "COMMAND" else "${SUBNET}").encode())
    (finding,) = caught.value.findings
    assert finding.field == field
    assert "waits for the Node by ${SUBNET}" in finding.message
    assert says in finding.message


def test_services_that_depend_on_each_other_in_any_order_are_no_circle() -> None:
    services = "services: [{name: a, command: x, dependsOn: [b]}, {name: b, command: x}, {name: c, command: x, dependsOn: [a]}]"
    assert [service.name for service in parse_payload((HEAD + services).encode()).services] == ["a", "b", "c"]


def test_a_missing_file_and_a_wrong_hash_are_named(tmp_path: Path) -> None:
    path = write(tmp_path, TEXT.replace("source: bin/kubelet.exe", "source: bin/kubelet.exe, sha256: " + "a" * 64))
    (path / "bin" / "containerd.exe").unlink()
    with pytest.raises(PayloadError) as caught:
        PayloadDirectory.open(path)
    first, second = caught.value.findings
    assert (first.field, "bin/containerd.exe cannot be read" in first.message) == ("files[0].source", True)
    assert (second.field, "another hash" in second.message) == ("files[1].sha256", True)


def test_a_directory_without_payload_is_named(tmp_path: Path) -> None:
    with pytest.raises(PayloadError, match=r"payload\.yaml: cannot be read"):
        PayloadDirectory.open(tmp_path)


@pytest.mark.parametrize(
    ("path", "steps"),
    [
        ("{.metadata.name}", ("metadata", "name")),
        (".spec.podCIDR", ("spec", "podCIDR")),
        (r"{.metadata.annotations.k8s\.ovn\.org/x}", ("metadata", "annotations", "k8s.ovn.org/x")),
        ("{.metadata.annotations['k8s.ovn.org/x']}", ("metadata", "annotations", "k8s.ovn.org/x")),
        ("{.status.addresses[0].address}", ("status", "addresses", 0, "address")),
    ],
)
def test_a_json_path_is_read(path: str, steps: tuple[str | int, ...]) -> None:
    assert parse_json_path(path) == steps


@pytest.mark.parametrize("path", ["", "{}", "{.a[*]}", "{..a}", "{.a[?(@.x)]}", "a", "{.a b}"])
def test_a_json_path_to_more_than_one_place_is_refused(path: str) -> None:
    with pytest.raises(InvalidPath):
        parse_json_path(path)


@pytest.mark.parametrize(
    ("value", "path", "found"),
    [
        ({"a": {"b": "x"}}, ("a", "b"), "x"),
        ({"a": [{"b": 7}]}, ("a", 0, "b"), "7"),
        ({"a": True}, ("a",), "true"),
        ({"a": {}}, ("a",), None),
        ({"a": [1]}, ("a", 3), None),
        ({"a": ""}, ("a",), None),
        ({}, ("a", "b"), None),
    ],
)
def test_a_place_in_a_node(value: object, path: tuple[str | int, ...], found: str | None) -> None:
    assert find_value(value, path) == found


def test_values_are_not_looked_at_again() -> None:
    assert substitute("${A} $A ${B}", {"A": "${B}", "B": "x"}) == "${B} $A x"
    with pytest.raises(UnknownVariable, match="C"):
        substitute("${C}", {})
