"""transom no-proxy check and lint, as users and machines call them."""

import json

import pytest
from tests.proxy.clients import corpus
from typer.testing import CliRunner

from transom.cli.commands.no_proxy import no_proxy

run = CliRunner().invoke


def test_check_without_client_fits_a_hundred_columns():
    result = run(
        no_proxy, ["check", "https://a.corp.example/", "http://10.1.2.3/", "--no-proxy", "corp.example,[::1],10.0.0.0/8"]
    )
    assert result.exit_code == 0
    assert max(map(len, result.stdout.splitlines())) <= 100
    assert "\x1b" not in result.stdout
    for word in ("BYPASS", "Python", "Node", "httpx", "corp.example"):
        assert word in result.stdout


def test_check_for_machines():
    result = run(no_proxy, ["check", "http://a.corp.example/", "--no-proxy", ".corp.example", "--client", "go", "-o", "json"])
    assert json.loads(result.stdout) == [
        {
            "client": "go",
            "url": "http://a.corp.example/",
            "bypass": True,
            "item": ".corp.example",
            "reason": "a.corp.example is below corp.example",
            "versions": "Go net/http 1.23.7 to 1.23, 1.24.1 or later",
        }
    ]


def test_check_by_the_name_of_a_program():
    result = run(no_proxy, ["check", "http://10.1.2.3/", "--no-proxy", "10.0.0.0/8", "--client", "boto3", "-o", "json"])
    (answer,) = json.loads(result.stdout)
    assert (answer["client"], answer["bypass"], answer["versions"]) == ("boto3", False, "Python urllib 3.11")


def test_check_with_a_whole_environment():
    environment = "HTTP_PROXY=http://u:hunter2@p:1\nNO_PROXY=corp.example\n"
    arguments = ["check", "http://corp.example/", "--env", "-", "--client", "go", "--client", "curl", "--client", "fabric8"]
    result = run(no_proxy, [*arguments, "-o", "json"], input=environment)
    assert [load["item"] for load in json.loads(result.stdout)] == ["corp.example", None, "corp.example"]
    assert "hunter2" not in result.stdout


def test_cases_come_back_in_order_with_their_fields():
    answers = []
    for file in (corpus.OBSERVED, corpus.OBSERVED_2):
        result = run(no_proxy, ["check", "--cases", str(file)])
        assert result.exit_code == 0
        answers += [json.loads(line) for line in result.stdout.splitlines()]
    assert [answer["id"] for answer in answers] == [row["id"] for row in corpus.rows()]
    wrong = [answer["id"] for answer, row in zip(answers, corpus.rows(), strict=True) if answer["bypass"] is not row["bypass"]]
    assert len(wrong) <= len(answers) * 0.005
    assert all(answer["reason"] for answer in answers)


def test_a_case_whose_client_fails_is_null():
    line = json.dumps({"client": "httpx", "no_proxy": "::/0", "url": "http://corp.example/", "mine": 1})
    result = run(no_proxy, ["check", "--cases", "-"], input=line + "\n\n")
    answer = json.loads(result.stdout)
    assert answer["bypass"] is None
    assert answer["mine"] == 1


BAD_CASES = [
    ("{bad", "line 2: not a JSON object"),
    ("[]", "line 2: not a JSON object"),
    ('{"client":"go"}', "line 2: Object missing required field `url`"),
    ('{"client":"go","url":7}', "line 2: Expected `str`, got `int`"),
    ('{"client":"go","url":"http://x/","env":{"a":1}}', "line 2: Expected `str`, got `int`"),
    ('{"client":"go","url":"x"}', "line 2: 'x' is not a valid URL"),
    ('{"client":"curll","url":"http://x/"}', "line 2: unknown client 'curll'; the nearest are curl"),
    ('{"client":"go","url":"http://x/","syntax":"pac"}', "line 2: unknown syntax 'pac'"),
    ('{"client":"go","url":"http://x/","syntax":"ProxyOverride"}', "line 2: client go reads NO_PROXY, not ProxyOverride"),
]


@pytest.mark.parametrize(("line", "message"), BAD_CASES)
def test_a_bad_case_is_named(line, message):
    good = '{"client":"go","url":"http://x/"}'
    result = run(no_proxy, ["check", "--cases", "-"], input=f"{good}\n{line}\n")
    assert result.exit_code == 2
    assert message in result.stderr
    assert result.stdout == ""


def test_a_case_that_is_not_utf8():
    result = run(no_proxy, ["check", "--cases", "-"], input=b'{"client":"go","url":"http://x\xff/"}\n')
    assert result.exit_code == 2
    assert "line 1" in result.stderr


BAD_USES = [
    (["check", "http://x/", "--client", "curll"], "the nearest are curl"),
    (["check", "http://x/", "--client", "qqq"], "the clients are libcurl"),
    (["check", "x.example"], "'x.example' is not a valid URL"),
    (["check"], "no URL"),
    (["check", "--cases", "no/such/file"], "no/such/file: No such file"),
    (["check", "http://x/", "--cases", "-"], "--cases brings its own"),
    (["lint", "a", "--client", "wininet"], "reads ProxyOverride"),
    (["lint", "a", "--client", "java"], "reads no NO_PROXY"),
    (["lint", "a", "--client", "g0"], "unknown client 'g0'"),
    (["lint", "a", "--client", "fabrik8"], "fabric8"),
    (["lint", "a", "--client", "kubernetes-client-java"], "reads no NO_PROXY"),
    (["lint"], "give either a list or --env"),
    (["lint", "a", "--env", "-"], "give either a list or --env"),
    (["check", "http://x/", "--env", "-", "--no-proxy", "a"], "--env has the list in it"),
    (["check", "http://x/", "--env", "no/such/file"], "no/such/file: No such file"),
]


@pytest.mark.parametrize(("arguments", "message"), BAD_USES)
def test_bad_use(arguments, message):
    result = run(no_proxy, arguments)
    assert result.exit_code == 2
    assert message in result.stderr


def test_lint_for_machines():
    result = run(no_proxy, ["lint", "10.1.2.3,*.corp.example", "--client", "curl", "-o", "json"])
    assert result.exit_code == 1
    found = {load["clients"][0]: load for load in json.loads(result.stdout)}
    assert set(found) == {"curl", "fabric8"}
    assert found["curl"] == {
        "item": "*.corp.example",
        "position": 2,
        "clients": ["curl"],
        "problem": "it is ignored",
        "instead": ".corp.example",
        "level": "error",
        "versions": {"curl": "curl 7.87 to 8.8"},
    }


@pytest.mark.parametrize(("value", "code"), [("10.0.0.0/8", 0), ("2.3", 1), ("*.corp.example", 1), ("*", 0)])
def test_lint_ends_with_1_for_errors_and_warnings(value, code):
    result = run(no_proxy, ["lint", value, "-o", "json"])
    assert result.exit_code == code
    assert json.loads(result.stdout)


def test_lint_for_all_clients():
    result = run(no_proxy, ["lint", "corp.example,.corp.example,fd00::/108", "--client", "all", "-o", "json"])
    assert result.exit_code == 1
    assert any(load["level"] == "error" and "httpx" in load["clients"] for load in json.loads(result.stdout))


def test_lint_of_an_environment():
    result = run(no_proxy, ["lint", "--env", "-", "-o", "json"], input="HTTP_PROXY=http://u:hunter2@p:1\nno_proxy=a,,b\n")
    assert result.exit_code == 1
    found = json.loads(result.stdout)
    assert {"HTTP_PROXY", "https_proxy", ""} <= {item["item"] for item in found}
    assert "hunter2" not in result.stdout


def test_lint_finds_nothing():
    result = run(no_proxy, ["lint", "corp.example,.corp.example", "-o", "json"])
    assert (result.exit_code, json.loads(result.stdout)) == (0, [])


def test_lint_as_a_table():
    result = run(no_proxy, ["lint", "*.corp.example,10.0.0.0/8,<local>"])
    assert result.exit_code == 1
    assert max(map(len, result.stdout.splitlines())) <= 100
    assert "no safer form" in result.stdout
    assert "leave it out" in result.stdout
