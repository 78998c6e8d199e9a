"""What people get wrong, and what they have to be told: the place, and what to write instead.

Each row is a command, the files that it is given, its exit code, and texts that its message must have.
The place comes first, the remedy last. `{d}` is the directory of the files.
"""

import base64
from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

import yaml
from tests.support.bundles import certificate, private_key

CA = certificate("Root")
KEY = private_key()
HOST = {"address": "10.0.0.7", "username": "Administrator"}
PROXY = {"httpProxy": "http://p.x:1", "httpsProxy": "http://p.x:1"}


class Row(NamedTuple):
    """One mistake."""

    name: str
    command: tuple[str, ...]
    files: dict[str, str | bytes]
    code: int
    told: tuple[str, ...]


def egress(name: str = "cluster", **spec: Any) -> dict[str, Any]:
    return {"apiVersion": "transom.dev/v1alpha1", "kind": "EgressProxy", "metadata": {"name": name}, "spec": spec}


def instance(name: str = "win-1", **spec: Any) -> dict[str, Any]:
    meta = {"name": name, "namespace": "transom-system"}
    return {"apiVersion": "transom.dev/v1alpha1", "kind": "WindowsInstance", "metadata": meta, "spec": HOST | spec}


def secret(name: str = "cloud-private-key", **fields: Any) -> dict[str, Any]:
    return {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": name, "namespace": "transom-system"}, **fields}


def bundle(text: str, key: str = "ca-bundle.crt") -> dict[str, Any]:
    meta = {"name": "ca", "namespace": "transom-system"}
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": meta, "data": {key: text}}


def of(*objects: dict[str, Any]) -> dict[str, str]:
    return {"a.yaml": yaml.safe_dump_all(objects)}


def invalid(name: str, files: Mapping[str, str], *told: str) -> Row:
    """Settings in which `validate` has to find an error."""
    return Row(name, ("validate", "-f", "{d}"), dict(files), 2, told)


def refused(
    name: str, *command: str, told: tuple[str, ...], code: int = 2, files: Mapping[str, str | bytes] | None = None
) -> Row:
    """A command line that is wrong in itself."""
    return Row(name, command, dict(files or {}), code, told)


def _of_settings() -> Iterator[Row]:
    for name, url, *item in (
        ("no scheme", "proxy.x:3128", "spec.httpProxy", "http://"),
        ("https scheme", "https://p.x:1", "spec.httpProxy", "must begin with http://, for example http://"),
        ("socks", "socks5://p.x:1", "spec.httpProxy", "http://"),
        ("no host", "http://:3128", "spec.httpProxy", "host"),
        ("port 0", "http://p.x:0", "spec.httpProxy", "1 to 65535"),
        ("port 99999", "http://p.x:99999", "spec.httpProxy", "1 to 65535"),
        ("port text", "http://p.x:http", "spec.httpProxy", "port"),
        ("bare IPv6", "http://fd00::1:3128", "spec.httpProxy", "brackets"),
        ("slash in password", "http://u:a/b@p.x:1", "spec.httpProxy", "%2F"),
        ("hash in password", "http://u:a#b@p.x:1", "spec.httpProxy", "%23"),
        ("question mark in password", "http://u:a?b@p.x:1", "spec.httpProxy", "%3F"),
        ("blank in password", "http://u:a b@p.x:1", "spec.httpProxy", "%20"),
        ("bad escape", "http://u:a%zz@p.x:1", "spec.httpProxy", "%25"),
    ):
        yield invalid(f"httpProxy: {name}", of(egress(httpProxy=url)), "EgressProxy/cluster", *item)
    for name, listed, *entry in (
        ("empty item", "a.x,,b.x", "item 2", "take the comma out"),
        ("wildcard", "*.corp.example", "*.corp.example", ".corp.example"),
        ("upper case", "Corp.Example", "Corp.Example", "corp.example"),
        ("port", "a.x:8080", "a.x:8080", "a.x"),
        ("url", "http://a.x", "http://a.x", "a.x"),
        ("semicolons", "a.x;b.x", "a.x;b.x", "comma"),
        ("blank list", " ", "spec.noProxy", "empty"),
        ("star with more", "*,a.x", "*", "alone"),
        ("bad CIDR", "10.0.0.0/33", "10.0.0.0/33", "must be 0 to 32"),
    ):
        yield invalid(f"noProxy: {name}", of(egress(**PROXY, noProxy=listed)), "spec.noProxy", *entry)
    yield invalid("noProxy alone", of(egress(noProxy="a.x")), "spec.noProxy", "proxy")
    yield invalid(
        "credentials nowhere",
        of(egress(**PROXY, credentialsSecret={"name": "c"})),
        "credentialsSecret.name",
        "transom-system/c",
    )
    half = secret("c", stringData={"username": "u"})
    yield invalid("no password", of(egress(**PROXY, credentialsSecret={"name": "c"}), half), "data.password", "missing")
    twice = egress(httpProxy="http://u:p@p.x:1", credentialsSecret={"name": "c"})
    both = secret("c", stringData={"username": "u", "password": "p"})
    yield invalid("credentials twice", of(twice, both), "spec.credentialsSecret", "keep one of them, better the Secret")
    plain = secret("c", data={"username": "u", "password": "not base64!"})
    yield invalid(
        "no base64", of(egress(**PROXY, credentialsSecret={"name": "c"}), plain), "data.", "`stringData` takes the text itself"
    )
    trusting = egress(**PROXY, trustedCA={"name": "ca"})
    yield invalid("no bundle", of(trusting), "spec.trustedCA.name", "transom-system/ca")
    yield invalid("bundle under another key", of(trusting, bundle(CA, "ca.crt")), "spec.trustedCA.name", "ca-bundle.crt")
    yield invalid("empty bundle", of(trusting, bundle("")), "spec.trustedCA.name", "certificate")
    yield invalid("cut certificate", of(trusting, bundle(CA[:300])), "data[ca-bundle.crt]", "certificate 1 (line 1)")
    yield invalid("key in the bundle", of(trusting, bundle(CA + KEY)), "data[ca-bundle.crt]", "private key")
    yield invalid(
        "junk in a certificate", of(trusting, bundle(CA.replace("MII", "!!!", 1))), "data[ca-bundle.crt]", "certificate 1"
    )
    yield invalid(
        "endpoint without proxy",
        of(egress(httpProxy="http://p.x:1", readinessEndpoints=["https://a.x"])),
        "readinessEndpoints[0]",
        "httpsProxy",
    )
    yield invalid("endpoint that is none", of(egress(**PROXY, readinessEndpoints=["a.x"])), "readinessEndpoints[0]", "URL")
    yield invalid("field typo", of(egress(httproxy="http://p.x:1")), "spec.httproxy", "did you mean `httpProxy`?")
    yield invalid("list for a text", of(egress(httpProxy=["http://p.x:1"])), "spec.httpProxy", "must be a string, not a list")
    yield invalid("policy typo", of(egress(**PROXY, readinessPolicy="gate")), "spec.readinessPolicy", "Gate")
    yield invalid("restart typo", of(egress(**PROXY, windows={"restart": "Never"})), "spec.windows.restart", "Rolling")
    yield invalid("consumer typo", of(egress(**PROXY, consumers=["Node"])), "spec.consumers", "Nodes")
    yield invalid("mode in the base", of(egress(mode="Direct")), "spec.mode", "base")
    yield invalid(
        "another name",
        of(egress("proxy", **PROXY), instance(), secret(stringData={"private-key.pem": KEY})),
        "EgressProxy/proxy",
        "rename the one for this cluster",
    )
    yield invalid("bad network", of(egress(**PROXY, networks={"podNetwork": ["10.0.0.0/33"]})), "podNetwork[0]", "0 to 32")
    yield invalid(
        "wrong version",
        {"a.yaml": "{apiVersion: transom.dev/v1, kind: EgressProxy, metadata: {name: cluster}}"},
        "apiVersion",
        "transom.dev/v1alpha1",
    )
    yield invalid(
        "wrong kind",
        {"a.yaml": "{apiVersion: transom.dev/v1alpha1, kind: Egress, metadata: {name: cluster}}"},
        "kind",
        "EgressProxy and WindowsInstance",
    )
    yield invalid("two of a name", of(egress(**PROXY), egress(**PROXY)), "metadata.name", "duplicate object")


def _of_hosts() -> Iterator[Row]:
    key = secret(stringData={"private-key.pem": KEY})
    for name, spec, *item in (
        ("no address", {"address": ""}, "spec.address", "for example win-1.example.com"),
        ("address with port", {"address": "10.0.0.7:22"}, "spec.address", "move the port to spec.port; write `10.0.0.7`"),
        ("address with user", {"address": "Administrator@10.0.0.7"}, "spec.address", "move the user name to spec.username"),
        ("address in brackets", {"address": "[fd00::1]"}, "spec.address", "remove the brackets; write `fd00::1`"),
        ("three numbers", {"address": "10.0.7"}, "spec.address", "IP address"),
        ("port 0", {"port": 0}, "spec.port", "1 to 65535"),
        ("no user", {"username": ""}, "spec.username", "for example Administrator"),
        ("node name", {"nodeName": "Win_1"}, "spec.nodeName", "lower-case"),
        ("node IP", {"nodeIP": "10.0.0.7/24"}, "spec.nodeIP", "without a prefix length"),
        ("further address", {"addresses": ["10.0.0.8", "10.0.0.0/8"]}, "spec.addresses[1]", "without brackets, port and zone"),
        ("loopback", {"addresses": ["127.0.0.1"]}, "spec.addresses[0]", "not the address of one machine"),
        ("host key", {"hostKey": "SHA256:abc"}, "spec.hostKey", "ssh_host_ed25519_key.pub"),
        ("lifecycle", {"lifecycle": "node"}, "spec.lifecycle", "Node"),
        ("cluster", {"clusterRef": {"name": "prod"}}, "spec.clusterRef", "no Cluster transom-system/prod exists"),
        ("key nowhere", {"keySecret": {"name": "nope"}}, "spec.keySecret.name", "it holds the SSH key as `private-key.pem`"),
        ("typo", {"adress": "10.0.0.7"}, "spec.adress", "did you mean `address`?"),
    ):
        yield invalid(
            f"host: {name}", of(egress(**PROXY), instance(**spec), key), "WindowsInstance/transom-system/win-1", *item
        )
    for name, data, *entry in (
        ("key under another name", {"id_rsa": KEY}, "data[private-key.pem]", "missing"),
        ("public key", {"private-key.pem": "ssh-ed25519 AAAA"}, "data[private-key.pem]", "private key in PEM or OpenSSH form"),
        ("passphrase", {"private-key.pem": private_key("hunter2")}, "data[private-key.pem]", "ssh-keygen -p"),
    ):
        yield invalid(
            f"key: {name}",
            of(egress(**PROXY), instance(), secret(stringData=data)),
            "Secret/transom-system/cloud-private-key",
            *entry,
        )
    same = (instance(), instance("win-2"))
    yield invalid("one host twice", of(egress(**PROXY), *same, key), "spec.address", "one host is one WindowsInstance")
    for command in ("diff", "apply"):
        row = of(instance(), key)
        yield refused(
            f"{command} without settings",
            command,
            "-f",
            "{d}",
            told=("EgressProxy/cluster", "pass its file with -f"),
            files=row,
        )
        yield refused(
            f"{command}: limit",
            command,
            "-f",
            "{d}",
            "--limit",
            "win-9",
            told=("--limit", "win-9", "there is win-1"),
            files=of(egress(**PROXY), instance(), key),
        )
        for option, value, remedy in (
            ("--limit", " ", "there is win-1"),
            ("--limit", ",", "there is win-1"),
            ("-l", "", "omit it"),
        ):
            yield refused(
                f"{command}: {option} '{value}'",
                command,
                "-f",
                "{d}",
                option,
                value,
                told=(option, "is empty", "variable is unset", remedy),
                files=of(egress(**PROXY), instance(), key),
            )
        yield refused(
            f"{command}: selector",
            command,
            "-f",
            "{d}",
            "-l",
            "a b",
            told=("--selector", "for example env=prod"),
            files=of(egress(**PROXY), instance(), key),
        )
        yield refused(
            f"{command}: context beside files",
            command,
            "-f",
            "{d}",
            "--context",
            "x",
            told=("--context", "the objects come from the files"),
            files=row,
        )


def _of_texts() -> Iterator[Row]:
    for name, text, *item in (
        ("empty file", "", "no object that Transom reads", "is this the intended file?"),
        ("comments alone", "# nothing\n", "no object that Transom reads", "is this the intended file?"),
        (
            "other kinds",
            "{apiVersion: apps/v1, kind: Ingress, metadata: {name: a}}",
            "no object that Transom reads",
            "EgressProxy",
        ),
        ("tab", "kind: EgressProxy\nmetadata:\n\tname: cluster\n", "a.yaml:3:1", "indent with spaces"),
        ("cut", "kind: [a\n", "a.yaml:2:1", "this is not YAML"),
        ("bracket", "a: ]\n", "a.yaml:1:4", "this is not YAML"),
        ("plain text", "hello\n", "a.yaml:1:1", "not a Kubernetes object"),
        ("no kind", "apiVersion: v1\n", "a.yaml:1:1", "`kind` is missing"),
        ("no version", "kind: Secret\n", "a.yaml:1:1", "`apiVersion` is missing"),
        ("no name", "{apiVersion: transom.dev/v1alpha1, kind: EgressProxy, spec: {}}", "metadata.name", "the name is missing"),
        ("bad name", "{apiVersion: v1, kind: Secret, metadata: {name: A_b}}", "metadata.name", "lower-case letters"),
        (
            "no separator",
            "apiVersion: v1\nkind: Secret\nmetadata: {name: a}\napiVersion: v1\nkind: Secret\nmetadata: {name: b}\n",
            "a.yaml:4:1",
            "is a line `---` missing",
        ),
        ("own tag", "a: !ruby/object {}\n", "a.yaml:1:4", "leave it out"),
        ("NUL", "a: b\0\n", "a.yaml:1:5", "NUL"),
        ("alias to nothing", "a: *b\n", "a.yaml:1:4", "no anchor"),
    ):
        yield invalid(f"text: {name}", {"a.yaml": text}, *item)
    yield refused("no such file", "validate", "-f", "{d}/nope.yaml", told=("nope.yaml", "No such file"))
    yield refused("a URL", "validate", "-f", "https://x.example/a.yaml", told=("https://x.example/a.yaml", "fetch it first"))
    yield refused("a pattern", "validate", "-f", "lab/*.yaml", told=("lab/*.yaml", "patterns are not expanded"))
    yield refused("a list of files", "validate", "-f", "a.yaml,b.yaml", told=("a.yaml,b.yaml", "each file with -f"))
    yield refused("an empty directory", "validate", "-f", "{d}", told=("the directory contains no *.yaml",))
    yield Row(
        "a file of Notepad's",
        ("validate", "-f", "{d}"),
        of(egress(**PROXY)) | {"hosts.yaml.txt": yaml.safe_dump(instance())},
        0,
        ("hosts.yaml.txt", "rename it to hosts.yaml"),
    )
    # an error of the host means that it was read
    yield refused(
        "an upper-case suffix",
        "validate",
        "-f",
        "{d}",
        told=("WindowsInstance/transom-system/win-1",),
        files={"a.YAML": yaml.safe_dump_all((egress(**PROXY), instance(address="-")))},
    )


def _of_commands() -> Iterator[Row]:
    yield refused("no such command", "aply", told=("aply",))
    yield refused("output", "validate", "-f", "{d}", "-o", "xml", told=("--output", "text", "json"))
    yield refused(
        "namespace", "validate", "-f", "{d}", "-n", "A b", told=("'A b' is not a valid namespace", "lower-case letters")
    )
    yield refused("apply: nothing named", "apply", told=("-f PATH", "--context NAME"))
    yield refused("rollback: nothing named", "rollback", told=("-f PATH", "--context NAME"))
    yield refused("uninstall: nothing named", "uninstall", told=("--context NAME", "kubectl config get-contexts"))
    yield refused("adopt: nothing named", "adopt", "--from", "wmco", "--yes", told=("--yes", "--context NAME"))
    yield refused("objects: nothing named", "apply", "--objects", told=("--objects", "--context NAME"))
    yield refused(
        "timeout",
        "diff",
        "-f",
        "{d}",
        "--pass-timeout",
        "5",
        told=("--pass-timeout", "for example 30m"),
        files=of(egress(**PROXY)),
    )
    yield refused("workers", "diff", "-f", "{d}", "--workers", "0", told=("--workers", "1"))
    yield refused(
        "kubeconfig", "validate", "--kubeconfig", "{d}/nope", told=("{d}/nope", "KUBECONFIG can name another", "-f PATH")
    )
    yield refused(
        "kubeconfig that is none",
        "validate",
        "--kubeconfig",
        "{d}/a",
        told=("{d}/a", "not a valid kubeconfig"),
        files={"a": "x"},
    )
    yield refused("facts: port in the address", "facts", "10.0.0.1:22", told=("10.0.0.1:22", "--port 22"))
    yield refused("facts: no address", "facts", "http://10.0.0.1", told=("http://10.0.0.1", "for example win-1.example.com"))
    told = ("win-9.invalid: the name cannot be resolved", "add -f PATH", "`kubectl get windowsinstances -A`")
    yield refused("facts: name of an instance", "facts", "win-9.invalid", code=1, told=told)
    yield refused(
        "facts: key that is none",
        "facts",
        "10.0.0.1",
        "--key",
        "{d}/k",
        told=("--key {d}/k", "private key in PEM or OpenSSH form"),
        files={"k": "x"},
    )
    yield refused("facts: key nowhere", "facts", "10.0.0.1", "--key", "{d}/k", told=("{d}/k", "cannot be read: No such file"))
    yield refused(
        "facts: passphrase",
        "facts",
        "10.0.0.1",
        "--key",
        "{d}/k",
        told=("{d}/k", "has a passphrase", "ssh-keygen -p"),
        files={"k": private_key("hunter2")},
    )
    yield refused(
        "no-proxy check: client", "no-proxy", "check", "http://a.x", "--client", "nope", told=("nope", "the nearest are npm")
    )
    yield refused("no-proxy check: no url", "no-proxy", "check", "a.x", told=("a.x", "URL"))
    yield refused("no-proxy lint: blank", "no-proxy", "lint", "a,.svc ", told=(".svc", "remove the space behind it"), code=1)
    yield refused(
        "no-proxy lint: semicolon",
        "no-proxy",
        "lint",
        "10.0.0.0/8;*.x",
        told=("10.0.0.0/8;*.x", "; separates nothing here: write a comma"),
        code=1,
    )
    yield refused("trust: no file", "trust", "inspect", "{d}/nope", told=("{d}/nope", "No such file"))
    yield refused("trust: no certificate", "trust", "inspect", "{d}/c", told=("{d}/c", "certificate"), files={"c": "x"})
    yield refused("trust: a key", "trust", "inspect", "{d}/c", told=("{d}/c", "private key"), files={"c": KEY})
    yield refused("userdata: platform", "userdata", "-f", "{d}", "--platform", "Azur", told=("--platform", "Azure"))
    yield refused(
        "userdata: no key",
        "userdata",
        "-f",
        "{d}",
        told=("transom-system/cloud-private-key", "`private-key.pem`"),
        files=of(egress(**PROXY)),
    )
    yield refused(
        "manifests: image", "manifests", "--image", "bad image!", told=("--image", "for example registry.example/transom")
    )
    two = ("--payload-image", "r.example/p:1", "--payload-claim", "workers")
    yield refused("manifests: two payloads", "manifests", *two, told=("--payload-claim", "comes from --payload-image already"))
    old = ("--payload-kubeadm", "v1.12.0")
    yield refused(
        "manifests: an old payload",
        "manifests",
        *old,
        told=("--payload-kubeadm: 'v1.12.0' is not a supported Kubernetes version", "v1.36"),
    )
    yield refused("run: no cache", "run", "--payload-kubeadm", "v1.36.3", told=("--payload-kubeadm", "needs --payload-cache"))
    yield refused("manifests: nothing to copy", "manifests", "--payload-copied", told=("--payload-copied", "--payload-image"))
    yield refused("manifests: controllers", "manifests", "--controllers", "x", told=("--controllers", "egress"))
    yield from _of_clusters()
    yield from _of_words()
    yield from _of_extra_arguments()
    yield from _of_credentials()
    yield from _of_empty_paths()
    yield refused("payload: base", "payload", "build", "{d}", "--base", "{d}", told=("--base: name the directory", "--image"))
    yield refused("payload: image", "payload", "build", "{d}", "--image", "{d}", told=("--image", "already exists"))
    yield refused("payload: nowhere", "payload", "check", "{d}", told=("{d}/payload.yaml", "No such file"))


def _of_clusters() -> Iterator[Row]:
    config = {"apiVersion": "v1", "kind": "Config", "current-context": "x", "clusters": [], "users": []}
    files = {"config": yaml.safe_dump(config | {"contexts": [{"name": "x", "context": {"cluster": "c", "user": "u"}}]})}
    where = ("--kubeconfig", "{d}/config")
    yield refused(
        "context", "diff", *where, "--context", "nope", told=("no context 'nope'; the contexts are x", "-f PATH"), files=files
    )
    yield refused(
        "kubeconfig: no cluster", "diff", *where, told=("{d}/config", "clusters has no entry of the name"), files=files
    )
    yield refused("pods: none named", "pods", "explain", told=("POD, with -n NAMESPACE, or -f PATH",))
    yield refused("pods: both", "pods", "explain", "a", "-f", "{d}", told=("POD, with -n NAMESPACE, or -f PATH",))
    yield refused("pods: no name", "pods", "explain", "A_b", *where, told=("'A_b' is not a valid pod name",), files=files)
    yield refused("pods: all and one", "pods", "outdated", "-A", "-n", "shop", told=("-A and -n exclude each other",))
    yield refused("status: watched JSON", "status", "--watch", "-o", "json", told=("--watch is for text", "kubectl get"))


def _of_words() -> Iterator[Row]:
    der = base64.b64decode("".join(CA.strip().splitlines()[1:-1]))
    yield refused(
        "trust: DER", "trust", "inspect", "{d}/c", told=("{d}/c", "openssl x509 -inform der"), files={"c": der}, code=0
    )
    yield refused("shell", "completion", "tcsh", told=("'tcsh'", "bash", "zsh", "fish"))
    yield refused("help", "help", "nope", told=("'nope'", "transom -h"))
    yield refused("simulate", "simulate", "{d}", told=("{d}", "`transom init DIR --simulated` creates one"))
    yield refused("verify: port", "verify", "host", "10.0.0.1:22", told=("10.0.0.1:22", "--port 22"))
    yield refused("init: no scheme", "init", "{d}/new", "--proxy", "proxy.x:1", told=("--proxy", "must begin with http://"))
    files = {"there": ""}
    yield refused("init: there", "init", "{d}", "--simulated", told=("{d}", "name a new directory"), files=files)
    yield refused("run: address", "run", "--bind-address", "x", told=("--bind-address", "0.0.0.0:8080"))
    yield refused("webhook: policy", "webhook", "--failure-policy", "x", told=("--failure-policy", "Ignore nor Fail"))
    yield refused("manifests: part", "manifests", "--part", "x", told=("--part", "crds", "rbac"))


def _of_extra_arguments() -> Iterator[Row]:
    files = of(egress(**PROXY), instance(), secret(stringData={"private-key.pem": KEY}))
    for command in ("apply", "validate", "render"):
        yield refused(f"{command}: no -f", command, "{d}", told=("({d})", "did you mean -f {d}?"), files=files)
    for command in ("apply", "rollback", "diff"):
        yield refused(
            f"{command}: a host", command, "win-1", "-f", "{d}", told=("(win-1)", "did you mean --limit win-1?"), files=files
        )
    yield refused(
        "apply: two hosts",
        "apply",
        "-f",
        "{d}",
        "--limit",
        "win-1",
        "win-2",
        told=("(win-2)", "did you mean --limit win-1,win-2?"),
        files=files,
    )
    yield refused(
        "validate: files of a shell pattern",
        "validate",
        "-f",
        "{d}/a.yaml",
        "{d}/b.yaml",
        told=("({d}/b.yaml)", "repeat -f for each file, or name the directory"),
        files={"a.yaml": "", "b.yaml": ""},
    )
    for command in ("pause", "resume", "restart", "reconcile", "forget", "adopt", "check"):
        told = ("No such option: -f", f"{command} works on a cluster only, which --context names")
        yield refused(f"{command}: -f", command, "-f", "{d}", told=told)
    for command in ("check", "lint"):
        told = ("No such option: -f", "`transom no-proxy merge -f DIR` prints the list")
        yield refused(f"no-proxy {command}: -f", "no-proxy", command, "-f", "{d}", told=told)
    yield refused("status: no -f", "status", "{d}", told=("did you mean -f {d}?",), files=files)
    yield refused("status: a host", "status", "win-1", told=("did you mean `transom status host win-1`?",))
    yield refused("status: no host", "status", "host", told=("`transom status host NAME`",))
    yield refused(
        "init: a key alone", "init", "{d}/new", "--proxy", "http://p.x:1", "--key", "{d}/k", told=("--host",), files={"k": KEY}
    )
    payload = ("payload", "default", "--output-dir", "{d}")
    yield refused("payload beside manifests", *payload, told=("{d} has manifests (a.yaml)", "another directory"), files=files)
    yield refused(
        "capi check: manifests", "capi", "check", "-f", "{d}", told=("{d}: there is nothing to check",), code=3, files=files
    )
    told = ("no list", "--no-proxy LIST", "--env FILE")
    yield refused("no-proxy check: no list", "no-proxy", "check", "https://a.x", told=told)
    two = {"c": CA, "junk": "x"}
    told = ("{d}/c:", "CN=Root", "{d}/junk: no certificate found")
    yield refused("trust: one of two files", "trust", "inspect", "{d}/c", "{d}/junk", told=told, files=two)


def _of_credentials() -> Iterator[Row]:
    """URLs with a password where none is expected: it is in no message."""
    check = ("no-proxy", "check", "--no-proxy", ".corp.example,http://u:hunter2@q.x")
    for name, url, shown in (
        ("port", "https://u:hunter2@api.x:99999", "'https://***@api.x:99999': port 99999"),
        ("brackets", "https://u:hunter2@[bad/", "'https://***@[bad/'"),
        ("scheme", "u:hunter2@api.x", "'***@api.x' is not a valid URL"),
        (
            "slash",
            "https://u:hun/ter2:hunter2@api.x",
            "'https://***@api.x'",
        ),
    ):
        yield refused(f"password in a URL: {name}", *check, url, told=(shown,))
    yield refused(
        "password in a URL: valid",
        *check,
        "https://u:hunter2@api.corp.example/@a",
        told=("https://***@api.corp.example/@a",),
        code=0,
    )
    yield refused("password in a list", "no-proxy", "lint", "http://u:hunter2@a.x", told=("http://***@a.x",), code=1)
    yield refused("password in a list: commas", "no-proxy", "lint", "http://u:hunter2,b@a.x", told=("***@a.x",), code=1)
    init = ("init", "{d}/new", "--proxy", "http://p.x:1")
    yield refused("password in a network", *init, "--pod-network", "u:hunter2@x", told=("`***@x` is not a CIDR",))
    yield refused("password of a host", *init, "--host", "u:hunter2@x", told=("`***@x`: write USER@ADDRESS", "SSH key"))
    yield refused("password of a manifest", "validate", "-f", "https://u:hunter2@x/a.yaml", told=("https://***@x/a.yaml",))
    yield refused("password of an extra argument", "validate", "https://u:hunter2@x", told=("(https://***@x)",))
    yield refused(
        "password of a bundle", "trust", "inspect", "https://u:hunter2@x/a", told=("https://***@x/a: cannot be read",)
    )
    yield refused("password of a payload", "payload", "build", "https://u:hunter2@x", told=("***@x/payload.yaml",))
    yield refused("password of an image", "manifests", "--image", "https://u:hunter2@x", told=("'https://***@x'",))
    url = ("verify", "cluster", "--egress-url", "http://u:hunter2@x")
    yield refused("password of an egress URL", *url, told=("'http://***@x' is not https",))


def _of_empty_paths() -> Iterator[Row]:
    for option, *command in (
        ("'--filename' / '-f'", "apply", "-f", ""),
        ("'--output-dir'", "render", "-f", "{d}", "--output-dir", ""),
        ("'--output-dir'", "payload", "default", "--output-dir", ""),
        ("'--kubeconfig'", "validate", "--kubeconfig", ""),
        ("'--cases'", "no-proxy", "check", "--cases", ""),
        ("'DIR'", "init", ""),
        ("'DIR'", "payload", "build", ""),
    ):
        told = (option, "it is empty, perhaps because a variable is unset")
        yield refused(f"empty: {' '.join(part for part in command if part)}", *command, told=told)


ROWS = tuple(row for rows in (_of_settings, _of_hosts, _of_texts, _of_commands) for row in rows())
