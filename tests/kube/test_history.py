"""When answers of a server contradict earlier ones."""

import pytest

from transom.kube.server_history import ServerHistory

HIGHER = ("5", "5", "6", "10", "99", "100")


@pytest.mark.parametrize(
    ("versions", "replaced"),
    [
        (HIGHER, False),
        ((*HIGHER, "99"), True),
        (("100", "20"), True),
        (("9", "10"), False),
        (("7", "", "7"), False),
        (("7", None, "7"), False),
        (("7", "not-a-number", "7"), False),
        (("18446744073709551615", "18446744073709551614"), True),
        ((), False),
    ],
)
def test_versions_of_one_subject_only_grow(versions: tuple[str | None, ...], replaced: bool) -> None:
    history = ServerHistory()
    for version in versions:
        history.observe_version("configmaps", version)
        history.observe_version("secrets", "50")
    assert history.replaced.is_set() is replaced
    assert bool(history.evidence) is replaced


@pytest.mark.parametrize(
    ("uids", "replaced"), [(("a", "a"), False), (("a", "b"), True), (("a", None, "a"), False), ((None, "a", ""), False)]
)
def test_an_object_that_stays_keeps_its_uid(uids: tuple[str | None, ...], replaced: bool) -> None:
    history = ServerHistory()
    for uid in uids:
        history.observe_identity("Lease transom", uid)
    assert history.replaced.is_set() is replaced


def test_it_starts_again_and_keeps_the_first_contradiction() -> None:
    history = ServerHistory()
    for version in ("9", "3", "2"):
        history.observe_version("configmaps", version)
    assert " 3" in history.evidence
    history.reset_history()
    assert (history.replaced.is_set(), history.evidence) == (False, "")
    for version in ("2", "3"):
        history.observe_version("configmaps", version)
    assert not history.replaced.is_set()
    history.observe_version("configmaps", "2")
    assert history.replaced.is_set()


def test_what_a_watch_brought_counts_for_the_next_read() -> None:
    history = ServerHistory()
    history.observe_version("configmaps", "10")
    for version in ("30", "20", None, "x"):
        history.raise_highest_version("configmaps", version)
    assert not history.replaced.is_set()
    history.observe_version("configmaps", "29")
    assert history.replaced.is_set()
