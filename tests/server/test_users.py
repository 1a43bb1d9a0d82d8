from __future__ import annotations

import asyncio
import base64
import time

import bcrypt
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pulsed.lane import LaneFull
from pulsed.present.asgi import Client
from pulsed.server.users import KEPT, MAX_PER_CLIENT, Users


def hashed(password: bytes, prefix: str = "2b", cost: int = 4) -> str:
    return bcrypt.hashpw(password[:72], bcrypt.gensalt(cost)).decode().replace("$2b$", f"${prefix}$")


def basic(name: str, password: bytes) -> bytes:
    return b"Basic " + base64.b64encode(name.encode() + b":" + password)


ALICE = {"alice": hashed(b"hunter2")}


@pytest.mark.parametrize("prefix", ["2a", "2b", "2x", "2y"])
async def test_the_right_password_of_every_kind_of_bcrypt(prefix: str) -> None:
    users = Users({"alice": hashed(b"hunter2", prefix)})
    assert await users.check(basic("alice", b"hunter2"), Client())
    assert not await users.check(basic("alice", b"hunter3"), Client())


@pytest.mark.parametrize(
    ("name", "password"),
    [
        ("älice", b"hunter2"),
        ("alice", b""),
        ("alice", b"with:colons:"),
        ("alice", b"p" * 100),
        ("alice", "pässwörd".encode()),
    ],
)
async def test_names_and_passwords_of_every_kind(name: str, password: bytes) -> None:
    users = Users({name: hashed(password)})
    assert await users.check(basic(name, password), Client())
    assert not await users.check(basic(name, password[:-1] + b"?"), Client()) or len(password) > 72


async def test_an_unknown_user_is_refused() -> None:
    users = Users(ALICE)
    for name in ("bob", "", "Alice", "alice\0"):
        assert not await users.check(basic(name, b"hunter2"), Client()), name


@pytest.mark.parametrize(
    "header",
    [
        b"",
        b"Basic",
        b"Basic ",
        b"Basic !!!",
        b"Basic YWxpY2U=",
        b"Bearer x",
        b"Digest a=b",
        b"Basic YWxpY2U6aHVudGVyMg",
    ],
)
async def test_a_header_that_is_not_basic_authentication_is_refused(header: bytes) -> None:
    assert not await Users(ALICE).check(header, Client())


@pytest.mark.parametrize("scheme", [b"basic ", b"BASIC ", b"Basic   "])
async def test_the_scheme_is_taken_in_any_case(scheme: bytes) -> None:
    assert await Users(ALICE).check(scheme + base64.b64encode(b"alice:hunter2"), Client())


@given(st.binary(max_size=60))
def test_any_header_has_an_answer(header: bytes) -> None:
    async def check() -> bool:
        return await Users(ALICE).check(header, Client())

    assert asyncio.run(check()) is False


async def test_an_answer_is_remembered_and_no_password_is() -> None:
    users = Users(ALICE)
    right, wrong = basic("alice", b"hunter2"), basic("alice", b"wrong")
    assert users.cached(right) is None
    await users.check(right, Client())
    await users.check(wrong, Client())
    assert users.cached(right) is True
    assert users.cached(wrong) is False
    kept = repr(vars(users))
    assert "hunter2" not in kept
    assert base64.b64encode(b"alice:hunter2").decode() not in kept


async def test_wrong_passwords_push_no_right_one_out() -> None:
    users = Users(ALICE)
    right = basic("alice", b"hunter2")
    await users.check(right, Client())
    for number in range(KEPT + 10):
        await users.check(basic("alice", b"%d" % number), Client())
    assert users.cached(right) is True
    assert users.cached(basic("alice", b"0")) is None, "the oldest is forgotten"


async def test_a_name_that_nobody_has_costs_what_a_known_one_does() -> None:
    """At a cost where bcrypt is all there is to measure: the work must be done, whoever asks."""
    users = Users({"alice": hashed(b"hunter2", cost=10), "bob": hashed(b"x")})
    seconds = {}
    for name in ("alice", "nobody"):
        begun = time.process_time()
        assert not await users.check(basic(name, b"wrong"), Client())
        seconds[name] = time.process_time() - begun
    assert seconds["nobody"] > seconds["alice"] / 4


async def test_the_same_login_is_worked_out_once_and_a_crowd_is_sent_away() -> None:
    users = Users({"alice": hashed(b"hunter2", cost=8)})
    right = basic("alice", b"hunter2")
    answers = await asyncio.gather(
        *(users.check(right, Client("scraper")) for _ in range(MAX_PER_CLIENT + 6)), return_exceptions=True
    )
    assert answers[: MAX_PER_CLIENT + 1] == [True] * (MAX_PER_CLIENT + 1)
    assert [type(answer) for answer in answers[MAX_PER_CLIENT + 1 :]] == [LaneFull] * 5
    assert await users.check(right, Client("scraper"))


async def test_a_flood_of_wrong_passwords_delays_the_login_of_another_client_by_a_few_checks() -> None:
    users = Users({"alice": hashed(b"hunter2", cost=8)})
    flood = [asyncio.ensure_future(users.check(basic("alice", b"%d" % each), Client("flood"))) for each in range(1000)]
    await asyncio.sleep(0)
    assert await users.check(basic("alice", b"hunter2"), Client("scraper"))
    assert sum(each.done() and each.exception() is None for each in flood) <= MAX_PER_CLIENT + 1
    ends = await asyncio.gather(*flood, return_exceptions=True)
    assert sum(end is False for end in ends) >= MAX_PER_CLIENT
    assert {type(end) for end in ends} == {bool, LaneFull}
