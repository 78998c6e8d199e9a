"""`python -m website.pictures`: the drawings of docs/concepts.md. Words stand in light boxes, to be read on any background."""

from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Final
from xml.sax.saxutils import escape

ASSETS: Final = Path(__file__).parents[1] / "docs" / "assets"
_FILLS: Final = {
    "ours": ("#dfe5fb", "#3f51b5"),
    "theirs": ("#eceff1", "#78909c"),
    "good": ("#dff3e3", "#2e7d32"),
    "bad": ("#fde4e1", "#c62828"),
}
"""Of a box: what fills it, and its edge."""
_BESIDE: Final = "#6b7789"
"""What stands on the page itself: grey that can be read on white and on dark."""


class Drawing:
    """Boxes and arrows; all lengths are pixels, from the upper left corner."""

    def __init__(self, width: int, height: int) -> None:
        self._size = (width, height)
        self._parts: list[str] = []

    def box(self, x: int, y: int, width: int, height: int, title: str, *lines: str, kind: str = "ours") -> None:
        """A box with a title and lines below it."""
        fill, edge = _FILLS[kind]
        self._parts.append(f'<rect x="{x}" y="{y}" width="{width}" height="{height}" rx="8" fill="{fill}" stroke="{edge}"/>')
        self._text(x + 14, y + 24, title, "#1c2333", weight="bold")
        for number, line in enumerate(lines):
            self._text(x + 14, y + 46 + 19 * number, line, "#39425a")

    def arrow(self, x: int, y: int, to_x: int, to_y: int, label: str = "") -> None:
        """An arrow, with a label over its middle."""
        self._parts.append(
            f'<line x1="{x}" y1="{y}" x2="{to_x}" y2="{to_y}" stroke="{_BESIDE}" stroke-width="2" marker-end="url(#end)"/>'
        )
        if label:
            self._text((x + to_x) // 2, min(y, to_y) - 8 if y == to_y else (y + to_y) // 2, label, _BESIDE, anchor="middle")

    def note(self, x: int, y: int, text: str) -> None:
        """Words on the page itself."""
        self._text(x, y, text, _BESIDE)

    def svg(self, title: str) -> str:
        """The drawing; `title` is for who cannot see it."""
        width, height = self._size
        return "\n".join(
            (
                f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" width="{width}" role="img"'
                f' font-family="system-ui, sans-serif" font-size="14">',
                f"<title>{escape(title)}</title>",
                '<defs><marker id="end" viewBox="0 0 8 8" refX="7" refY="4" markerWidth="7" markerHeight="7" orient="auto">'
                f'<path d="M0 0 8 4 0 8z" fill="{_BESIDE}"/></marker></defs>',
                *self._parts,
                "</svg>\n",
            )
        )

    def _text(self, x: int, y: int, text: str, colour: str, *, weight: str = "normal", anchor: str = "start") -> None:
        self._parts.append(
            f'<text x="{x}" y="{y}" fill="{colour}" font-weight="{weight}" text-anchor="{anchor}">{escape(text)}</text>'
        )


def one_change() -> str:
    """From the objects to a host, and what is told of it."""
    drawing = Drawing(920, 290)
    drawing.box(10, 20, 200, 110, "Objects", "EgressProxy, Proxy", "Secret, ConfigMap", "WindowsInstance", kind="theirs")
    drawing.arrow(210, 75, 268, 75, "read")
    drawing.box(270, 20, 190, 110, "Settings", "validated, or an error", "that names the field", "and changes nothing")
    drawing.arrow(460, 75, 518, 75)
    drawing.box(520, 20, 170, 110, "Plan", "what differs on", "this host, each step", "with its reason")
    drawing.arrow(690, 75, 748, 75, "SSH")
    drawing.box(750, 20, 160, 110, "Host", "ledger first, then", "one .reg file, then", "restarts in order", kind="theirs")
    drawing.arrow(830, 130, 830, 178)
    drawing.box(750, 180, 160, 90, "Read again", "no difference left:", "the change counts", kind="good")
    drawing.arrow(750, 225, 692, 225)
    drawing.box(490, 180, 200, 90, "Fetch an endpoint", "by curl.exe, as a", "service would", kind="good")
    drawing.arrow(490, 225, 432, 225)
    drawing.box(210, 180, 220, 90, "Conditions and events", "Configured, ProxyApplied,", "TrustApplied, EgressWorks")
    return drawing.svg("One change: objects, settings, plan, host, read again, fetch an endpoint, conditions and events")


def host() -> str:
    """What is Transom's on a Windows host, and what is not."""
    drawing = Drawing(920, 400)
    drawing.box(10, 10, 900, 380, "A Windows host", kind="theirs")
    drawing.box(
        30,
        50,
        420,
        96,
        r"HKLM\SYSTEM\…\Services\<name>",
        "Environment of containerd, kubelet, …:",
        "HTTP_PROXY, HTTPS_PROXY, NO_PROXY",
    )
    drawing.box(
        470, 50, 420, 96, "Certificate stores of the machine", "ROOT: self-issued certificates of the bundle", "CA: the others"
    )
    drawing.box(
        30, 160, 420, 96, r"HKLM\SOFTWARE\Transom", "the ledger: what is Transom's, what it replaced,", "who works on the host"
    )
    drawing.box(
        470,
        160,
        420,
        96,
        r"C:\Windows\Transom",
        "scripts and results, for administrators alone;",
        "a file with a secret goes in the same run",
    )
    drawing.box(
        30,
        270,
        420,
        104,
        "With lifecycle: Node",
        r"files and services of the payload, below C:\k;",
        "firewall rules, the Containers feature,",
        "the SSH key's line",
    )
    drawing.box(
        470,
        270,
        420,
        104,
        "Left alone",
        "other variables of a service, other services,",
        "certificates that were there before,",
        "what group policy brings",
        kind="good",
    )
    return drawing.svg("What Transom puts on a Windows host, and what it leaves alone")


def layers() -> str:
    """A base, two layers, and what clusters get of them."""
    drawing = Drawing(920, 330)
    drawing.box(10, 20, 270, 88, "EgressProxy/cluster: the base", "httpProxy: proxy.corp", "noProxy: .corp", kind="theirs")
    drawing.box(10, 121, 270, 88, "plant-7, selects site=plant-7", "httpProxy: proxy.plant7", "priority: 0", kind="theirs")
    drawing.box(10, 222, 270, 88, "mesh-blue, selects mesh=blue", "noProxy: .mesh.blue", "priority: 0", kind="theirs")
    rows: tuple[tuple[str, tuple[str, ...], tuple[int, ...]], ...] = (
        ("its own cluster, and others", ("proxy.corp; .corp",), (64,)),
        ("a Cluster with site=plant-7", ("proxy.plant7; .corp",), (64, 165)),
        ("a Cluster with both labels", ("proxy.plant7; .corp,.mesh.blue",), (64, 165, 266)),
    )
    for number, (title, lines, sources) in enumerate(rows):
        y = 30 + 101 * number
        drawing.box(580, y, 330, 70, title, *lines, kind="good")
        for source in sources:
            drawing.arrow(280, source, 578, y + 35)
    return drawing.svg("The base, two layers, and what each cluster gets")


def rollout() -> str:
    """A canary, a tenth, all; and the halt."""
    drawing = Drawing(920, 270)
    steps = (("One host", "healthy, and has egress?"), ("A tenth", "all of them healthy?"), ("All", "--workers at once"))
    for number, (title, line) in enumerate(steps):
        x = 10 + 310 * number
        drawing.box(x, 30, 220, 74, title, line)
        if number < len(steps) - 1:
            drawing.arrow(x + 220, 67, x + 308, 67, "yes")
    drawing.arrow(120, 104, 120, 158)
    drawing.note(132, 136, "no egress")
    drawing.arrow(430, 104, 250, 158)
    drawing.note(360, 142, "two failures")
    drawing.box(
        10, 160, 300, 94, "RolloutHalted", "the others keep what they had", "edit the settings, or annotate: go on", kind="bad"
    )
    drawing.arrow(740, 104, 740, 158)
    drawing.box(
        580, 160, 330, 94, "Ready", "every host has the settings;", "a later fault of one host stops nobody", kind="good"
    )
    return drawing.svg("A rollout: one host, then a tenth, then all; two failures, or no egress at the first host, stop it")


PICTURES: Final[Mapping[str, Callable[[], str]]] = {
    "one-change.svg": one_change,
    "host.svg": host,
    "layers.svg": layers,
    "rollout.svg": rollout,
}


def drawn() -> Iterator[tuple[str, str]]:
    """The name of each file, and what is in it."""
    for name, picture in PICTURES.items():
        yield name, picture()


if __name__ == "__main__":
    for _name, _text in drawn():
        (ASSETS / _name).write_text(_text, "utf-8")
