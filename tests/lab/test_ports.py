"""Ports that servers are told."""

import socket
import subprocess
import sys
from pathlib import Path

from lab.ports import PORTS, reserve


def test_no_port_is_given_twice_nor_one_that_the_kernel_gives_away() -> None:
    given = [reserve() for _ in range(200)]
    assert len(set(given)) == len(given)
    ephemeral = int(Path("/proc/sys/net/ipv4/ip_local_port_range").read_text().split()[0])
    assert max(given) < PORTS.stop <= ephemeral


def test_what_a_process_has_no_other_gets_until_it_ends() -> None:
    program = "from lab.ports import reserve; print(reserve(), flush=True); input()"
    with subprocess.Popen([sys.executable, "-c", program], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as other:
        assert other.stdout
        assert other.stdin
        port = int(other.stdout.readline())
        assert reserve(wanted=port) != port
        other.stdin.write("\n")
    assert reserve(wanted=port) == port
    assert reserve(wanted=port) != port


def test_a_port_with_a_server_is_not_given() -> None:
    with socket.socket() as server:
        server.bind(("127.0.0.1", reserve()))
        server.listen()
        port = server.getsockname()[1]
        program = f"from lab.ports import reserve; print(reserve(wanted={port}))"
        other = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert int(other.stdout) != port
