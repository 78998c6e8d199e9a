"""`python -m lab.sshd.forking SOCKET`: imports the SSH server once, and forks one for each machine that asks.

To start Python and import it is 0.28 s of the 0.33 s of CPU that a server's start costs. A request is the path of the settings
with two descriptors, standard input and the log; the answer is the server's process id, with a descriptor of the process.
"""

import asyncio
import gc
import os
import socket
import sys
from pathlib import Path

from lab.forking import wait_for_request
from lab.sshd.server import serve
from lab.sshd.settings import load

_LONGEST = 4096


def wait_for_settings(control: socket.socket) -> Path:
    """Wait for requests; return the path of the settings in each forked process."""

    def send_process(child: int) -> None:
        process = os.pidfd_open(child)
        socket.send_fds(control, [str(child).encode()], [process])
        os.close(process)

    request, (operator, log) = wait_for_request(control, _LONGEST, 2, send_process)
    os.setsid()
    for number, item in ((0, operator), (1, log), (2, log)):
        os.dup2(item, number)
    for entry in (operator, log):
        os.close(entry)
    return Path(os.fsdecode(request))


if __name__ == "__main__":
    gc.collect()
    gc.freeze()
    settings = wait_for_settings(socket.socket(fileno=int(sys.argv[1])))
    asyncio.run(serve(load(settings)))
    # to take apart what was imported, each page of it would be copied first
    os._exit(0)
