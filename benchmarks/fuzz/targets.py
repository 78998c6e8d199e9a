"""Every parser of what others say: how it is called, what it may raise, what to begin with, and its worst inputs.

A parser more is an entry of TARGETS, and nothing else. `worst` are functions from a size to an input of about as many bytes.
"""

import asyncio
import base64
from collections.abc import Callable, Mapping
from typing import NamedTuple

from benchmarks.fuzz.sftp import spoken
from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import Encoding
from cryptography.x509.oid import NameOID

from transom.controllers import propagation
from transom.controllers.instance.status import after_pass
from transom.controllers.runtime.cached import INSTANCES, NODES
from transom.hosts.errors import HostError
from transom.hosts.owner import Owner
from transom.hosts.passes import PassResult
from transom.hosts.scripts import Patience, light_check
from transom.hosts.steps.change import _Result
from transom.hosts.steps.facts_parser import FactsParser
from transom.kube import ConfigurationError
from transom.kube.kubeconfig import choose_foreign
from transom.kube.reading import read_object
from transom.kube.resources import CONFIG_MAPS, EGRESS_PROXIES, SECRETS
from transom.kube.resources import WINDOWS_INSTANCES as WHOLE_INSTANCES
from transom.pods import environment as pod_environment
from transom.pods.patch import PodPatcher
from transom.proxy.objects import WindowsSettings
from transom.proxy.secret import Secret
from transom.proxy.settings import Egress
from transom.webhook import review
from transom.windows import ledger, planning
from transom.windows.host import DesiredState, ObservedState, Service, ServiceState
from transom.windows.host.entries import LedgerError
from transom.windows.host.queries import ENVIRONMENT, LEDGER, SERVICES
from transom.windows.nodes import authorized_keys
from transom.windows.nodes.node_certificates import CLIENT, SERVING, CertificateRequest, Member, judge, requested_node
from transom.windows.parts import trust
from transom.windows.parts.adopted import Adopted
from transom.windows.parts.downtime import DEFERRED
from transom.windows.parts.environment import MACHINE_LINES, SERVICE_LINES
from transom.windows.parts.installed import INSTALLED
from transom.windows.planning import desired_settings
from transom.windows.planning import queries as questions
from transom.windows.registry import Key, NamedValue, Registry, reg
from transom.windows.registry import reg as query
from transom.windows.registry.edits import SetValue
from transom.windows.registry.values import Value, ValueType, dword, multi_sz, sz

Worst = Mapping[str, Callable[[int], bytes]]


class Target(NamedTuple):
    """A parser. `seeds` are inputs that it understands."""

    read: Callable[[bytes], object]
    allowed: tuple[type[Exception], ...]
    seeds: tuple[bytes, ...] = ()
    worst: Worst = {}  # noqa: RUF012  # a tuple's default is no class's


PROXY = Secret("http://alice:hunter2@proxy.corp.example:3128")
EGRESS = Egress(PROXY, PROXY, ".svc", windows=WindowsSettings(services=("containerd", "kubelet"), environment_scope="Both"))
QUESTIONS = questions.everything(("containerd", "kubelet"))
EMPTY = DesiredState(Registry())
SALT = bytes(16)
POD_PATCHER = PodPatcher(pod_environment.of(EGRESS, "transom-system", "10.96.0.1", SALT))
SENDER = Owner("fuzz@fuzz", "pid 1", 1)
ENTRIES = 40_000
"""More entries are refused where answers are counted; a parser of one part is tried with as many."""


def times(unit: str, size: int, before: str = "", after: str = "") -> bytes:
    """A `.reg` file of about `size` bytes."""
    count = max(1, (size // 2 - len(before) - len(after)) // len(unit))
    return exported(before + unit * count + after)


def exported(body: str) -> bytes:
    return ("\ufeff" + reg.HEADER + "\r\n\r\n" + body).encode("utf-16-le", "surrogatepass")


def numbered(form: str, size: int, before: str = "") -> bytes:
    """The same with a number in each unit."""
    return exported(before + "".join(form.format(number) for number in range(size // 2 // (len(form) + 3))))


def repeated(unit: bytes, before: bytes = b"", after: bytes = b"") -> Callable[[int], bytes]:
    return lambda size: before + unit * max(1, size // len(unit)) + after


_KEY = "[K]\r\n"
_VALUE = _KEY + '"a"='
REG_WORST: Worst = {
    "the same key": lambda n: times("[a]\r\n", n),
    "keys": lambda n: numbered("[K\\{}]\r\n", n),
    "values": lambda n: numbered('"{}"="x"\r\n', n, _KEY),
    "one value again": lambda n: times('@=""\r\n', n, f"[{'k' * 16000}]\r\n"),
    "hex on one line": lambda n: times("00,", n, _VALUE + "hex:", "00\r\n"),
    "hex in folds": lambda n: times("00,\\\r\n  ", n, _VALUE + "hex:", "00\r\n"),
    "folds alone": lambda n: times("\\\n", n, _VALUE + "hex:", "\r\n"),
    "folds and no end": lambda n: times("\\\n", n, _VALUE + "hex:", "x"),
    "blanks before a fold": lambda n: times(" ", n, _VALUE + "hex:00,\\", "x"),
    "backslashes": lambda n: times("\\\\", n, _VALUE + '"', '"\r\n'),
    "quotes": lambda n: times('\\"', n, _VALUE + '"', '"\r\n'),
    "escapes of every kind": lambda n: times("\\\\\\n", n, _VALUE + '"', '"\r\n'),
    "no escape": lambda n: times("\\q", n, _VALUE + '"', '"\r\n'),
    "an open quote": lambda n: times("\\a", n, _VALUE + '"'),
    "blanks before a value": lambda n: times(" ", n, _KEY, '"a"="b"\r\n'),
    "blanks": lambda n: times(" ", n, _KEY, "x"),
    "blanks after a value": lambda n: times(" ", n, _VALUE + '"b"', "x"),
    "blanks before a sign": lambda n: times(" ", n, _KEY + '"a"', "x"),
    "empty lines": lambda n: times("\n", n, _KEY),
    "comments": lambda n: times(";\n", n, _KEY),
    "brackets": lambda n: times("]", n, "[a", "x"),
    "brackets and blanks": lambda n: times("] ", n, "[a", "x"),
    "a long name": lambda n: times("a", n, _KEY + '"', '"="b"\r\n'),
    "a long path": lambda n: times("a\\", n, "[", "]\r\n"),
    "long paths": lambda n: times(f"[{'a' * 16000}]\r\n[{'b' * 16000}]\r\n", n),
    "deletions": lambda n: times("[-K]\r\n", n),
}


def read_reg(data: bytes) -> Registry:
    """A file; what has no byte order mark is its body as bytes, for libFuzzer to draw letters and not halves of them."""
    return reg.registry(data if data.startswith(b"\xff\xfe") else exported(data.decode("latin-1")))


def gathered(parts: Mapping[str, bytes]) -> bytes:
    index = "".join(f"part {name} {len(data)}\r\n" for name, data in parts.items())
    return index.encode() + b"end\r\n" + b"".join(parts.values())


_RUNNING = b"SERVICE_NAME: x\r\n  TYPE : 10 WIN32\r\n  STATE : 4 RUNNING\r\n  WIN32_EXIT_CODE : 0\r\n"


def _answers(**other: bytes) -> bytes:
    """What a host with two services says to QUESTIONS, with other parts in the place of some."""
    parts = {"ledger.reg": reg.render([SetValue(LEDGER, "Version", dword(1))]), "environment.reg": exported(_KEY)}
    parts |= {f"key-{number}.reg": exported(_KEY) for number in range(len(QUESTIONS.keys))}
    parts |= {f"store-{number}.txt": b"" for number in range(len(QUESTIONS.stores))}
    for number, name in enumerate(QUESTIONS.services):
        parts[f"service-{number}.txt"] = _RUNNING
        held = [SetValue(rf"{SERVICES}\{name}", "Environment", multi_sz(["A=b", "HTTP_PROXY=http://x"]))]
        parts[f"service-{number}.reg"] = reg.render(held)
    parts |= {"boot.txt": b"    BootId    REG_DWORD    0x1f\r\n", "dependants.txt": b"", "version.txt": b"10.0.20348.1"}
    parts["computer.txt"] = b'"WIN"'
    return gathered(parts | {name.replace("__", "-").replace("_", "."): data for name, data in other.items()})


def read_answers(data: bytes) -> ObservedState:
    return FactsParser.of(data).state(QUESTIONS)


def read_plan(data: bytes) -> None:
    """A whole pass on what a host says: the state, the plan, what is told of it."""
    state = read_answers(data)
    desired = desired_settings(EGRESS)
    made = planning.plan(desired, state, SALT)
    questions.more(QUESTIONS, made)
    gone = planning.plan(DesiredState(Registry(), payload=""), state, SALT)
    reg.render(made.edits)
    after_pass(EGRESS, PassResult(before=state, plan=gone))


def read_result(data: bytes) -> None:
    told = _Result.of(data)
    told.refusal(SENDER)
    told.fetched(3)
    told.trouble(planning.Plan(), Patience())


def read_ledger(data: bytes) -> None:
    """One entry of each kind, all with this text."""
    text = data.decode("utf-16-le", "surrogatepass").replace("\0", "") if len(data) % 2 == 0 else data.decode("latin-1")
    value = NamedValue("X", Value(ValueType.SZ, (text + "\0").encode("utf-16-le", "surrogatepass")))
    found = [Key(LEDGER, {"version": NamedValue("Version", dword(1))})]
    for path, name in _PLACES:
        entry = NamedValue(name, value.value)
        beside = {"": NamedValue("", sz('{"value":null}'))} if "Services" in path and name else {}
        one = Registry([*found, Key(path, {**beside, name.casefold(): entry})])
        try:
            read = ledger.read(one)
        except LedgerError:
            continue
        for wish in (desired_settings(EGRESS), EMPTY, DesiredState(Registry(), payload="")):
            try:
                services = (Service("containerd", ServiceState.RUNNING),)
                made = planning.plan(wish, ObservedState(one, services), SALT)
            except (LedgerError, HostError):
                continue
            reg.render(made.edits)
        assert repr(read).count("hunter2") == 0


_PLACES = (
    (LEDGER, "WinHTTP"),
    (MACHINE_LINES, "HTTP_PROXY"),
    (rf"{SERVICE_LINES}\containerd", "HTTP_PROXY"),
    (rf"{SERVICE_LINES}\containerd", ""),
    (rf"{trust.LINES}\ROOT", "00" * 20),
    (DEFERRED, "kubelet"),
    (INSTALLED, "Preparation"),
    (rf"{INSTALLED}\Services", "kubelet"),
    (rf"{INSTALLED}\Files", r"C:\k\kubelet.exe"),
    (rf"{INSTALLED}\Variables", "VIP"),
)
_LEDGER_SEEDS = (
    '{"set":"0123","was":{"name":"Http_Proxy","type":2,"data":"41000000"},"boot":3}',
    '{"set":"0123","former":"4567","was":[[1,"HTTP_PROXY=http://x"]],"mask":4}',
    '{"value":{"name":"Environment","type":7,"data":"4100420000000000"}}',
    '{"added":true,"subject":"CN=x","policy":false}',
    '{"digest":"0123","size":5,"aside":true,"former":"89ab","former_size":7}',
    '{"text":"10.1.2.3","boot":7}',
    '{"preparation":{"containers":true,"name":"win","ports":[10250]},"boot":3}',
    '{"boot":3}',
)


def _json(before: str, unit: str, after: str = "") -> Callable[[int], bytes]:
    return lambda n: (before + unit * max(1, n // 2 // len(unit)) + after).encode("utf-16-le")


def read_query(data: bytes) -> None:
    query.number(data, "BootId")
    query.dependencies(data, SERVICES)
    query.subkeys(data, SERVICES)


_LINE = rf"{SERVICES}\x".encode()
_ITEM = b"    DependOnService    REG_MULTI_SZ    "


def _ledger_part(form: str, key: str = r"\Environment\Machine", most: int = 999) -> Callable[[int], bytes]:
    """A ledger of as many entries of a kind as it may have."""

    def made(size: int) -> bytes:
        head = f'[{LEDGER}]\r\n"Version"=dword:00000001\r\n[{LEDGER}{key}]\r\n'
        count = min(most, size // 2 // (len(form) + 4))
        body = "".join(form.replace("#", str(number)) for number in range(count))
        return _answers(ledger_reg=exported(head + body))

    return made


def _environment(item: str) -> Callable[[int], bytes]:
    def made(size: int) -> bytes:
        items = [item.replace("#", str(number)) for number in range(size // 6 // (2 * len(item) + 12))]
        held = [SetValue(rf"{SERVICES}\containerd", "Environment", multi_sz(items))]
        return _answers(service__0_reg=reg.render(held))

    return made


_LIST_ITEM = '[#,\\"HTTP_PROXY=#\\"],'


def _items(size: int) -> bytes:
    """One variable of a service that replaced as many items as fit."""
    listed = "".join(_LIST_ITEM.replace("#", str(number)) for number in range(size // 2 // (len(_LIST_ITEM) + 10)))
    body = f'[{LEDGER}]\r\n"Version"=dword:00000001\r\n[{SERVICE_LINES}\\containerd]\r\n@="{{\\"value\\":null}}"\r\n'
    body += f'"HTTP_PROXY"="{{\\"set\\":\\"x\\",\\"was\\":[{listed[:-1]}]}}"\r\n'
    return _answers(ledger_reg=exported(body))


PLAN_WORST: Worst = {
    "machine variables": _ledger_part('"N#"="{\\"set\\":\\"x\\"}"\r\n'),
    "files": _ledger_part('"C:\\\\k\\\\#"="{\\"digest\\":\\"00\\",\\"size\\":1}"\r\n', r"\Installed\Files", 4_900),
    "directories": _ledger_part('"C:\\\\k\\\\#"="owned"\r\n', r"\Installed\Directories"),
    "services": _ledger_part('"svc#"="{}"\r\n', r"\Installed\Services"),
    "restarts": _ledger_part('"svc#"="running"\r\n', r"\Restarts"),
    "deferred": _ledger_part('"svc#"="{}"\r\n', r"\Deferred"),
    "keys": _ledger_part('"HKEY_LOCAL_MACHINE\\\\SOFTWARE\\\\#"=""\r\n', r"\Keys"),
    "certificates": _ledger_part('"#"="{\\"added\\":true}"\r\n', r"\Certificates\ROOT"),
    "stores": _ledger_part(f'[{LEDGER}\\Certificates\\S#]\r\n"00"="{{\\"added\\":true}}"\r\n'),
    "environments of services": _ledger_part(
        f'[{SERVICE_LINES}\\svc#]\r\n@="{{\\"value\\":null}}"\r\n"HTTP_PROXY"="{{\\"set\\":\\"x\\"}}"\r\n'
    ),
    "items that were": _items,
    "items": _environment("N#=x"),
    "the same item": _environment("HTTP_PROXY=x"),
    "variables": lambda n: _answers(environment_reg=numbered('"N{}"="x"\r\n', min(n, 70 * ENTRIES), f"[{ENVIRONMENT}]\r\n")),
    "keys in a store": lambda n: _answers(
        store__0_txt=b"".join(
            rf"{QUESTIONS.stores[0]}\{number:040X}".encode() + b"\r\n" for number in range(min(n // 130, ENTRIES))
        )
    ),
    "dependencies": lambda n: _answers(
        dependants_txt=b"".join(
            rf"{SERVICES}\s{number}".encode() + b"\r\n" + _ITEM + b"s%d\r\n" % (number + 1)
            for number in range(min(n // 130, 15_000))
        )
    ),
    "a chain to what is restarted": lambda n: _answers(
        dependants_txt=b"".join(
            rf"{SERVICES}\s{number}".encode() + b"\r\n" + _ITEM + (b"s%d\r\n" % (number - 1) if number else b"containerd\r\n")
            for number in range(min(n // 130, 15_000))
        )
    ),
}


def judge_request(data: bytes) -> None:
    """As PEM where it begins so, else as the DER in it."""
    text = data if data.startswith(b"-") else b"".join((_PEM, base64.encodebytes(data), _PEM.replace(b"BEGIN", b"END")))
    member = Member("t/win-1", "win-1", "u-1", frozenset({"10.0.0.7"}), frozenset({"win-1"}), "system:bootstrap:abcdef")
    for signer, user in ((CLIENT, "system:bootstrap:abcdef"), (SERVING, "system:node:win-1")):
        request = CertificateRequest(signer, user, ("system:bootstrappers",), ("digital signature",), text)
        requested_node(request)
        judge(request, (member,), {})


def _request() -> bytes:
    subject = x509.Name([x509.NameAttribute(NameOID.ORGANIZATION_NAME, "system:nodes")])
    made = x509.CertificateSigningRequestBuilder().subject_name(subject)
    made = made.add_extension(x509.SubjectAlternativeName([x509.DNSName("win-1")]), critical=False)
    return made.sign(ec.generate_private_key(ec.SECP256R1()), hashes.SHA256()).public_bytes(Encoding.DER)


def read_kubeconfig(data: bytes) -> object:
    return choose_foreign(propagation.read_kubeconfig(data, "Secret"), "Secret")


def read_api_object(data: bytes) -> None:
    for kind in (NODES, INSTANCES, WHOLE_INSTANCES, EGRESS_PROXIES, SECRETS, CONFIG_MAPS):
        read_object(kind, data)


def decide_review(data: bytes) -> None:
    request = review.read(data)
    made = review.decide(request, {}, POD_PATCHER)
    review.answer(request, review.fitting(made, data) if made is not None else None)


_PEM = b"-----BEGIN CERTIFICATE REQUEST-----\n"
_POD = b'{"metadata":{"name":"p"},"spec":{"containers":[{"name":"c","env":[{"name":"A","value":"b"}]}]}}'
_REVIEW = (
    b'{"apiVersion":"admission.k8s.io/v1","kind":"AdmissionReview","request":{"uid":"u","operation":"CREATE",'
    b'"kind":{"group":"","version":"v1","kind":"Pod"},"object":' + _POD + b"}}"
)
_KUBECONFIG = b"""apiVersion: v1
kind: Config
clusters: [{name: c, cluster: {server: "https://x.example:6443"}}]
users: [{name: u, user: {token: hunter2}}]
contexts: [{name: k, context: {cluster: c, user: u}}]
current-context: k
"""
TARGETS: dict[str, Target] = {
    "reg": Target(
        read_reg,
        (reg.RegSyntaxError,),
        (b'[K]\r\n"a"="b\\\\c"\r\n"d"=hex(7):41,00,\\\r\n  00,00\r\n@=dword:1\r\n', exported(_VALUE + '"b"\r\n')),
        REG_WORST,
    ),
    "answers": Target(
        read_answers,
        (HostError,),
        (_answers(), b"missing ledger\r\npart ledger.err 3\r\nabsent service-0\r\nend\r\nabc"),
        {
            "parts": repeated(b"part a 0\r\n", after=b"end\r\n"),
            "missing": repeated(b"missing a-1\r\n", after=b"end\r\n"),
            "letters": repeated(b"a", b"part "),
            "digits": repeated(b"1", b"part a ", b"\r\nend\r\n"),
            "digits of a version": lambda n: _answers(version_txt=b"1" * n),
            "dots of a version": lambda n: _answers(version_txt=b"1.1.x" * (n // 5)),
            "digits of a state": lambda n: _answers(service__0_txt=b"a\r\nb\r\nc :" + b" 1" * (n // 2)),
            "blanks of a state": lambda n: _answers(service__0_txt=b"a\r\nb\r\nc :" + b" " * n),
            "colons of a state": lambda n: _answers(service__0_txt=b"a\r\nb\r\nc " + b": " * (n // 2)),
            "a name": lambda n: _answers(computer_txt=b"x" * n),
        },
    ),
    "look": Target(
        light_check.shown,
        (),
        (b"Microsoft Windows\r\n\r\ntransom-look\r\n\r\nSERVICE_NAME: kubelet \r\ntransom-looked\r\n",),
        {
            "empty lines": repeated(b"\n", b"transom-look"),
            "beginnings": repeated(b"transom-look\r\n"),
            "blanks": repeated(b" ", b"transom-look"),
        },
    ),
    "plan": Target(read_plan, (HostError, LedgerError), (_answers(),), PLAN_WORST),
    "result": Target(
        read_result,
        (HostError,),
        (
            b"begun\r\nrestarted kubelet\r\nended\r\n",
            b"held\r\nholder a b\r\nboot 0x1f\r\n",
            b"begun\r\nsuperseded 7\r\n",
            b"begun\r\nstuck 3 kubelet\r\nunstarted 1 x\r\nlost 1- 1077- kubelet\r\nfetched 0 0 200 0\r\nreversing\r\n",
        ),
        {
            "stuck": repeated(b"stuck 3 x\r\n"),
            "blanks": repeated(b" ", b"stuck ", b"\r\n"),
            "digits": repeated(b"1", b"superseded ", b"\r\n"),
            "a word": repeated(b"a", b"lost ", b"\r\n"),
            "fetched": repeated(b"fetched 1 1 1 1\r\n"),
            "a holder": repeated(b"holder x\r\n", b"held\r\n"),
        },
    ),
    "ledger": Target(
        read_ledger,
        (),
        tuple(text.encode("utf-16-le") for text in _LEDGER_SEEDS),
        {
            "brackets": _json("", "["),
            "objects": _json("", '{"a":'),
            "digits": _json('{"boot":', "1", "}"),
            "fields": _json("{", '"a":1,', '"set":"x"}'),
            "items": _json('{"set":"x","was":[', '[1,"a"],', '[1,"a"]]}'),
            "hex": _json('{"value":{"name":"a","type":7,"data":"', "4100", '"}}'),
            "text": _json('{"set":"', "\\ud800", '"}'),
        },
    ),
    "query": Target(
        read_query,
        (),
        (b"    BootId    REG_DWORD    0x1f\r\n", _LINE + b"\r\n" + _ITEM + b"a\\0b\r\n"),
        {
            "blanks of an item": repeated(b" ", _LINE + b"\r\n" + _ITEM + b"a", b"b\r\n"),
            "blanks": repeated(b" ", _LINE + b"\r\n"),
            "items": repeated(b"a\\0", _LINE + b"\r\n" + _ITEM),
            "lines": repeated(_LINE + b"\r\n"),
            "digits": repeated(b"f", b"    BootId    REG_DWORD    0x"),
        },
    ),
    "sftp": Target(
        lambda data: asyncio.run(spoken(data)),
        (HostError,),
        (
            bytes.fromhex("00010a66000000000000000000"),
            bytes([1]) + b"\x00\x09f\0\0\0\x04abcd" + b"\x00\x05g\0\0\0\x02hi" + b"\x00\x04e\0\0\0\0",
            bytes([1]) + b"\x00\x05i\0\0\0\x0d" + b"\x00\x10h\0\0\0\x01\0\0\0\x01a\0\0\0\x01a\0\0\0\0",
            bytes([0]) + b"\0\0\0\x05\x02\0\0\0\x03",
        ),
        {"names": lambda n: bytes([1, 0, 5]) + b"f\0\0\0\0" + b"\xff\xff" + b"h\0\xff\xff\xff" + bytes(n)},
    ),
    "authorized keys": Target(
        lambda data: authorized_keys.beside(data, ("ssh-ed25519 AAAA",), "ssh-ed25519 BBBB"),
        (),
        (b'command="x y" ssh-ed25519 AAAA joe\r\n# x\r\nssh-rsa CCCC\n',),
        {"a word": repeated(b"a"), "quotes": repeated(b'" '), "lines": repeated(b"a b\n"), "blanks": repeated(b" ")},
    ),
    "taken": Target(
        Adopted.of,
        (),
        (b"-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n",),
        {"begins": repeated(b"-----BEGIN CERTIFICATE-----\n")},
    ),
    "kubeconfig": Target(
        read_kubeconfig,
        (ConfigurationError,),
        (_KUBECONFIG,),
        {
            "sexagesimal numbers": repeated(b"1:", b"x: ", b"1\n"),
            "merges": lambda n: b"a: &a {x: 1}\n" + b"".join(b"b%d: &a {<<: [*a, *a]}\n" % i for i in range(n // 24)),
            "digits": repeated(b"1", b"x: "),
            "brackets": repeated(b"["),
            "aliases": repeated(b"- *a\n", b"a: &a [x]\nb:\n"),
        },
    ),
    "review": Target(
        decide_review,
        (review.NoReview,),
        (_REVIEW,),
        {
            "brackets": repeated(b"[", b'{"request":'),
            "containers": repeated(b'{"name":"c"},', _REVIEW[: _REVIEW.index(b'{"name":"c"')], b'{"name":"d"}]}}}}'),
        },
    ),
    "objects": Target(
        read_api_object,
        (),
        (b'{"metadata":{"name":"x","resourceVersion":"1"},"spec":{"address":"10.0.0.1"},"status":{"conditions":[]}}',),
        {"brackets": repeated(b"[", b'{"spec":'), "objects": repeated(b'{"a":', b'{"metadata":{"name":"x"},"spec":')},
    ),
    "csr": Target(
        judge_request,
        (),
        (_PEM + b"AAAA\n" + _PEM.replace(b"BEGIN", b"END"), _request()),
        {"letters": repeated(b"A", _PEM), "lines": repeated(b"A\n", _PEM), "begins": repeated(_PEM)},
    ),
}
