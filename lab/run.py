"""``python -m lab.run``: one Windows machine, until Ctrl-C or until standard input ends. Prints how to reach it."""

from __future__ import annotations

import argparse
import sys

from lab.machine import Machine


def main() -> None:
    """Make, boot, say where it is, wait."""
    arguments = argparse.ArgumentParser(prog="python -m lab.run", description="A Windows machine in Wine, behind SSH.")
    arguments.add_argument("--containerd", action="store_true", help="with the containerd service")
    arguments.add_argument("--shell", choices=["cmd", "powershell"], default="cmd", help="the default shell of its SSH server")
    chosen = arguments.parse_args()
    with Machine(containerd=chosen.containerd, shell=chosen.shell) as machine:
        machine.boot()
        place, ssh = machine.place, machine.ssh
        print(f"address   {place.address}\nport      {place.port}\nuser      {ssh.user}\nkey       {ssh.key}")
        print(f"host key  {ssh.host_key}\ndrive C   {machine.drive}\njournal   {ssh.journal}")
        print(f"ssh -i {ssh.key} -p {place.port} {ssh.user}@{place.address}", flush=True)
        try:
            sys.stdin.read()
        except KeyboardInterrupt:
            print("switching off")


if __name__ == "__main__":
    main()
