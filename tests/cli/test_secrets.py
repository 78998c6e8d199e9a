"""Secrets stay secret: for any settings, valid or not, and any command, no password is in any output, nor half of one."""

import base64
import copy
import io
import json
import pickle
import pprint
import tempfile
import traceback
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import quote, unquote

import msgspec
import pytest
import structlog
import yaml
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from rich.console import Console
from rich.pretty import Pretty
from tests.support.bundles import NOW, certificate, cluster, config_map, egress_proxy, openshift_proxy, secret, write
from tests.support.command import run

from transom.proxy.secret import Secret
from transom.proxy.url import parse, redact_text
from transom.sources.directory import load_objects
from transom.sources.examination import examine_objects

COMMANDS = (
    ("validate", "-f", "{}"),
    ("validate", "-o", "json", "-f", "{}"),
    ("validate", "-o", "yaml", "-f", "{}"),
    ("no-proxy", "merge", "-f", "{}"),
    ("no-proxy", "merge", "-o", "json", "-f", "{}"),
    ("render", "-f", "{}"),
    ("render", "-o", "json", "-f", "{}"),
    ("render", "--machine-templates", "entries", "-f", "{}"),
    ("diff", "-f", "{}"),
    ("apply", "-o", "json", "-f", "{}"),
    ("trust", "inspect", "{}/manifests.yaml"),
    ("trust", "inspect", "-o", "json", "{}/manifests.yaml"),
)
HIDDEN = Secret("hunter2")
# each half has letters that no message has side by side
HALVES = st.text(st.sampled_from("QZXJKVW983hunter2%^&!\"\\é@:/#?,; '[]{}<>|`~$*\n\t\0*-_."), min_size=6, max_size=14)
PASSWORDS = st.tuples(HALVES, HALVES).map(lambda halves: f"QX9{halves[0]}hunter2{halves[1]}ZJ8")


@pytest.fixture(scope="module", autouse=True)
def state(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """What the commands keep between runs is not to be the person's own."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("XDG_STATE_HOME", str(tmp_path_factory.mktemp("state")))
        yield


def forms(password: str) -> set[str]:
    """What must not be seen: each half, raw and decoded, and each of that in base64 and as UTF-16 in hex."""
    seen: set[str] = set()
    for text in (password, unquote(password), quote(password, safe="")):
        middle = len(text) // 2
        for part in (text, text[:middle], text[middle:]):
            raw = part.encode("utf-8", "surrogatepass")
            seen |= {part, repr(part)[1:-1], json.dumps(part)[1:-1], part.strip()}
            # of base64 without what depends on the neighbours
            seen |= {base64.b64encode(raw[cut:])[: (len(raw) - cut) // 3 * 4].decode() for cut in range(3)}
            hexed = part.encode("utf-16-le", "surrogatepass").hex()
            seen |= {hexed, ",".join(hexed[at : at + 2] for at in range(0, len(hexed), 2))}
    return {form for form in seen if len(form) >= 6}


@st.composite
def manifests(draw: st.DrawFn) -> tuple[str, str]:
    """A password, and a file that holds it somewhere."""
    password = draw(PASSWORDS)
    userinfo = draw(st.sampled_from([password, quote(password, safe=""), quote(password)]))
    url = draw(
        st.sampled_from(["http://u:{}@p.x:1", "http://{}@p.x", "http://{}:x@p.x:0", "http://u:{}@", "{}@p.x", "ftp://u:{}@p.x"])
    )
    proxy = url.replace("{}", userinfo)
    plain = "http://p.x:3128"
    key = f"-----BEGIN PRIVATE KEY-----\n{password}\n-----END PRIVATE KEY-----\n"
    encoded = base64.b64encode(password.encode()).decode()
    field = draw(st.sampled_from(["httpProxy", "httpsProxy"]))
    spec: dict[str, Any] = draw(
        st.sampled_from(
            [
                {field: proxy},
                {field: proxy, "noProxy": "*.x,a b,,a.com"},
                {"httpProxy": plain, "noProxy": f"a.com,{proxy},*.b.com"},
                {"httpProxy": plain, "readinessEndpoints": [proxy]},
                {"httpProxy": plain, "credentialsSecret": {"name": "creds"}},
                {"httpProxy": plain, "credentialsSecret": {"name": "creds"}, "clusterSelector": {}},
                {field: proxy, "clusterSelector": {}, "linux": {"environmentScope": "Both"}},
                {"httpProxy": plain, "linux": {"services": [proxy], "environmentScope": proxy}},
                {"httpProxy": proxy, "credentialsSecret": {"name": "creds"}},
                {"httpProxy": plain, "trustedCA": {"name": "ca"}},
                {"httpProxy": [proxy], "httpsProxy": {"url": proxy}},
                {"httpProxy": plain, "networks": {"internalAPIHost": proxy, "podNetwork": [proxy], "dnsDomain": proxy}},
                {
                    "httpProxy": plain,
                    "networks": {"platform": {"type": "Azure", "cloud": "AzureStackCloud", "armEndpoint": proxy}},
                },
                {"httpProxy": plain, "windows": {"services": [proxy], "restart": proxy}},
                {"httpProxy": plain, "rollout": proxy, "priority": proxy, "consumers": [proxy]},
                {"httpProxy": plain, "trustedCA": {"name": proxy}, "credentialsSecret": {"name": proxy}},
            ]
        )
    )
    stored = draw(
        st.sampled_from(
            [
                {"stringData": {"username": "u", "password": password}},
                {"stringData": {"username": password, "password": "hunter2"}},
                {"data": {"username": "dQ==", "password": encoded}},
                {"data": {"username": "dQ==", "password": password}},
                {"stringData": {"password": [password]}},
                {"stringData": [password]},
                {"stringData": {password: "x"}, "data": password},
            ]
        )
    )
    make = draw(st.sampled_from([egress_proxy, openshift_proxy]))
    objects = [
        make(spec),
        secret("creds", **stored),
        cluster(
            "prod", controlPlaneRef={"kind": draw(st.sampled_from(["TalosControlPlane", "RKE2ControlPlane"])), "name": "prod"}
        ),
        secret("cloud-private-key", stringData={"private-key.pem": key}),
    ]
    bundle = draw(st.sampled_from([key, certificate("Root") + key, password, f"-----BEGIN CERTIFICATE-----\n{password}\n"]))
    objects.append(config_map("ca", {"ca-bundle.crt": bundle}))
    host = {
        "port": 1,
        "address": draw(st.sampled_from(["127.0.0.1", proxy])),
        "username": draw(st.sampled_from(["Administrator", "a\nb"])),
    }
    meta = {"name": "win-1", "labels": {"transom.dev/inject-trusted-cabundle": "true"}}
    objects.append({"apiVersion": "transom.dev/v1alpha1", "kind": "WindowsInstance", "metadata": meta, "spec": host})
    style = draw(st.sampled_from(["plain", "flow", "json"]))
    if style == "json":
        text = json.dumps({"apiVersion": "v1", "kind": "List", "items": objects})
    else:
        text = yaml.safe_dump_all(objects, default_flow_style=style == "flow", allow_unicode=True, width=10_000)
    return password, draw(damaged(text))


@st.composite
def damaged(draw: st.DrawFn, text: str) -> str:
    """Most texts as they are; of others a few characters are taken out or put in."""
    for _ in range(draw(st.sampled_from([0, 0, 0, 1, 2]))):
        at = draw(st.integers(0, len(text)))
        taken = draw(st.integers(0, 3))
        text = (
            text[:at]
            + draw(st.sampled_from(["", "\n", ":", "'", '"', "{", "&a ", "*a", "!t ", "\t", "- ", "# "]))
            + text[at + taken :]
        )
    return text


@settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large])
@given(manifests())
def test_no_password_in_any_output(drawn: tuple[str, str]) -> None:
    password, text = drawn
    with tempfile.TemporaryDirectory() as directory:
        (Path(directory) / "manifests.yaml").write_text(text, "utf-8")
        for command in COMMANDS:
            ran = run(*(part.replace("{}", directory) for part in command))
            assert ran.code in (0, 1, 2, 3)
            output = ran.out + ran.err
            leaks = [form for form in forms(password) if form in output]
            assert not leaks, (command, leaks)


def test_the_property_can_fail() -> None:
    password = "QX9hunter2ZJ8abc"
    encoded = base64.b64encode(f"u:{password}".encode()).decode()
    for output in (password, password[:8], password[8:], encoded, password.encode("utf-16-le").hex()):
        assert any(form in f"x{output}y" for form in forms(password))


@pytest.mark.parametrize(
    "show",
    [
        repr,
        str,
        "{}".format,
        "{!r:>30}".format,
        lambda s: f"{s}",
        lambda s: str([s]),
        lambda s: str({"a": s}),
    ],
)
def test_a_secret_shows_stars(show: Any) -> None:
    text = show(Secret("hunter2"))
    assert "hunter2" not in text
    assert "***" in text


@pytest.mark.parametrize("give_away", [pickle.dumps, json.dumps, msgspec.json.encode, msgspec.to_builtins, copy.deepcopy])
def test_a_secret_is_not_encoded(give_away: Any) -> None:
    with pytest.raises((TypeError, msgspec.ValidationError)) as caught:
        give_away(HIDDEN)
    assert "hunter2" not in "".join(traceback.format_exception(caught.value))


def test_a_secret_in_a_log_line(capsys: pytest.CaptureFixture[str]) -> None:
    for renderer in (structlog.processors.JSONRenderer(default=str), structlog.dev.ConsoleRenderer()):
        log = structlog.wrap_logger(structlog.PrintLogger(), processors=[structlog.processors.format_exc_info, renderer])
        try:
            raise ValueError(HIDDEN)
        except ValueError:
            log.exception("failed", proxy=HIDDEN, all=[HIDDEN])
    assert "hunter2" not in capsys.readouterr().out


def test_equal_secrets_are_equal_without_being_shown() -> None:
    assert Secret("hunter2") == Secret("hunter2")
    assert Secret("hunter2") != Secret("hunter3")
    assert Secret("hunter2").reveal() == "hunter2"


@pytest.mark.parametrize("url", ["http://u:hunter2@p.x:1/x", "http://hunter2:12/34@p.x", "http://u:hunter2@p.x/?a@b"])
def test_a_url_shows_no_userinfo(url: str) -> None:
    taken = parse(url)
    out = io.StringIO()
    Console(file=out, width=200).print(taken, [taken], Pretty(taken), {"url": taken})
    shown = [
        repr(taken),
        str(taken),
        f"{taken}",
        taken.redacted,
        redact_text(url),
        out.getvalue(),
        pprint.pformat({"a": [taken]}),
    ]
    assert not [text for text in shown if "hunter2" in text]
    if "hunter2@" in url:
        with pytest.raises(TypeError):
            msgspec.json.encode(taken)


def test_objects_show_no_secret(tmp_path: Path) -> None:
    spec = {"httpProxy": "http://u:hunter2@p.x:1"}
    stored = secret("creds", stringData={"username": "u", "password": "hunter2"})
    objects = load_objects([write(tmp_path, egress_proxy(spec), openshift_proxy(spec, spec), stored)])
    examined = examine_objects(objects, NOW)
    out = io.StringIO()
    Console(file=out, width=200).print(objects, examined, Pretty(objects), Pretty(examined))
    for text in (repr(objects), repr(examined), pprint.pformat(objects), out.getvalue(), repr(objects.secrets)):
        assert "creds" in text or "Egress" in text
        assert "hunter2" not in text
    for value in (objects, examined):
        with pytest.raises(TypeError):
            msgspec.json.encode(value)
