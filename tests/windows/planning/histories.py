"""Histories of one host: settings applied, cut and undone, boots, services that come and go, administrators who change things.

A history is a list of steps, drawn by a `random.Random`, whose seed hypothesis or `benchmarks.histories` gives. `life.lived`
takes a model host through it.
"""

import functools
import itertools
import random
from typing import Final, Literal

import msgspec
from cryptography.hazmat.primitives.serialization import Encoding
from tests.windows.authorities import authorities, sha1

from transom.proxy.secret import Secret
from transom.proxy.settings import Egress, WindowsSettings
from transom.proxy.trust import Certificate, parse_bundle
from transom.windows.parts.plan_builder import When

OURS: Final = ("HTTP_PROXY", "HTTPS_PROXY", "NO_PROXY")
MARK: Final = "ours.example"
"""Stands in every value that the settings ask for, and in none of anybody else's."""
_SERVICES: Final = ("containerd", "kubelet", "cloud-node-manager", "other", "antivirus")
_PROXIES: Final = (
    "http://a.ours.example:3128",
    "http://b.ours.example:3128",
    "http://alice:hunter2%25%5E@a.ours.example:3128",
    "http://alice:hunter3@a.ours.example:3128",
)
_LISTS: Final = (".ours.example", "10.0.0.0/8,.ours.example")
_MANAGED: Final = (
    ("containerd", "kubelet", "cloud-node-manager"),
    ("containerd",),
    ("Containerd", "KUBELET"),
    ("containerd", "cloud-node-manager"),
    (),
)
POLICIES: Final = ("AllSigned", "Restricted", "RemoteSigned")
PROFILES: Final = (
    None,
    None,
    b"",
    b"Set-Alias ll Get-ChildItem\r\n",
    b"$a = 1\n$b = 2",
    b"\xff\xfe" + "$a = 'ü'\r\n".encode("utf-16-le"),
    b"\xef\xbb\xbf",
    b"# Transom begin: of somebody's\r\n$c = 3\r\n# Transom end\r\n$d = 4\r\n",
)


class Apply(msgspec.Struct, frozen=True, tag=True, omit_defaults=True):
    """A pass with settings; `cut` after so many of its actions, by kill or by power (then the host boots)."""

    http: str = ""
    https: str = ""
    no_proxy: str = ""
    trust: tuple[int, ...] = ()
    scope: Literal["Services", "Machine", "Both"] = "Services"
    services: tuple[str, ...] = _MANAGED[0]
    win_http: bool = False
    power_shell: bool = False
    when: When = "now"
    expected: bool = True
    cut: int | None = None
    power: bool = False

    def egress(self) -> Egress:
        return Egress(
            Secret(self.http) if self.http else None,
            Secret(self.https) if self.https else None,
            self.no_proxy if self.http or self.https else "",
            tuple(_bundle()[number] for number in self.trust),
            WindowsSettings(
                environment_scope=self.scope,
                services=self.services,
                win_http=self.win_http,
                power_shell=self.power_shell,
            ),
        )


class Boot(msgspec.Struct, frozen=True, tag=True):
    pass


class Appear(msgspec.Struct, frozen=True, tag=True):
    """A service that is not there is made; `environment` None: it has none of its own."""

    service: str
    environment: tuple[str, ...] | None = None
    running: bool = True


class Vanish(msgspec.Struct, frozen=True, tag=True):
    service: str


class Halt(msgspec.Struct, frozen=True, tag=True):
    """An administrator stops a service for good, or starts it."""

    service: str
    running: bool = False


class AddItem(msgspec.Struct, frozen=True, tag=True):
    service: str
    item: str


class TakeItem(msgspec.Struct, frozen=True, tag=True):
    """An administrator's item that `AddItem` gave, or that was there, is taken out."""

    service: str
    item: str


class Write(msgspec.Struct, frozen=True, tag=True):
    """A service's value is written anew, REG_SZ or none at all, and the service restarted."""

    service: str
    text: str | None = None


class Drift(msgspec.Struct, frozen=True, tag=True):
    """An item of ours (a variable of the machine's where `service` is empty) is changed by an administrator."""

    service: str
    name: str
    how: Literal["deleted", "changed", "doubled"]


class SetMachine(msgspec.Struct, frozen=True, tag=True):
    """An administrator sets (None: deletes) a variable of the machine that is not ours."""

    name: str
    value: str | None = None


class Trust(msgspec.Struct, frozen=True, tag=True):
    """An administrator trusts a certificate that is not there, or takes one of his own, or of ours, out."""

    number: int
    present: bool


class SetWinHttp(msgspec.Struct, frozen=True, tag=True):
    data: str | None = None


class Policy(msgspec.Struct, frozen=True, tag=True):
    """Group policy trusts a certificate, or no longer."""

    number: int
    present: bool


class SetExecutionPolicy(msgspec.Struct, frozen=True, tag=True):
    """The execution policy is set, by group policy or by an administrator; None: it is not set any more."""

    policy: str | None
    by_group: bool = False


class EditProfile(msgspec.Struct, frozen=True, tag=True):
    """An administrator edits the profile of Windows PowerShell.

    `add` writes a line at its end, `put` one before its beginning, `sign` signs it, `unsign` takes the signature out, `drift`
    changes our block, `lose` takes it out, `delete` deletes the file.
    """

    how: Literal["add", "put", "sign", "unsign", "drift", "lose", "delete"]


Step = Apply | Boot | Appear | Vanish | Halt | AddItem | TakeItem | Write | Drift | SetMachine | Trust | SetWinHttp
Step |= Policy | SetExecutionPolicy | EditProfile


class History(msgspec.Struct, frozen=True):
    """What is there at first.

    `stores` of certificates, variables of the machine (`name=value`), data of WinHTTP's value, the profile of PowerShell.
    """

    steps: tuple[Step, ...]
    stores: tuple[bool, bool] = (True, True)
    machine: tuple[str, ...] = ()
    win_http: str | None = None
    profile: bytes | None = None


@functools.cache
def _bundle() -> tuple[Certificate, ...]:
    found = parse_bundle(b"".join(authority.public_bytes(Encoding.PEM) for authority in authorities())).certificates
    return tuple(next(item for item in found if item.sha1 == sha1(authority)) for authority in authorities())


def drawn(given: random.Random, *, cuts: bool = True) -> History:
    """A history of some ten steps."""
    number = itertools.count(1)
    steps: list[Step] = [_appear(given, number, name) for name in given.sample(_SERVICES, given.randint(2, 5))]
    last: Apply | None = None
    for _ in range(given.randint(1, 14)):
        if given.random() < 0.6:
            last = _apply(given, cuts=cuts) if last is None or given.random() < 0.4 else _edited(given, last, cuts=cuts)
            steps.append(last)
        else:
            steps += _meanwhile(given, number)
    machine = tuple(f"{name}=old.theirs.example" for name in ("HTTP_PROXY", "No_Proxy") if given.random() < 0.3)
    win_http = given.choice((None, None, "abc0"))
    stores = (given.random() < 0.8, given.random() < 0.8)
    return History(tuple(steps), stores, machine, win_http, given.choice(PROFILES))


def _edited(given: random.Random, last: Apply, *, cuts: bool) -> Apply:
    """The settings with one field changed."""
    new = _apply(given, cuts=cuts)
    field = given.choice(
        (
            *("http", "http", "https", "no_proxy", "trust", "scope", "services", "services", "services", "win_http"),
            *("power_shell", "power_shell"),
        )
    )
    return msgspec.structs.replace(last, **{field: getattr(new, field)}, when=new.when, cut=new.cut, power=new.power)


def _meanwhile(given: random.Random, number: "itertools.count[int]") -> tuple[Step, ...]:
    """What happens to a host besides passes."""
    kind, service = given.random(), given.choice(_SERVICES)
    if kind < 0.2:
        return (Boot(),)
    if kind < 0.45:
        made = _appear(given, number, service)
        return given.choice(((Vanish(service),), (made,), (Vanish(service), made)))
    if kind < 0.7:
        return (_of_others(given, number, service),)
    if kind < 0.8:
        return (Halt(service, given.random() < 0.5),)
    if kind < 0.85:
        return (EditProfile(given.choice(("add", "put", "sign", "unsign", "unsign", "drift", "drift", "lose", "delete"))),)
    if kind < 0.89:
        return (SetExecutionPolicy(given.choice((None, *POLICIES)), given.random() < 0.5),)
    if kind < 0.97:
        how: Literal["deleted", "changed", "doubled"] = given.choice(("deleted", "changed", "doubled"))
        return (Drift(given.choice((service, service, "")), given.choice(OURS), how),)
    change = Trust if kind < 0.99 else Policy
    return (change(given.randrange(3), given.random() < 0.5),)


def _of_others(given: random.Random, number: "itertools.count[int]", service: str) -> Step:
    item = given.choice(("X{0}={0}", "http_proxy=http://dup{0}.theirs.example", "No_Proxy=dup{0}.theirs.example"))
    match given.randrange(6):
        case 0:
            return Write(service, given.choice((None, f"sz{next(number)}")))
        case 1:
            return SetMachine(given.choice(("HTTP_PROXY", "no_proxy")), given.choice((None, f"m{next(number)}.theirs.example")))
        case 2:
            return SetWinHttp(given.choice((None, f"{next(number):04x}")))
        case 3:
            return TakeItem(service, item.format(given.randint(1, 4)))
        case _:
            return AddItem(service, item.format(next(number)))


def _appear(given: random.Random, number: "itertools.count[int]", service: str) -> Appear:
    one = next(number)
    items = [f"A{one}={one}", f"http_proxy=http://old{one}.theirs.example", f"NO_PROXY=old{one}.theirs.example", f"B{one}=2"]
    # what tells it from one that was there before
    chosen = tuple(item for item in items if item == items[0] or given.random() < 0.5)
    return Appear(service, given.choice((None, chosen)), given.random() < 0.9)


def _apply(given: random.Random, *, cuts: bool) -> Apply:
    removal = given.random() < 0.15
    cut = given.randrange(given.choice((8, 16, 40))) if cuts and given.random() < 0.5 else None
    proxied = not removal and given.random() < 0.6
    return Apply(
        given.choice(("", *_PROXIES)) if proxied else "",
        given.choice(("", *_PROXIES)) if proxied else "",
        given.choice(("", *_LISTS)) if proxied else "",
        tuple(sorted(given.sample(range(3), given.randint(0, 3)))) if not removal and given.random() < 0.7 else (),
        given.choice(("Services", "Services", "Machine", "Both")),
        given.choice(_MANAGED),
        win_http=given.random() < 0.5,
        power_shell=given.random() < 0.5,
        when=given.choice(("now",) * 8 + ("boot", "manual")),
        expected=given.random() < 0.5,
        cut=cut,
        power=given.random() < 0.3,
    )
