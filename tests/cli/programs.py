"""The program as a process of its own: what an operator in the process of the test logs is not in its output."""

import asyncio
import sys
from pathlib import Path

from tests.support.command import Ran


async def transom(*arguments: str) -> Ran:
    """Run `transom ARGUMENTS` to its end."""
    process = await started(*arguments)
    out, err = await process.communicate()
    assert process.returncode is not None
    return Ran(process.returncode, out.decode(), err.decode())


async def started(*arguments: str) -> asyncio.subprocess.Process:
    """Start `transom ARGUMENTS`."""
    program, pipe = str(Path(sys.executable).parent / "transom"), asyncio.subprocess.PIPE
    return await asyncio.create_subprocess_exec(program, *arguments, stdout=pipe, stderr=pipe)
