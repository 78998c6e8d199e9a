"""What is asked of groups at the same time is asked once, for all."""

import asyncio
from typing import Any

import pytest

from transom.kube.api_versions import ApiGroups
from transom.kube.errors import ConnectionFailed, NotFound


async def test_one_answer_is_for_all_as_long_as_it_is_young() -> None:
    asked: list[str] = []

    async def get_json(path: str) -> Any:
        asked.append(path)
        await asyncio.sleep(0)
        return {"kind": "APIGroupList", "groups": [{"name": "apps"}]}

    groups = ApiGroups(get_json)
    wanted = ("apps", "cluster.x-k8s.io", "config.openshift.io", "")
    assert await asyncio.gather(*(groups.has_group(group, 3600) for group in wanted)) == [True, False, False, True]
    assert asked == ["/apis"]
    assert not await groups.has_group("cluster.x-k8s.io", -1)
    assert asked == ["/apis", "/apis"]


async def test_where_nobody_can_tell_the_kind_itself_is_asked_for() -> None:
    answers: list[Any] = [ConnectionFailed("refused"), ["no", "groups"], {"groups": None}]

    async def get_json(path: str) -> Any:
        answer = answers.pop(0)
        if isinstance(answer, Exception):
            raise answer
        return answer

    groups = ApiGroups(get_json)
    assert await groups.has_group("apps", 3600)
    assert await groups.has_group("apps", 3600)
    assert not await groups.has_group("apps", 3600)


async def test_who_asks_at_the_same_time_shares_the_answer_and_who_comes_later_asks_anew() -> None:
    asked: list[str] = []
    answering = asyncio.Event()

    async def get_json(path: str) -> Any:
        asked.append(path)
        number = len(asked)
        await answering.wait()
        if path == "/apis/absent":
            raise NotFound(404, "NotFound", path)
        return number

    groups = ApiGroups(get_json)
    one, other, *absent = (
        asyncio.ensure_future(groups.fetch_shared_json(path)) for path in ("/apis/a", "/apis/a", *["/apis/absent"] * 2)
    )
    await asyncio.sleep(0)
    one.cancel()
    answering.set()
    assert await other == 1
    for task in absent:
        with pytest.raises(NotFound):
            await task
    assert asked == ["/apis/a", "/apis/absent"]
    assert await groups.fetch_shared_json("/apis/a") == 3
