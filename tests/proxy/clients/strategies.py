"""Items, lists and URLs that have something to do with each other, drawn by hypothesis."""

from hypothesis import strategies as st

LABELS = st.sampled_from(["a", "b", "corp", "db", "svc", "cluster", "local", "xn--mnchen-3ya", "x-1", "127", "2", "3"])
_NAMES = st.builds(lambda labels: ".".join([*labels, "example"]), st.lists(LABELS, min_size=0, max_size=3))
NAMES = st.one_of(_NAMES, st.sampled_from(["localhost", "intranet", "kubernetes.default.svc", "corp.internal", "svc"]))
IPV4 = st.one_of(
    st.sampled_from(
        ["10.1.2.3", "10.0.0.0", "10.0.0.1", "127.0.0.1", "127.5.5.5", "169.254.169.254", "192.168.1.77", "0.0.0.0"]
    ),
    st.builds(lambda parts: ".".join(map(str, parts)), st.lists(st.integers(0, 255), min_size=4, max_size=4)),
)
IPV6 = st.sampled_from(
    ["::1", "2001:db8::1", "2001:db8::a", "2001:DB8::A", "2001:db8:0:0::1", "fd00::1", "fe80::1", "::ffff:10.1.2.3"]
)
PORTS = st.sampled_from([":80", ":443", ":8080", ":6443", ":0", ":65535"])
_BITS4 = st.one_of(st.sampled_from([0, 7, 8, 12, 16, 24, 31, 32, 33]), st.integers(1, 32))
_BITS6 = st.sampled_from([0, 7, 8, 32, 48, 63, 64, 127, 128, 129])


def _forms(name: str, ipv4: str, ipv6: str, port: str, bits: tuple[int, int]) -> list[str]:
    return [
        name,
        f".{name}",
        f"*.{name}",
        f"*{name}",
        name.replace("a", "*"),
        f"..{name}",
        f"{name}.",
        name.upper(),
        f"{name}{port}",
        f".{name}{port}",
        f"*.{name}{port}",
        ipv4,
        f"{ipv4}{port}",
        ipv4.split(".", 2)[2],
        ipv4.rsplit(".", 2)[0] + ".",
        f"{ipv4}/{bits[0]}",
        f"{ipv4.split('.', maxsplit=1)[0]}.0/{bits[0]}",
        f"{ipv4}/255.0.0.0",
        f"{ipv4}-10.255.255.255",
        ipv6,
        f"[{ipv6}]",
        f"[{ipv6}]{port}",
        f"{ipv6}/{bits[1]}",
        f"http://{name}",
        f"user@{name}",
        f"{name}/",
        f'"{name}"',
        port,
        "*",
        ".",
        "<local>",
        "",
    ]


ITEMS = st.builds(_forms, NAMES, IPV4, IPV6, PORTS, st.tuples(_BITS4, _BITS6)).flatmap(st.sampled_from)
SEPARATORS = st.sampled_from([",", ",", ",", ", ", " ,", " ", ";", "|", ",,", " , ", "\t"])


@st.composite
def lists(draw: st.DrawFn) -> str:
    """A value of NO_PROXY."""
    items = draw(st.lists(ITEMS, min_size=1, max_size=4))
    text = items[0]
    for item in items[1:]:
        text += draw(SEPARATORS) + item
    return draw(st.sampled_from(["", "", "", " "])) + text + draw(st.sampled_from(["", "", "", " ", ","]))


@st.composite
def urls(draw: st.DrawFn) -> str:
    """A URL; its host is spelled in one of the ways that URLs know."""
    host = draw(
        st.one_of(
            NAMES,
            NAMES.map(lambda name: f"a.{name}"),
            NAMES.map(lambda name: f"not{name}"),
            NAMES.map(str.upper),
            NAMES.map(lambda name: f"{name}."),
            IPV4,
            IPV6.map(lambda address: f"[{address}]"),
        )
    )
    return (
        f"{draw(st.sampled_from(['http', 'https']))}://{host}{draw(st.one_of(st.just(''), PORTS.filter(lambda p: p != ':0')))}/"
    )


@st.composite
def related(draw: st.DrawFn) -> tuple[str, str]:
    """A list and a URL; half of the URLs have to do with an item of the list."""
    value = draw(lists())
    if draw(st.booleans()):
        return value, draw(urls())
    name = draw(st.sampled_from([part.strip('*."[]/ ') for part in value.replace(";", ",").split(",")]))
    host = name.split("://")[-1].split("/")[0].rpartition("@")[2].split(":")[0].strip('.* \t"|<>-[]')
    if not host or any(sign in host for sign in ' \t|<>"*?[]') or not host.isascii():
        host = "corp.example"
    prefix = draw(st.sampled_from(["", "", "a.", "not"])) if not host[0].isdigit() else ""
    return (
        value,
        f"{draw(st.sampled_from(['http', 'https']))}://{prefix}{host}{draw(st.sampled_from(['', '', ':8080', ':443']))}/",
    )
