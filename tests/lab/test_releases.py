"""A clone without the history that a release was made of says what brings it."""

from pathlib import Path

import pytest
from lab.releases import Release, ReleaseError, _unpack


def test_a_commit_that_is_not_in_the_clone_is_named_with_what_brings_it(tmp_path: Path) -> None:
    commit = "0123456789" * 4
    with pytest.raises(ReleaseError, match=rf"commit {commit}.*release 0\.0\.9.*`git fetch --unshallow`"):
        _unpack(Release("0.0.9", commit), tmp_path)
