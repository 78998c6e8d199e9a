"""Hints whose commands act on the cluster that was asked, and on no other."""

import pytest

from transom.cli.cluster import add_context_option


@pytest.mark.parametrize(
    ("hint", "named"),
    [
        ("transom resume win-1 -n ns", "transom resume --context prod win-1 -n ns"),
        ("To resume: transom resume --rollout", "To resume: transom resume --context prod --rollout"),
        (
            "transom adopt win-1 --yes --context CONTEXT, or transom adopt --from wmco",
            "transom adopt win-1 --yes --context prod, or transom adopt --context prod --from wmco",
        ),
        ("kubectl describe node a; kubectl logs b", "kubectl --context prod describe node a; kubectl --context prod logs b"),
        ("transom verify host 10.0.0.1", "transom verify host 10.0.0.1"),
        ("transom manifests --part crds", "transom manifests --part crds"),
        ("look at the host", "look at the host"),
    ],
)
def test_commands_name_the_context(hint: str, named: str) -> None:
    assert add_context_option(hint, "prod") == named
    assert add_context_option(hint, None) == hint


def test_a_context_is_quoted_for_a_shell() -> None:
    assert add_context_option("transom pause win-1", "a b;c") == "transom pause --context 'a b;c' win-1"
