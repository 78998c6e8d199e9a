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

    def draw_box(self, x: int, y: int, width: int, height: int, title: str, *lines: str, kind: str = "ours") -> None:
        """Draw a box with a title and lines below it."""
        fill, edge = _FILLS[kind]
        self._parts.append(f'<rect x="{x}" y="{y}" width="{width}" height="{height}" rx="8" fill="{fill}" stroke="{edge}"/>')
        self._draw_text(x + 14, y + 24, title, "#1c2333", weight="bold")
        for number, line in enumerate(lines):
            self._draw_text(x + 14, y + 46 + 19 * number, line, "#39425a")

    def draw_arrow(self, x: int, y: int, to_x: int, to_y: int, label: str = "") -> None:
        """Draw an arrow with a label over its middle."""
        self._parts.append(
            f'<line x1="{x}" y1="{y}" x2="{to_x}" y2="{to_y}" stroke="{_BESIDE}" stroke-width="2" marker-end="url(#end)"/>'
        )
        if label:
            self._draw_text(
                (x + to_x) // 2, min(y, to_y) - 8 if y == to_y else (y + to_y) // 2, label, _BESIDE, anchor="middle"
            )

    def draw_note(self, x: int, y: int, text: str) -> None:
        """Draw text outside a box."""
        self._draw_text(x, y, text, _BESIDE)

    def render_svg(self, title: str) -> str:
        """Render the drawing as SVG; `title` is the text for screen readers."""
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

    def _draw_text(self, x: int, y: int, text: str, colour: str, *, weight: str = "normal", anchor: str = "start") -> None:
        self._parts.append(
            f'<text x="{x}" y="{y}" fill="{colour}" font-weight="{weight}" text-anchor="{anchor}">{escape(text)}</text>'
        )


def draw_one_change() -> str:
    """Draw the path of a change from the objects to a host and back to their conditions."""
    drawing = Drawing(920, 290)
    drawing.draw_box(10, 20, 200, 110, "Objects", "EgressProxy, Proxy", "Secret, ConfigMap", "WindowsInstance", kind="theirs")
    drawing.draw_arrow(210, 75, 268, 75, "read")
    drawing.draw_box(270, 20, 190, 110, "Settings", "validated, or an error", "that names the field", "and changes nothing")
    drawing.draw_arrow(460, 75, 518, 75)
    drawing.draw_box(520, 20, 170, 110, "Plan", "what differs on", "this host, each step", "with its reason")
    drawing.draw_arrow(690, 75, 748, 75, "SSH")
    drawing.draw_box(750, 20, 160, 110, "Host", "ledger first, then", "one .reg file, then", "restarts in order", kind="theirs")
    drawing.draw_arrow(830, 130, 830, 178)
    drawing.draw_box(750, 180, 160, 90, "Read again", "no difference left:", "the change counts", kind="good")
    drawing.draw_arrow(750, 225, 692, 225)
    drawing.draw_box(490, 180, 200, 90, "Fetch an endpoint", "by curl.exe, as a", "service would", kind="good")
    drawing.draw_arrow(490, 225, 432, 225)
    drawing.draw_box(210, 180, 220, 90, "Conditions and events", "Configured, ProxyApplied,", "TrustApplied, EgressWorks")
    return drawing.render_svg("One change: objects, settings, plan, host, read again, fetch an endpoint, conditions and events")


def draw_host() -> str:
    """Draw what Transom changes on a Windows host, and what it does not change."""
    drawing = Drawing(920, 400)
    drawing.draw_box(10, 10, 900, 380, "A Windows host", kind="theirs")
    drawing.draw_box(
        30,
        50,
        420,
        96,
        r"HKLM\SYSTEM\…\Services\<name>",
        "Environment of containerd, kubelet, …:",
        "HTTP_PROXY, HTTPS_PROXY, NO_PROXY",
    )
    drawing.draw_box(
        470, 50, 420, 96, "Certificate stores of the machine", "ROOT: self-issued certificates of the bundle", "CA: the others"
    )
    drawing.draw_box(
        30,
        160,
        420,
        96,
        r"HKLM\SOFTWARE\Transom",
        "the ledger: what Transom added and replaced,",
        "and which manager owns the host",
    )
    drawing.draw_box(
        470,
        160,
        420,
        96,
        r"C:\Windows\Transom",
        "scripts and results, for administrators only;",
        "files with secrets are deleted in the same run",
    )
    drawing.draw_box(
        30,
        270,
        420,
        104,
        "With lifecycle: Node",
        r"files and services of the payload, below C:\k;",
        "firewall rules, the Containers feature,",
        "the SSH key's line",
    )
    drawing.draw_box(
        470,
        270,
        420,
        104,
        "Not changed",
        "other variables of a service, other services,",
        "certificates that existed before,",
        "settings from group policy",
        kind="good",
    )
    return drawing.render_svg("What Transom changes on a Windows host, and what it does not change")


def draw_layers() -> str:
    """Draw the default settings, two overrides, and what clusters get."""
    drawing = Drawing(920, 330)
    drawing.draw_box(10, 20, 270, 88, "EgressProxy/cluster: default", "httpProxy: proxy.corp", "noProxy: .corp", kind="theirs")
    drawing.draw_box(10, 121, 270, 88, "plant-7, selects site=plant-7", "httpProxy: proxy.plant7", "priority: 0", kind="theirs")
    drawing.draw_box(10, 222, 270, 88, "mesh-blue, selects mesh=blue", "noProxy: .mesh.blue", "priority: 0", kind="theirs")
    rows: tuple[tuple[str, tuple[str, ...], tuple[int, ...]], ...] = (
        ("its own cluster, and others", ("proxy.corp; .corp",), (64,)),
        ("a Cluster with site=plant-7", ("proxy.plant7; .corp",), (64, 165)),
        ("a Cluster with both labels", ("proxy.plant7; .corp,.mesh.blue",), (64, 165, 266)),
    )
    for number, (title, lines, sources) in enumerate(rows):
        y = 30 + 101 * number
        drawing.draw_box(580, y, 330, 70, title, *lines, kind="good")
        for source in sources:
            drawing.draw_arrow(280, source, 578, y + 35)
    return drawing.render_svg("The default settings, two overrides, and what each cluster gets")


def draw_rollout() -> str:
    """Draw the steps of a rollout: a canary, a tenth, all hosts, and the halt."""
    drawing = Drawing(920, 270)
    steps = (("One host", "healthy, and has egress?"), ("A tenth", "all of them healthy?"), ("All", "--workers at once"))
    for number, (title, line) in enumerate(steps):
        x = 10 + 310 * number
        drawing.draw_box(x, 30, 220, 74, title, line)
        if number < len(steps) - 1:
            drawing.draw_arrow(x + 220, 67, x + 308, 67, "yes")
    drawing.draw_arrow(120, 104, 120, 158)
    drawing.draw_note(132, 136, "no egress")
    drawing.draw_arrow(430, 104, 250, 158)
    drawing.draw_note(360, 142, "two failures")
    drawing.draw_box(
        10, 160, 300, 94, "RolloutHalted", "the others keep their settings;", "edit the settings, or resume", kind="bad"
    )
    drawing.draw_arrow(740, 104, 740, 158)
    drawing.draw_box(
        580, 160, 330, 94, "Ready", "every host has the settings;", "later failures stop no other host", kind="good"
    )
    return drawing.render_svg(
        "A rollout: one host, then a tenth, then all; two failures, or no egress at the first host, stop it"
    )


PICTURES: Final[Mapping[str, Callable[[], str]]] = {
    "one-change.svg": draw_one_change,
    "host.svg": draw_host,
    "layers.svg": draw_layers,
    "rollout.svg": draw_rollout,
}


def iter_drawings() -> Iterator[tuple[str, str]]:
    """Yield the file name and the content of each drawing."""
    for name, picture in PICTURES.items():
        yield name, picture()


if __name__ == "__main__":
    for _name, _text in iter_drawings():
        (ASSETS / _name).write_text(_text, "utf-8")
