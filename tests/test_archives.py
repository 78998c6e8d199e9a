"""Archives that a stranger made are read within limits of memory, whatever their headers say."""

import io
import tarfile
import zipfile
from pathlib import Path

import pytest
from tests.support.event_loop import measure_cost
from tests.support.hostile_files import HOSTILE_ARCHIVES, NAME, build_tar

from transom.common import archives
from transom.http.downloads import DownloadError
from transom.sources.payload_build import _DownloadTask
from transom.windows.payload.payload import PayloadFile


@pytest.mark.parametrize("name", HOSTILE_ARCHIVES)
def test_a_hostile_archive_is_refused_within_bounds(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    # the real limits take seconds of unpacking
    monkeypatch.setattr(archives, "MAX_UNPACKED", 256 << 20)
    monkeypatch.setattr(archives, "MAX_MEMBER", 64 << 20)
    file = tmp_path / "sha"
    file.write_bytes(HOSTILE_ARCHIVES[name]())
    url = f"https://downloads.example/{name}"
    wanted = _DownloadTask(url, [PayloadFile("C:\\k\\kubelet.exe", url=url, member=NAME)], None, tmp_path)
    with measure_cost() as cost, pytest.raises(DownloadError, match=name):
        wanted._extract_members(file)
    assert cost.growth < 48 << 20
    assert [path.name for path in tmp_path.iterdir()] == ["sha"]


@pytest.mark.parametrize("name", ["kit.tar.gz", "kit.zip"])
def test_an_honest_archive_is_read(name: str, tmp_path: Path) -> None:
    file = tmp_path / "sha"
    if name.endswith(".zip"):
        out = io.BytesIO()
        with zipfile.ZipFile(out, "w") as packed:
            packed.writestr(NAME, b"program")
        file.write_bytes(out.getvalue())
    else:
        file.write_bytes(build_tar((tarfile.TarInfo("other"), b"1"), (tarfile.TarInfo(f"./{NAME}"), b"program")))
    url = f"https://downloads.example/{name}"
    wanted = _DownloadTask(url, [PayloadFile("C:\\k\\kubelet.exe", url=url, member=NAME)], None, tmp_path)
    sha256 = wanted._extract_members(file)[NAME]
    assert (tmp_path / sha256).read_bytes() == b"program"
