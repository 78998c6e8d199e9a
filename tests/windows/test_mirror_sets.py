"""OpenShift's mirror sets as containerd's mirrors: a table."""

import base64
import json
from typing import Any

import pytest

from transom.proxy.secret import Secret
from transom.windows.mirror_sets import mirrors
from transom.windows.mirrors import hosts_toml


def mirror_set(*entries: Any, name: str = "set", kind: str = "imageDigestMirrors") -> dict[str, Any]:
    return {"metadata": {"name": name}, "spec": {kind: list(entries)}}


@pytest.mark.parametrize(
    ("source", "mirror", "wanted"),
    [
        ("quay.io", "mirror.corp.example:5000", "mirror.corp.example:5000"),
        ("quay.io", "mirror.corp.example:5000/quay", "mirror.corp.example:5000/quay"),
        ("quay.io/team", "mirror.corp.example/team", "mirror.corp.example"),
        ("quay.io/team/app", "mirror.corp.example/quay/team/app", "mirror.corp.example/quay"),
        ("quay.io/team", "mirror.corp.example/other", None),
    ],
)
def test_where_a_registry_is_mirrored(source: str, mirror: str, wanted: str | None) -> None:
    found = mirrors([mirror_set({"source": source, "mirrors": [mirror]})])
    assert [one.mirrors for one in found.mirrors] == ([(wanted,)] if wanted else [])
    assert bool(found.problems) == (wanted is None)


def test_several_sets_of_one_registry() -> None:
    found = mirrors(
        [
            mirror_set({"source": "quay.io", "mirrors": ["b.example"], "mirrorSourcePolicy": "NeverContactSource"}, name="b"),
            mirror_set({"source": "quay.io/x", "mirrors": ["a.example/x", "b.example/x"]}, name="a", kind="imageTagMirrors"),
            mirror_set({"source": "gcr.io", "mirrors": ["c.example"], "mirrorSourcePolicy": "NeverContactSource"}, name="c"),
        ]
    )
    assert [(one.registry, one.mirrors, one.fallback) for one in found.mirrors] == [
        ("quay.io", ("a.example", "b.example"), True),
        ("gcr.io", ("c.example",), False),
    ]


def test_credentials_of_the_pull_secret() -> None:
    login = base64.b64encode(b"alice:hunter2").decode()
    secret = Secret(
        json.dumps({"auths": {"mirror.example:5000": {"auth": login}, "https://other.example/v1": {"auth": login}}})
    )
    (found,) = mirrors(
        [mirror_set({"source": "quay.io", "mirrors": ["mirror.example:5000/q", "none.example"]})], secret
    ).mirrors
    assert set(found.credentials) == {"mirror.example:5000/q"}
    assert "hunter2" not in repr(found)
    assert f"Basic {login}" in hosts_toml(found).reveal()


@pytest.mark.parametrize("text", ["", "[]", "{", '{"auths": {"a": {"auth": "?"}}}', '{"auths": 1}'])
def test_a_pull_secret_that_is_none(text: str) -> None:
    assert mirrors([mirror_set({"source": "quay.io", "mirrors": ["a.example"]})], Secret(text)).mirrors[0].credentials == {}


@pytest.mark.parametrize("broken", [{}, {"spec": None}, mirror_set("x"), mirror_set({}), mirror_set({"source": "a"})])
def test_a_set_that_is_none(broken: Any) -> None:
    assert mirrors([broken]).mirrors == ()
