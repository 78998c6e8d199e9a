"""Transom's block in a profile of Windows PowerShell: made of settings, and read by people. No credentials are in it.

WebProxy has one address for all URLs, and regular expressions for those that are fetched directly.
"""

import re
from typing import Final

from transom.proxy.clients.bypass_expressions import build_bypass_expressions
from transom.proxy.plain_proxy import select_web_proxy
from transom.proxy.settings import Egress
from transom.windows.parts.profile_text import BEGIN, END

TARGET: Final = "PowerShell proxy"
"""What steps call it."""
_QUOTED: Final = re.compile(r"^ +'([^']*)',?$", re.MULTILINE)
# New-Object is refused in Constrained Language Mode: about_Language_Modes
_BLOCK: Final = """\
{begin}: Transom replaces and removes the lines up to its end. Set by spec.windows.powerShell.
if ($ExecutionContext.SessionState.LanguageMode -eq 'FullLanguage') {{
    [System.Net.WebRequest]::DefaultWebProxy = New-Object -TypeName System.Net.WebProxy -ArgumentList @(
        '{address}',
        $false,
        [string[]]@(
            {expressions}
        )
    )
}}
{end}
"""


def build_block(egress: Egress) -> str:
    """Build the block, lines that end with a line feed; empty if Windows PowerShell can use none of the proxies."""
    proxy = select_web_proxy(egress.http_proxy, egress.https_proxy)
    if not proxy.address:
        return ""
    others = f"^(?!(?:{'|'.join(proxy.schemes)})://)"
    expressions = (others, *build_bypass_expressions(egress.no_proxy).expressions)
    lines = ",\n            ".join(f"'{expression}'" for expression in expressions)
    return _BLOCK.format(begin=BEGIN, end=END, address=f"http://{proxy.address}".replace("'", "''"), expressions=lines)


def format_block(block: str) -> str | None:
    """Format a block for people: the proxy and the expressions of its bypass list; None if it has another shape."""
    address, *expressions = _QUOTED.findall(block) or [""]
    if not address or "@" in address:
        return None
    return f"{address} bypass={';'.join(expressions)}" if expressions else address
