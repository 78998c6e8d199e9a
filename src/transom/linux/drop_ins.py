"""The proxy variables of a Linux node: as a systemd drop-in, and as lines for a shell."""

from collections.abc import Iterator
from typing import Final

from transom.proxy.secret import Secret
from transom.proxy.settings import Egress

EMPTY_DROP_IN: Final = "[Service]\n"
"""A drop-in that sets nothing."""
_SYSTEMD: Final = str.maketrans({"%": "%%", '"': '\\"', "\\": "\\\\"})
"""systemd.exec(5), Environment=: specifiers are expanded, so `%` is doubled; quoted words take C escapes, systemd.syntax(7).
`$` has no meaning there."""


def render_drop_in(egress: Egress) -> Secret:
    """Render a drop-in for a service: `[Service]` and a line per variable in both cases; `EMPTY_DROP_IN` without settings."""
    lines = (f'Environment="{name}={value.translate(_SYSTEMD)}"\n' for name, value in _iter_both_cases(egress))
    return Secret(EMPTY_DROP_IN + "".join(lines))


def render_shell_lines(egress: Egress) -> Secret:
    """Render assignments for a POSIX shell's `.`, with values in single quotes; empty without settings."""
    quoted = ((name, value.replace("'", r"'\''")) for name, value in _iter_both_cases(egress))
    return Secret("".join(f"{name}='{value}'\n" for name, value in quoted))


def _iter_both_cases(egress: Egress) -> Iterator[tuple[str, str]]:
    for name, value in egress.variables.items():
        yield name, value
        yield name.lower(), value
