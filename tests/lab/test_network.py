"""Networks of the lab: made, removed, and made again; swept where their process was killed."""

import signal
import subprocess
import sys
from pathlib import Path

import pytest

from lab import network

pytestmark = pytest.mark.lab


def test_a_network_can_be_made_anew_as_soon_as_it_was_removed() -> None:
    for _ in range(10):
        with network.Network(isolated=True) as made:
            place = made.add_place()
            subprocess.run([*place.inside, "true"], check=True)


LEAVES = """
import time
from lab.network import Network

network = Network(isolated=True)
print(network.add_place().inside[-1], flush=True)
time.sleep(100)
"""


def test_the_network_of_a_killed_process_is_swept_and_no_other() -> None:
    with network.Network(isolated=True) as made:
        place = made.add_place()
        command = [sys.executable, "-c", LEAVES]
        with subprocess.Popen(command, cwd=Path(__file__).parents[2], stdout=subprocess.PIPE, text=True) as process:
            assert process.stdout is not None
            left = process.stdout.readline().strip()
            network.remove_stale_networks()
            subprocess.run(["ip", "netns", "exec", left, "true"], check=True)
            process.send_signal(signal.SIGKILL)
        network.remove_stale_networks()
        assert not Path(f"/run/netns/{left}").exists()
        assert not Path(f"/etc/netns/{left}").exists()
        assert not Path(f"/sys/class/net/{left.partition('-')[0]}").exists()
        subprocess.run([*place.inside, "true"], check=True)
