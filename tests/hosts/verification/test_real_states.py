"""How the tests of a real host read the state of a service, whatever the language of the host."""

import pytest
from tests.hosts.real import parse_state
from tests.winsim.consoles import console

from winsim import Host
from winsim.editions import SERVER_2022, Edition


@pytest.mark.parametrize("language", ["English", "German", "Japanese"])
async def test_a_state_is_read_in_each_language(language: str) -> None:
    host = Host("WIN-1", edition=Edition(SERVER_2022.product, SERVER_2022.build, language))  # type: ignore[arg-type]
    host.add_service("recorder-a")
    await host.boot()
    assert parse_state((await console(host, "sc.exe query recorder-a")).output) == "RUNNING"
    host.services.stop("recorder-a")
    assert parse_state((await console(host, "sc.exe query recorder-a")).output) == "STOPPED"
    assert parse_state((await console(host, "sc.exe query nobody")).output) == ""
