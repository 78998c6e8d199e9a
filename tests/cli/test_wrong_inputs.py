"""About a hundred mistakes: each is answered with its place, with what to do, and with the right exit code."""

from pathlib import Path

import pytest
from tests.cli.wrong_capi_inputs import CAPI_ROWS
from tests.cli.wrong_inputs import ROWS, Row
from tests.support.command import run


@pytest.mark.parametrize("row", (*ROWS, *CAPI_ROWS), ids=lambda row: row.name.replace(" ", "-"))
def test_a_mistake_is_named_with_its_remedy(row: Row, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    monkeypatch.setenv("COLUMNS", "200")
    directory = tmp_path / "given"
    directory.mkdir()
    for name, text in row.files.items():
        (directory / name).write_bytes(text if isinstance(text, bytes) else text.encode())
    ran = run(*(part.replace("{d}", str(directory)) for part in row.command))
    said = " ".join((ran.out + ran.err).split())
    assert ran.code == row.code, said
    assert [text for text in row.told if text.replace("{d}", str(directory)) not in said] == [], said
    assert "Traceback" not in said
    assert "hunter2" not in said


def test_there_are_about_a_hundred() -> None:
    assert len({row.name for row in (*ROWS, *CAPI_ROWS)}) == len((*ROWS, *CAPI_ROWS)) >= 100
