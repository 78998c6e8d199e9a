"""What people get wrong in their first hour, by the numbers of a list that grows: what they did, and what has to come of it.

`found` are the findings of `validate` as severity, object and field; a command has what it has to name. No row says in which
words.
"""

import base64
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Any, NamedTuple

import yaml
from cryptography import x509
from cryptography.hazmat.primitives.serialization import Encoding
from tests.cli.wrong_inputs import CA, KEY, PROXY, bundle, egress, instance, secret
from tests.support.bundles import certificate, private_key

Found = tuple[str, str, str]
HOST = "WindowsInstance/transom-system/win-1"
BASE = "EgressProxy/cluster"
OPENED = "Secret/transom-system/cloud-private-key"
NETWORKS = {
    "machineNetwork": ["10.0.0.0/16"],
    "serviceNetwork": ["10.96.0.0/16"],
    "podNetwork": ["10.244.0.0/16"],
    "internalAPIHost": "api.corp.example",
}
GOOD = PROXY | {"networks": NETWORKS}
OPENS = secret(stringData={"private-key.pem": KEY})
SERVER_KEY = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIA7XlhSmF8JYLXFmnrQf2FpUWcYtnZlCI4mjHH6xEdOl other"
DER = x509.load_pem_x509_certificate(CA.encode()).public_bytes(Encoding.DER)


class Mistake(NamedTuple):
    """One mistake: the files, and commands with their exit codes and what they name; `{d}` is the files' directory."""

    number: int
    name: str
    files: Mapping[str, str | bytes] = MappingProxyType({})
    found: tuple[Found, ...] | None = None
    """None: `validate` has no part in it."""
    commands: tuple[tuple[tuple[str, ...], int, tuple[str, ...]], ...] = ()
    prepare: Callable[[Path], object] = lambda _: None


def written(*objects: Any) -> dict[str, str | bytes]:
    return {"a.yaml": yaml.safe_dump_all(objects, allow_unicode=True)}


def error(object_: str, field: str) -> Found:
    return "error", object_, field


def warning(object_: str, field: str) -> Found:
    return "warning", object_, field


HEAD = "apiVersion: transom.dev/v1alpha1\nkind: EgressProxy\nmetadata: {name: cluster}\nspec:\n"
NET = f"  networks: {NETWORKS}\n"


def _of_the_list() -> Iterator[Mistake]:
    text = HEAD + "  httpProxy: http://p.x:1\n"
    yield Mistake(1, "indentation", {"a.yaml": text + "   noProxy: a.x\n"}, (error("", ""),))
    yield Mistake(1, "a tab", {"a.yaml": HEAD + "\thttpProxy: http://p.x:1\n"}, (error("", ""),))
    yield Mistake(2, "a kind", written(egress(**GOOD) | {"kind": "EgresProxy"}), (error("EgresProxy/cluster", "kind"),))
    for name in ("egressproxy", "EgressProxies", "WindowsInstances"):
        found = (error(f"{name}/cluster", "kind"),)
        yield Mistake(2, f"the kind {name}", written(egress(**GOOD) | {"kind": name}), found)
    lower = bundle(CA) | {"kind": "Configmap"}
    found = (error(BASE, "spec.trustedCA.name"), error("Configmap/ca", "kind"))
    yield Mistake(2, "the kind Configmap", written(egress(**GOOD, trustedCA={"name": "ca"}), lower), found)
    found = (error(HOST, "spec.keySecret.name"), error("secret/cloud-private-key", "kind"))
    yield Mistake(2, "the kind secret", written(egress(**GOOD), instance(), OPENS | {"kind": "secret"}), found)
    payload = {"apiVersion": "transom.dev/v1alpha1", "kind": "Payload", "version": "1", "kubernetes": "v1.36.3"}
    yield Mistake(2, "a payload", written(egress(**GOOD), payload), (error("Payload", "kind"),))
    found = (warning(BASE, "spec"),)
    yield Mistake(3, "an empty spec", written(egress(), instance(), OPENS), found)
    yield Mistake(3, "an empty spec that is meant", written(egress(httpProxy=""), instance(), OPENS), ())
    yield Mistake(3, "a field", written(egress(**GOOD, httpsproxy="http://p.x:1")), (error(BASE, "spec.httpsproxy"),))
    yield Mistake(4, "an option", commands=((("validate", "--file", "x"), 2, ("--filename",)),))
    yield Mistake(4, "a command", commands=((("aply", "-f", "x"), 2, ("apply",)),))
    yield Mistake(4, "an option of apply", commands=((("apply", "-f", "x", "--limt", "a"), 2, ("--limit",)),))
    closed = written(egress(**GOOD), instance(address="127.0.0.1", port=1), OPENS)
    nobody = written(egress(**GOOD), instance(address="win-1.invalid"), OPENS)
    for name, files in (("a port", closed), ("a host name", nobody)):
        commands = ((("diff", "-f", "{d}"), 3, ("win-1",)), (("apply", "-f", "{d}"), 1, ("win-1",)))
        yield Mistake(6, name, files, (), commands)
    trusting = egress(**GOOD, trustedCA={"name": "ca"})
    yield Mistake(7, "no CA", written(trusting), (error(BASE, "spec.trustedCA.name"),))
    good = written(egress(**GOOD), instance(), OPENS)
    for pattern in ("win-9", "win-[1"):
        command = ("apply", "-f", "{d}", "--limit", pattern)
        yield Mistake(9, f"--limit {pattern}", good, (), ((command, 2, ("--limit", pattern, "win-1")),))
    yield Mistake(10, "no file", commands=((("apply", "-f", "{d}/nowhere"), 2, ("{d}/nowhere",)),))
    yield Mistake(10, "an empty directory", {}, (error("", ""),))
    yield Mistake(10, "an empty file", {"a.yaml": ""}, (error("", ""),))
    old = bundle(certificate("Old", ends="2021-01-01"))
    command = (("doctor", "-f", "{d}"), 1, ("certificate-ends", BASE))
    where = "ConfigMap/transom-system/ca", "data[ca-bundle.crt]"
    yield Mistake(11, "a CA that has ended", written(trusting, old), (warning(*where),), (command,))
    yield Mistake(12, "a private key for a CA", written(trusting, bundle(CA + KEY)), (error(*where),))
    leaf = bundle(certificate("proxy", authority=False))
    command = (("doctor", "-f", "{d}"), 1, ("certificate-is-no-ca",))
    yield Mistake(13, "the proxy's own certificate", written(trusting, leaf), (warning(*where),), (command,))
    yield Mistake(13, "no certificate", written(trusting, bundle(CA.replace("MII", "!!!"))), (error(*where),))
    command = ("init", "{d}/new", "--proxy", "http://p.x:1", "--ca", "{d}/ca.cer")
    yield Mistake(13, "DER", {"ca.cer": DER}, None, ((("trust", "inspect", "{d}/ca.cer"), 0, ()), (command, 0, ())))
    for name, url in (("no scheme", "p.x:1"), ("socks", "socks5://p.x:1"), ("a port", "http://p.x:99999")):
        found = (error(BASE, "spec.httpProxy"),)
        yield Mistake(14, name, written(egress(**GOOD | {"httpProxy": url})), found)
    inline = egress(**GOOD | {"httpProxy": "http://bob:hunter2@p.x:1"})
    command = (("doctor", "-f", "{d}"), 1, ("credentials-in-settings", BASE))
    yield Mistake(15, "a password in the URL", written(inline), (warning(BASE, "spec.httpProxy"),), (command,))
    status = {"httpProxy": "http://bob:hunter2@p.x:1", "httpsProxy": "http://p.x:1", "noProxy": ".svc"}
    theirs = {"apiVersion": "config.openshift.io/v1", "kind": "Proxy", "metadata": {"name": "cluster"}, "status": status}
    theirs["spec"] = {"httpProxy": "http://bob:hunter2@p.x:1", "httpsProxy": "http://p.x:1"}
    command = (("doctor", "-f", "{d}"), 1, ("credentials-in-settings", "Proxy/cluster"))
    yield Mistake(15, "in OpenShift's", written(theirs), (warning("Proxy/cluster", "spec.httpProxy"),), (command,))
    for name, text in (("blanks", "a.x b.x"), ("semicolons", "a.x;b.x")):
        command = (("no-proxy", "lint", text), 1, (text,))
        yield Mistake(16, name, written(egress(**GOOD, noProxy=text)), (error(BASE, "spec.noProxy"),), (command,))
    yield Mistake(17, "noProxy as a list", written(egress(**GOOD, noProxy=["a.x"])), (error(BASE, "spec.noProxy"),))
    layer = egress("other", **PROXY, windows={"restart": "Manual"})
    yield Mistake(18, "two", written(egress(**GOOD), layer), (error("EgressProxy/other", "spec.windows"),))
    yield Mistake(18, "the same twice", written(egress(**GOOD), egress(**GOOD)), (error(BASE, "metadata.name"),))
    elsewhere = instance()
    elsewhere["metadata"]["namespace"] = "default"
    commands = ((("diff", "-f", "{d}"), 3, ("default/win-1",)), (("apply", "-f", "{d}"), 1, ("default/win-1",)))
    found = (warning("WindowsInstance/default/win-1", "metadata.namespace"),)
    yield Mistake(19, "a host elsewhere", written(egress(**GOOD), elsewhere), found, commands)
    key = secret(stringData={"private-key.pem": KEY})
    key["metadata"]["namespace"] = "default"
    found = (error(HOST, "spec.keySecret.name"),)
    yield Mistake(19, "a Secret elsewhere", written(egress(**GOOD), instance(), key), found)


def _of_programs() -> Iterator[Mistake]:
    def large(directory: Path) -> None:
        with (directory / "large.yaml").open("wb") as file:
            file.truncate(200_000_000)

    yield Mistake(20, "200 MB", {}, (error("", ""),), prepare=large)
    yield Mistake(20, "a program", {"a.yaml": b"\x7fELF\x80\x81"}, (error("", ""),))
    values = {**written(egress(**GOOD)), "values.yaml": "proxy: {{ .Values.x }}\n"}
    yield Mistake(20, "a chart", values, (error("", ""),))
    yield Mistake(21, "a file that cannot be read", {}, (error("", ""),), prepare=lambda d: (d / "a.yaml").mkdir())
    good = written(egress(**GOOD), instance(), OPENS)
    state = (("diff", "-f", "{d}"), 1, ("XDG_STATE_HOME",))
    yield Mistake(21, "a file for the state", good, (), (state,), prepare=lambda d: (d.parent / "state").write_text(""))
    yield Mistake(22, "no terminal", commands=((("init", "{d}/new"), 2, ("--proxy", "--simulated")),))
    yield Mistake(26, "two sources", good, None, ((("diff", "-f", "{d}", "--context", "x"), 2, ("--context",)),))
    yield Mistake(26, "no source", commands=((("apply",), 2, ("-f", "--context")),))
    config = {
        "apiVersion": "v1",
        "kind": "Config",
        "current-context": "here",
        "clusters": [{"name": "c", "cluster": {"server": "https://127.0.0.1:1"}}],
        "users": [{"name": "u", "user": {"token": "hunter2"}}],
        "contexts": [{"name": "here", "context": {"cluster": "c", "user": "u"}}],
    }
    files = {"config": yaml.safe_dump(config)}
    cluster = ("validate", "--kubeconfig", "{d}/config")
    yield Mistake(26, "another context", files, None, (((*cluster, "--context", "x"), 2, ("'x'", "here")),))
    yield Mistake(26, "a cluster that is off", files, None, ((cluster, 1, ("127.0.0.1:1", "here")),))
    named = egress(**GOOD, credentialsSecret={"name": "c"})
    ended = secret("c", stringData={"username": "bob", "password": "hunter2\n"})
    command = (("doctor", "-f", "{d}"), 1, ("credential-with-line-break",))
    found = (warning("Secret/transom-system/c", "data.password"),)
    yield Mistake(27, "a line break", written(named, ended), found, (command,))
    for name, spec, field in (
        ("a port with a letter", {"port": "22a"}, "port"),
        ("a port in quotes", {"port": "22"}, "port"),
        ("a port in the address", {"address": "10.0.0.7:22"}, "address"),
    ):
        yield Mistake(28, name, written(egress(**GOOD), instance(**spec), OPENS), (error(HOST, f"spec.{field}"),))
    url = egress(**PROXY, networks=NETWORKS | {"internalAPIHost": "https://api.x:6443"})
    yield Mistake(28, "a URL for a host", written(url), (error(BASE, "spec.networks.internalAPIHost"),))
    plain = secret("c", data={"username": base64.b64encode(b"bob").decode(), "password": "hunter2!"})
    yield Mistake(28, "no base64", written(named, plain), (error("Secret/transom-system/c", "data.password"),))
    other = egress(**GOOD) | {"apiVersion": "transom.dev/v1"}
    yield Mistake(28, "a version", written(other), (error(BASE, "apiVersion"),))
    for name, text in (("a passphrase", private_key("hunter2")), ("the public key", "ssh-ed25519 AAAA me@here")):
        opens = secret(stringData={"private-key.pem": text})
        found = (error(OPENED, "data[private-key.pem]"),)
        yield Mistake(29, name, written(egress(**GOOD), instance(), opens), found)
    found = (warning(HOST, "metadata.name"),)
    commands = ((("apply", "-f", "{d}"), 2, (BASE, "--remove")), (("diff", "-f", "{d}"), 2, (BASE,)))
    yield Mistake(30, "no settings", written(instance(), OPENS), found, commands)
    yield Mistake(31, "init over files", good, None, ((("init", "{d}", "--simulated"), 2, ("{d}",)),))
    yield Mistake(31, "a lab that does not run", good, None, ((("simulate", "{d}", "--stop"), 2, ("{d}",)),))
    sealed = secret("c", stringData={"username": "ENC[AES256_GCM,data:x]", "password": "ENC[AES256_GCM,data:x]"})
    found = (error("Secret/transom-system/c", "sops"),)
    yield Mistake(32, "SOPS", written(named, sealed | {"sops": {"mac": "x"}}), found)
    commands = ((("payload", "default", "--output-dir", "{d}"), 2, ("{d}/payload.yaml", "--force")),)
    yield Mistake(32, "a payload twice", {"payload.yaml": "# mine\n"}, None, commands)


def _of_our_own() -> Iterator[Mistake]:
    """Further ones: what editors, copying and other tools do to a file."""
    named = egress(**GOOD, credentialsSecret={"name": "c"})
    for name, text in (("Windows line ends", KEY.replace("\n", "\r\n")), ("a byte order mark", "\ufeff" + KEY)):
        opens = secret(stringData={"private-key.pem": text})
        yield Mistake(33, f"a key with {name}", written(egress(**GOOD), instance(), opens), ())
    twice = base64.b64encode(base64.b64encode(KEY.encode())).decode()
    found = (error(OPENED, "data[private-key.pem]"),)
    yield Mistake(34, "base64 of base64", written(egress(**GOOD), instance(), secret(data={"private-key.pem": twice})), found)
    other = secret(type="kubernetes.io/ssh-auth", stringData={"ssh-privatekey": KEY})
    yield Mistake(35, "a Secret of another type", written(egress(**GOOD), instance(), other), found)
    quoted = HEAD + f"  httpProxy: “http://p.x:3128”\n  httpsProxy: http://p.x:1\n{NET}"
    yield Mistake(36, "typographic quotes", {"a.yaml": quoted}, (error(BASE, "spec.httpProxy"),))
    both = egress(**GOOD | {"httpProxy": '"http://p.x:3128"'})
    yield Mistake(36, "quotes twice", written(both), (error(BASE, "spec.httpProxy"),))
    yield Mistake(
        36, "a no-break space", {"a.yaml": HEAD + "\u00a0 httpProxy: http://p.x:1\n"}, (error(BASE, "[(invalid key)]"),)
    )
    text = yaml.safe_dump(egress(**GOOD))
    yield Mistake(37, "a file with Windows line ends", {"a.yaml": text.replace("\n", "\r\n")}, ())
    yield Mistake(37, "a file with a byte order mark", {"a.yaml": "\ufeff" + text}, ())
    yield Mistake(37, "a file in UTF-16", {"a.yaml": text.encode("utf-16")}, (error("", ""),))
    trusting = egress(**GOOD, trustedCA={"name": "ca"})
    binary = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "ca", "namespace": "transom-system"}}
    binary["binaryData"] = {"ca-bundle.crt": base64.b64encode(CA.encode("utf-16")).decode()}
    found = (error("ConfigMap/transom-system/ca", "binaryData[ca-bundle.crt]"),)
    yield Mistake(37, "a CA in UTF-16", written(trusting, binary), found)
    lines = CA.strip().splitlines()
    damaged = (
        ("base64 of a CA", base64.b64encode(CA.encode()).decode()),
        ("the path of a CA", "/etc/ssl/corp-ca.pem"),
        ("the file name of a CA", "corp-ca.crt"),
        ("a CA with spaces for line breaks", " ".join(lines)),
        ("a CA in one line", "".join(lines)),
        ("a CA with line breaks in letters", "\\n".join(lines)),
    )
    for name, pasted in damaged:
        found = (error(BASE, "spec.trustedCA.name"),)
        yield Mistake(38, name, written(trusting, bundle(pasted)), found)
    opens = secret(stringData={"private-key.pem": "~/.ssh/id_ed25519"})
    yield Mistake(
        38, "the path of a key", written(egress(**GOOD), instance(), opens), (error(OPENED, "data[private-key.pem]"),)
    )
    yield Mistake(38, "a CA of comments", written(trusting, bundle("# the CA\n")), (error(BASE, "spec.trustedCA.name"),))
    yield Mistake(
        38, "a name that is none", written(egress(**GOOD, trustedCA={"name": "corp_ca"})), (error(BASE, "spec.trustedCA.name"),)
    )
    yield Mistake(38, "a name alone", written(egress(**GOOD, trustedCA="ca")), (error(BASE, "spec.trustedCA"),))
    pac = egress(**GOOD | {"httpProxy": "http://p.x/proxy.pac"})
    yield Mistake(39, "a PAC file", written(pac), (warning(BASE, "spec.httpProxy"),))
    yield Mistake(
        39,
        "IPv6 without brackets",
        written(egress(**GOOD | {"httpProxy": "http://fd00::1:3128"})),
        (error(BASE, "spec.httpProxy"),),
    )
    yield Mistake(
        39, "names of variables", written(egress(**GOOD, HTTP_PROXY="http://p.x:1")), (error(BASE, "spec.HTTP_PROXY"),)
    )
    for name, item in (("a URL", "https://a.x/"), ("a port", "a.x:443"), ("brackets", "[fd00::1]")):
        yield Mistake(40, f"NO_PROXY with {name}", written(egress(**GOOD, noProxy=item)), (error(BASE, "spec.noProxy"),))
    bits = egress(**PROXY, networks=NETWORKS | {"podNetwork": ["10.244.7.1/16"]})
    yield Mistake(40, "a network by one of its hosts", written(bits), (warning(BASE, "spec.networks.podNetwork[0]"),))
    prod, test = (yaml.safe_dump_all([egress(**GOOD, noProxy=f".{name}.x"), instance(), OPENS]) for name in ("prod", "test"))
    found = (error(BASE, "metadata.name"), error(HOST, "metadata.name"), error(OPENED, "metadata.name"))
    yield Mistake(41, "two clusters in one directory", {"prod.yaml": prod, "test.yaml": test}, found)
    joined = text + yaml.safe_dump(instance())
    found = (error(HOST, "apiVersion"), warning(HOST, "metadata.name"))
    yield Mistake(41, "no line between two objects", {"a.yaml": joined, "b.yaml": yaml.safe_dump(OPENS)}, found)
    head = (
        "apiVersion: transom.dev/v1alpha1\nkind: WindowsInstance\nmetadata: {name: win-1, namespace: transom-system}\nspec:\n"
    )
    for user, entry in (("CORP\\user", (error("", ""),)), ("CORP\\bob", (error(HOST, "spec.username"),))):
        files = {
            "a.yaml": f'{head}  address: 10.0.0.7\n  username: "{user}"\n',
            **{"b.yaml": text, "c.yaml": yaml.safe_dump(OPENS)},
        }
        yield Mistake(42, f"{user} in double quotes", files, entry)
    user = instance(username=r"CORP\bob")
    yield Mistake(42, "a user of a domain", written(egress(**GOOD), user, OPENS), ())
    number = secret("c", stringData={"username": "bob", "password": 12345})
    yield Mistake(
        43, "a number for a password", written(named, number), (error("Secret/transom-system/c", "stringData.password"),)
    )
    upper = instance("WIN_1")
    found = (error("WindowsInstance/transom-system/WIN_1", "metadata.name"),)
    yield Mistake(43, "a host's name", written(egress(**GOOD), upper, OPENS), found)
    secretless = egress(**GOOD, credentialsSecret={"name": "c"})
    maker = {"apiVersion": "external-secrets.io/v1", "kind": "ExternalSecret", "metadata": {"name": "c"}, "spec": {}}
    yield Mistake(
        44, "a Secret that is made in a cluster", written(secretless, maker), (error(BASE, "spec.credentialsSecret.name"),)
    )
    variable = secret("c", stringData={"username": "bob", "password": "${PASSWORD}"})
    yield Mistake(44, "a variable", written(named, variable), (error("Secret/transom-system/c", "data.password"),))


MISTAKES = tuple(row for rows in (_of_the_list, _of_programs, _of_our_own) for row in rows())
ELSEWHERE = {
    5: "tests/cli/test_mistakes.py::test_a_wrong_ssh_key_is_named",
    8: "tests/cli/test_mistakes.py::test_a_changed_host_key_names_its_field",
    23: "tests/cli/test_terminal.py::test_findings_on_a_narrow_terminal_break_between_words",
    24: "tests/cli/test_terminal.py::test_ctrl_c_before_any_host_is_touched_says_so",
    25: "tests/cli/test_terminal.py::test_a_disk_that_is_full",
}
"""Mistakes that need a host or a terminal, and the test of each."""
