"""OpenShift's mirror sets, pull secret and registry CAs, as containerd is told of them: tables."""

import base64
import json
import tomllib
from typing import Any

import pytest
from tests.windows.authorities import authority

from transom.proxy.secret import Secret
from transom.proxy.trust import format_pem
from transom.windows.payload.mirror_sets import Registries, build_registries, read_authorities
from transom.windows.payload.pull_secret import parse_logins
from transom.windows.payload.registries import ImageRegistry, Mirror, format_directory_name, iter_files, render_hosts_toml

DIGESTS, TAGS = "imageDigestMirrors", "imageTagMirrors"
NEVER = "NeverContactSource"
ROOT = r"C:\k\containerd\registries"


def mirror_set(*entries: Any, name: str = "set", kind: str = DIGESTS) -> dict[str, Any]:
    return {"metadata": {"name": name}, "spec": {kind: list(entries)}}


def entry(source: str, *mirrors: str, policy: str = "") -> dict[str, Any]:
    return {"source": source, "mirrors": list(mirrors)} | ({"mirrorSourcePolicy": policy} if policy else {})


def places(found: Registries) -> dict[str, list[str]]:
    return {registry.name: [mirror.place for mirror in registry.mirrors] for registry in found.registries}


@pytest.mark.parametrize(
    ("source", "mirror", "registry", "wanted"),
    [
        ("quay.io", "mirror.corp.example:5000", "quay.io", "mirror.corp.example:5000"),
        ("quay.io", "mirror.corp.example:5000/quay", "quay.io", "mirror.corp.example:5000/quay"),
        ("quay.io/team", "mirror.corp.example/team", "quay.io", "mirror.corp.example"),
        ("quay.io/team/app", "mirror.corp.example/quay/team/app", "quay.io", "mirror.corp.example/quay"),
        ("docker://quay.io/team", "mirror.corp.example/team", "quay.io", "mirror.corp.example"),
        ("https://quay.io:8443", "https://mirror.corp.example:5000/", "quay.io:8443", "mirror.corp.example:5000"),
        ("[fd00::1]:5000", "[fd00::2]:5000/x", "[fd00::1]:5000", "[fd00::2]:5000/x"),
        ("[fd00::1]/a", "[fd00::2]/a", "[fd00::1]", "[fd00::2]"),
        ("localhost:5000", "m_1.x", "localhost:5000", "m_1.x"),
    ],
)
def test_where_a_registry_is_mirrored(source: str, mirror: str, registry: str, wanted: str) -> None:
    found = build_registries([mirror_set(entry(source, mirror))])
    assert places(found) == {registry: [wanted]}
    assert found.problems == ()


@pytest.mark.parametrize(
    ("source", "mirror", "says"),
    [
        ("quay.io/team", "mirror.corp.example/other", "mirrors whole registries"),
        ("vmc.ci.example/ci-op/pipeline", "devcluster:5000/pipeline", "does not end with /ci-op/pipeline"),
        ("*.redhat.io", "m.io", "no wildcards"),
        ("quay.io", "*.m.io", "no wildcards"),
        ("quay io", "m.io", "is not a valid registry"),
        ("", "m.io", "is not a valid registry"),
        ("quay.io", "", "is not a valid registry"),
        ("quay.io:port", "m.io", "is not a valid registry"),
        ("../../Windows", "m.io", "is not a valid registry"),
        ("quay.io", "m.io/a\nb", "is not a valid registry"),
        ("fd00::1", "m.io", "is not a valid registry"),
    ],
)
def test_what_cannot_be_said_costs_its_own_entry(source: str, mirror: str, says: str) -> None:
    found = build_registries([mirror_set(entry(source, mirror), entry("gcr.io", "m.io/gcr"))])
    assert places(found) == {"gcr.io": ["m.io/gcr"]}
    (problem,) = found.problems
    assert problem.startswith("set: ")
    assert says in problem


@pytest.mark.parametrize("kinds", [(DIGESTS, DIGESTS), (DIGESTS, TAGS), (TAGS, DIGESTS)])
@pytest.mark.parametrize("policies", [(NEVER, ""), ("", NEVER), (NEVER, "AllowContactingSource"), (NEVER, NEVER)])
def test_a_source_that_one_set_forbids_is_never_contacted(policies: tuple[str, str], kinds: tuple[str, str]) -> None:
    sets = [
        mirror_set(entry(source, mirror, policy=policy), name=name, kind=kind)
        for name, kind, policy, source, mirror in zip(
            "ab", kinds, policies, ("quay.io", "quay.io/x"), ("m.io/q", "n.io/x"), strict=True
        )
    ]
    (found,) = build_registries(sets).registries
    assert not found.fallback
    read_back = tomllib.loads(render_hosts_toml(found).reveal())
    assert (read_back["server"], read_back["override_path"]) == ("https://m.io/v2/q", True)
    assert "quay.io" not in render_hosts_toml(found).reveal()


def test_a_forbidden_source_without_a_mirror_that_can_be_said_is_asked_for_nothing() -> None:
    found = build_registries([mirror_set(entry("quay.io/team", "m.io/other", policy=NEVER))])
    (one,) = found.registries
    assert tomllib.loads(render_hosts_toml(one).reveal()) == {"server": "https://quay.io", "capabilities": ["push"]}
    assert len(found.problems) == 1


@pytest.mark.parametrize(
    ("kinds", "resolve"), [((DIGESTS,), False), ((TAGS,), True), ((DIGESTS, TAGS), True), ((TAGS, DIGESTS), True)]
)
def test_a_mirror_of_digests_is_asked_for_no_tag(kinds: tuple[str, ...], resolve: bool) -> None:
    sets = [mirror_set(entry("quay.io", "m.io"), name=str(at), kind=kind) for at, kind in enumerate(kinds)]
    (one,) = build_registries(sets).registries
    (host,) = tomllib.loads(render_hosts_toml(one).reveal())["host"].values()
    assert host["capabilities"] == (["pull", "resolve"] if resolve else ["pull"])


def test_several_sets_of_one_registry() -> None:
    found = build_registries(
        [
            mirror_set(entry("quay.io", "b.example"), name="b"),
            mirror_set(entry("quay.io/x", "a.example/x", "b.example/x"), name="a", kind=TAGS),
            mirror_set(entry("gcr.io", "c.example", policy=NEVER), name="c"),
        ]
    )
    assert places(found) == {"quay.io": ["a.example", "b.example"], "gcr.io": ["c.example"]}
    assert [registry.fallback for registry in found.registries] == [True, False]


@pytest.mark.parametrize(
    "broken",
    [
        {},
        {"spec": None},
        {"spec": {DIGESTS: "x"}},
        mirror_set("x"),
        mirror_set({"source": "a"}),
        mirror_set(entry("a") | {"mirrors": 1}),
    ],
)
def test_a_set_that_asks_for_nothing(broken: Any) -> None:
    assert build_registries([broken]).registries == ()


LOGIN = base64.b64encode(b"alice:hunter2").decode()


def secret(**auths: Any) -> Secret:
    return Secret(json.dumps({"auths": auths}))


@pytest.mark.parametrize(
    ("auths", "place", "wanted"),
    [
        ({"m.x:5000": {"auth": LOGIN}}, "m.x:5000/q", "alice:hunter2"),
        ({"m.x:5000": {"auth": LOGIN.rstrip("=")}}, "m.x:5000", "alice:hunter2"),
        ({"m.x:5000": {"auth": LOGIN}}, "m.x", None),
        ({"https://m.x/v1/": {"auth": LOGIN}}, "m.x/q", "alice:hunter2"),
        ({"M.X": {"auth": LOGIN}}, "m.x", "alice:hunter2"),
        ({"m.x": {"username": "bob", "password": "hunter3"}}, "m.x", "bob:hunter3"),
        ({"m.x": {"username": "bob", "password": "hunter3", "auth": LOGIN}}, "m.x", "alice:hunter2"),
        ({"m.x": {"auth": LOGIN}, "m.x/q": {"username": "bob", "password": "3"}}, "m.x/q/r", "bob:3"),
        ({"m.x": {"auth": LOGIN}, "m.x/q": {"username": "bob", "password": "3"}}, "m.x/quay", "alice:hunter2"),
        ({"*.x": {"username": "bob", "password": "3"}, "m.x": {"auth": LOGIN}}, "m.x", "alice:hunter2"),
        ({"*.x": {"auth": LOGIN}}, "m.x", "alice:hunter2"),
        ({"*.x": {"auth": LOGIN}}, "a.m.x", None),
    ],
)
def test_the_login_of_a_place(auths: dict[str, Any], place: str, wanted: str | None) -> None:
    found = parse_logins(secret(**auths))
    login = found.find_login(place)
    assert (login.reveal() if login else None) == wanted
    assert found.problems == ()
    assert "hunter2" not in repr(found)


@pytest.mark.parametrize(
    "bad",
    [
        {"auth": "?"},
        {"auth": base64.b64encode(b"nobody").decode()},
        {"auth": "/w=="},
        {},
        "x",
        {"username": "bob"},
        {"auth": 1},
    ],
)
def test_a_bad_login_costs_itself_alone(bad: Any) -> None:
    found = parse_logins(secret(**{"bad.x": bad, "m.x": {"auth": LOGIN}}))
    assert [login.host for login in found.logins] == ["m.x"]
    (problem,) = found.problems
    assert "'bad.x'" in problem


@pytest.mark.parametrize("text", ["", "[]", "{", '{"auths": 1}', "null"])
def test_a_pull_secret_that_is_none_is_told_and_costs_no_mirror(text: str) -> None:
    found = build_registries([mirror_set(entry("quay.io", "a.example"))], parse_logins(Secret(text)))
    assert places(found) == {"quay.io": ["a.example"]}
    assert len(found.problems) == 1
    assert parse_logins(None).problems == ()


ONE, OTHER = format_pem([authority("One")]), format_pem([authority("Other")])


def test_the_authorities_of_registries() -> None:
    found, problems = read_authorities(
        [
            ("image.config", "registry.corp.example..5000", ONE),
            ("image-registry", "registry.corp.example..5000", ONE + OTHER),
            ("image.config", "plain.corp.example", OTHER),
            ("image.config", "*.corp.example", ONE),
            ("image.config", "empty.corp.example", ""),
            ("image.config", "half.corp.example", "-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n" + ONE),
        ]
    )
    assert found == {
        "registry.corp.example:5000": ONE + OTHER,
        "plain.corp.example": OTHER,
        "half.corp.example": ONE,
    }
    assert [problem.split(": ")[1].strip("'") for problem in problems] == [
        "'*.corp.example' is not a registry".strip("'"),
        "empty.corp.example",
        "half.corp.example",
    ]


def test_a_registry_with_authorities_alone_has_no_hosts_toml() -> None:
    """containerd takes `*.crt` of the directory where there is no hosts.toml."""
    made = dict(iter_files(build_registries([], None, {"registry.corp.example:5000": ONE}).registries, ROOT))
    assert {path: content.reveal() for path, content in made.items()} == {rf"{ROOT}\registry.corp.example5000\ca.crt": ONE}


def test_authorities_go_with_mirrors() -> None:
    sets = [mirror_set(entry("quay.io", "m.x:5000/q", "n.x"))]
    made = dict(iter_files(build_registries(sets, None, {"m.x:5000": ONE, "quay.io": OTHER}).registries, ROOT))
    assert set(made) == {rf"{ROOT}\quay.io\hosts.toml", rf"{ROOT}\quay.io\ca.crt", rf"{ROOT}\m.x5000\ca.crt"}
    toml = tomllib.loads(made[rf"{ROOT}\quay.io\hosts.toml"].reveal())
    assert toml["ca"] == rf"{ROOT}\quay.io\ca.crt"
    assert toml["host"]["https://m.x:5000/v2/q"]["ca"] == rf"{ROOT}\m.x5000\ca.crt"
    assert "ca" not in toml["host"]["https://n.x"]


def test_a_registry_as_containerd_reads_it() -> None:
    mirrors = (Mirror("m.x:5000/quay"), Mirror("n.x", resolve=False, login=Secret("a:hunter2")))
    registry = ImageRegistry("quay.io:8443", mirrors)
    assert format_directory_name(registry.name) == "quay.io8443"
    assert render_hosts_toml(registry).reveal().splitlines() == [
        'server = "https://quay.io:8443"',
        "",
        '[host."https://m.x:5000/v2/quay"]',
        '  capabilities = ["pull", "resolve"]',
        "  override_path = true",
        "",
        '[host."https://n.x"]',
        '  capabilities = ["pull"]',
        '  [host."https://n.x".header]',
        '    authorization = "Basic YTpodW50ZXIy"',
    ]
    assert "hunter2" not in repr(registry)


@pytest.mark.parametrize("source", ["docker.io", "index.docker.io", "Docker.io", "docker.io/example"])
def test_docker_hub_is_asked_at_the_host_of_its_registry(source: str) -> None:
    """containerd v2.4.2 asks registry-1.docker.io where docker.io has no hosts.toml (core/remotes/docker, `DefaultHost`)."""
    path = source.partition("/")[2]
    (registry,) = build_registries([mirror_set(entry(source, f"m.x:8443/{path}".rstrip("/")))]).registries
    ((place, content),) = iter_files([registry], ROOT)
    assert place == rf"{ROOT}\docker.io\hosts.toml"
    assert tomllib.loads(content.reveal())["server"] == "https://registry-1.docker.io"


def test_docker_hub_without_a_mirror_is_asked_for_nothing_at_its_host() -> None:
    (registry,) = build_registries([mirror_set(entry("docker.io/team", "m.io/other", policy=NEVER))]).registries
    assert tomllib.loads(render_hosts_toml(registry).reveal()) == {
        "server": "https://registry-1.docker.io",
        "capabilities": ["push"],
    }


@pytest.mark.parametrize(
    "name", ["https://index.docker.io/v1/", "index.docker.io", "docker.io", "registry-1.docker.io", "Docker.IO"]
)
@pytest.mark.parametrize(
    "mirror", ["docker.io/example/team", "index.docker.io/example/team", "registry-1.docker.io/example/team"]
)
def test_docker_hub_as_a_mirror_has_one_host_and_its_login(name: str, mirror: str) -> None:
    (found,) = build_registries(
        [mirror_set(entry("quay.io/team", mirror))], parse_logins(secret(**{name: {"auth": LOGIN}}))
    ).registries
    assert tomllib.loads(render_hosts_toml(found).reveal())["host"] == {
        "https://registry-1.docker.io/v2/example": {
            "capabilities": ["pull"],
            "override_path": True,
            "header": {"authorization": f"Basic {LOGIN}"},
        }
    }


def test_two_names_of_docker_hub_are_one_registry_with_one_set_of_authorities() -> None:
    authorities, problems = read_authorities([("a", "docker.io", ONE), ("b", "index.docker.io", OTHER)])
    assert (authorities, problems) == ({"docker.io": ONE + OTHER}, ())
    sets = [mirror_set(entry("docker.io", "m.x"), entry("index.docker.io", "n.x"))]
    (found,) = build_registries(sets, None, authorities).registries
    assert [mirror.place for mirror in found.mirrors] == ["m.x", "n.x"]
    made = dict(iter_files([found], ROOT))
    assert tomllib.loads(made[rf"{ROOT}\docker.io\hosts.toml"].reveal())["ca"] == rf"{ROOT}\docker.io\ca.crt"


@pytest.mark.parametrize("name", ["docker.io.corp.example", "mydocker.io", "index.docker.io:5000", "quay.io"])
def test_the_host_of_another_registry_is_its_name(name: str) -> None:
    (found,) = build_registries([mirror_set(entry(name, "m.x"))]).registries
    assert tomllib.loads(render_hosts_toml(found).reveal())["server"] == f"https://{name}"
