"""Networks of the lab: made, removed, and made again."""

import subprocess

import pytest

from lab import network

pytestmark = pytest.mark.lab


def test_a_network_can_be_made_anew_as_soon_as_it_was_removed() -> None:
    for _ in range(10):
        with network.Network(isolated=True) as made:
            place = made.place()
            subprocess.run([*place.inside, "true"], check=True)
