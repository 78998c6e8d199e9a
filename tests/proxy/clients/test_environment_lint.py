"""What is wrong with a whole environment, and for whom."""

import pytest

from transom.proxy.clients.environment_lint import lint_environment, read_environment_text

PROXY = "http://proxy.corp.example:3128"
BOTH = dict.fromkeys(("http_proxy", "https_proxy", "HTTP_PROXY", "HTTPS_PROXY"), PROXY)
LIST = {"no_proxy": "localhost", "NO_PROXY": "localhost"}
CASES = [
    # environment, variable, level, a client that is named
    ({"HTTP_PROXY": PROXY, "https_proxy": PROXY, "HTTPS_PROXY": PROXY, **LIST}, "HTTP_PROXY", "warning", "curl"),
    ({**BOTH, "NO_PROXY": "localhost"}, "NO_PROXY", "warning", "wget"),
    ({**BOTH, "NO_PROXY": "localhost"}, "NO_PROXY", "warning", "grpc-core"),
    ({**BOTH, "no_proxy": "localhost"}, "no_proxy", "warning", "fabric8"),
    ({**BOTH, "no_proxy": "", "NO_PROXY": "localhost"}, "NO_PROXY", "warning", "urllib"),
    ({**BOTH, "no_proxy": "a.example", "NO_PROXY": "localhost"}, "NO_PROXY", "warning", "go"),
    ({**BOTH, "http_proxy": "proxy:3128", **LIST}, "http_proxy", "error", "undici-8"),
    ({"http_proxy": PROXY, "HTTP_PROXY": PROXY, **LIST}, "https_proxy", "warning", "go"),
    ({**BOTH, "https_proxy": "http://u:p%40@proxy:3128", **LIST}, "https_proxy", "note", "axios"),
    ({**BOTH, "https_proxy": "http://u:p@proxy:3128", **LIST}, "https_proxy", "note", "kubernetes-python"),
]


@pytest.mark.parametrize(("environment", "variable", "level", "client"), CASES)
def test_finding(environment, variable, level, client):
    found = [
        item for item in lint_environment(environment) if item.item == variable and item.position == 0 and item.level == level
    ]
    assert any(client in item.clients for item in found)


@pytest.mark.parametrize("environment", [{**BOTH, **LIST}, {}, {"PATH": "/usr/bin"}])
def test_nothing_to_say(environment):
    assert lint_environment(environment) == []


def test_a_list_is_judged_too():
    found = lint_environment({**BOTH, "no_proxy": "a.example,,b.example", "NO_PROXY": "a.example,,b.example"})
    assert ("", 2, "error") in {(item.item, item.position, item.level) for item in found}


def test_without_a_list():
    assert [(item.item, item.level) for item in lint_environment(BOTH)] == [("NO_PROXY", "warning")]


def test_no_value_of_a_variable_is_told():
    found = lint_environment({**BOTH, "http_proxy": "http://u:hunter2%40@p:1", "HTTPS_PROXY": "hunter2:1", **LIST})
    assert found
    assert "hunter2" not in repr(found)


def test_text_of_env():
    text = "PATH=/bin\nhttp_proxy=http://p:1\nexport NO_PROXY='a,b'\nMULTI=one\ntwo\n"
    assert read_environment_text(text) == {"http_proxy": "http://p:1", "NO_PROXY": "a,b"}
