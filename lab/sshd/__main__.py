"""`python -m lab.sshd SETTINGS.json`: the SSH server of one machine."""

import asyncio
import sys
from pathlib import Path

from lab.sshd.server import serve
from lab.sshd.settings import load

asyncio.run(serve(load(Path(sys.argv[1]))))
