"""`python -m lab.sshd.forking SOCKET`: imports the SSH server once, and forks one for each machine that asks.

To start Python and import it is 0.28 s of the 0.33 s of CPU that a server's start costs. A request is the path of the settings
with two descriptors, standard input and the log; the answer is the server's process id, with a descriptor of the process.
"""

import asyncio
import contextlib
import gc
import os
import socket
import sys
from pathlib import Path

from lab.sshd.server import serve
from lab.sshd.settings import load

_LONGEST = 4096


def asked(control: socket.socket) -> Path:
    """Fork until the socket is closed. In each process that was asked for this returns, with the path of its settings."""
    while True:
        with contextlib.suppress(ChildProcessError):
            while os.waitpid(-1, os.WNOHANG)[0]:
                continue
        request, descriptors, _, _ = socket.recv_fds(control, _LONGEST, 2)
        if not request:
            sys.exit()
        child = os.fork()
        if child == 0:
            break
        process = os.pidfd_open(child)
        socket.send_fds(control, [str(child).encode()], [process])
        for one in (*descriptors, process):
            os.close(one)
    control.close()
    os.setsid()
    operator, log = descriptors
    for number, one in ((0, operator), (1, log), (2, log)):
        os.dup2(one, number)
    for one in descriptors:
        os.close(one)
    return Path(os.fsdecode(request))


if __name__ == "__main__":
    gc.collect()
    gc.freeze()
    settings = asked(socket.socket(fileno=int(sys.argv[1])))
    asyncio.run(serve(load(settings)))
