"""`python -m tests.support.forking SOCKET`: imports Transom's commands once, and forks a process for each that is asked for.

A request is JSON (arguments, environment, directory) with three descriptors: output, errors, and one where the process's id and
its exit code are written, as two integers.
"""

import atexit
import gc
import importlib
import json
import os
import pkgutil
import signal
import socket
import struct
import sys
import threading
from typing import NoReturn

from lab.forking import requested

import transom.cli
from transom.__main__ import main
from transom.cli.program import COMMANDS, command

WORD = struct.Struct("=i")
_LARGEST = 1 << 18


def serve(control: socket.socket) -> None:
    """In each process that was asked for this returns, and the program goes on from there."""
    # Ctrl-C is for those who asked
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    request, (output, errors, told) = requested(control, _LARGEST, 3)
    child = os.fork()
    if child != 0:
        os.close(output)
        os.close(errors)
        os.write(told, WORD.pack(child))
        _, status = os.waitpid(child, 0)
        os.write(told, WORD.pack(os.waitstatus_to_exitcode(status)))
        os._exit(0)
    os.close(told)
    for number, one in ((1, output), (2, errors)):
        os.dup2(one, number)
        os.close(one)
    asked = json.loads(request)
    os.chdir(asked["directory"])
    os.environ.clear()
    os.environ.update(asked["environment"])
    # by these a program tells its name
    program = sys.modules["__main__"] = sys.modules["transom.__main__"]
    sys.argv = [str(program.__file__), *asked["arguments"]]
    signal.signal(signal.SIGINT, signal.default_int_handler)


def end(code: int) -> NoReturn:
    """End as Python does, but do not take apart what was imported: each page of it would be copied first, 35 ms of CPU."""
    threading._shutdown()  # type: ignore[attr-defined]
    atexit._run_exitfuncs()
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(code)


if __name__ == "__main__":
    for module in pkgutil.iter_modules(transom.cli.__path__, "transom.cli."):
        importlib.import_module(module.name)
    for name in (None, *COMMANDS):
        command(name)
    gc.collect()
    gc.freeze()
    serve(socket.socket(fileno=int(sys.argv[1])))
    try:
        main()
    except SystemExit as ended:
        if isinstance(ended.code, int | None):
            end(ended.code or 0)
        raise
