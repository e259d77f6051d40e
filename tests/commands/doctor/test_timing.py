"""Arrival times, programs and URLs are judged without a clock and without a network."""

import re
from pathlib import Path

import httpx2
import pytest

from app.commands import doctor
from app.commands.doctor.command import ADVICE, advise
from app.commands.doctor.path import Hop, from_page, from_reply
from app.commands.doctor.streaming import are_held
from app.commands.doctor.wire import Reply, parse_url, read_frames

pytestmark = pytest.mark.pure

FOLDER = Path(doctor.__file__).parent

EVEN = [0.25 + 0.025 * n for n in range(80)]
HELD = {
    "evenly": (EVEN, False),
    "joined in pairs": ([EVEN[n - n % 2] for n in range(80)], False),
    "one stall of this machine": ([max(at, 1.0) for at in EVEN], False),
    "at the end": ([2.3] * 80, True),
    "at the end, over a slow line": ([2.3 + 0.005 * n for n in range(80)], True),
    "every fifth of a second": ([at - at % 0.2 + 0.2 for at in EVEN], True),
    "every tenth": ([at - at % 0.1 + 0.1 for at in EVEN], True),
    "every tenth, in uneven groups": (
        [at - at % 0.1 + 0.1 + 0.006 * (n % 40 == 7) for n, at in enumerate(EVEN)], True,
    ),
    "every twentieth": ([at - at % 0.05 + 0.05 for at in EVEN], False),
    "too slowly": ([at * 3 - at * 3 % 0.5 for at in EVEN], False),
    "too few to say": ([2.3] * 5, False),
    "none": ([], False),
}  # fmt: skip


@pytest.mark.parametrize("name", HELD)
def test_what_is_held_back_is_told_from_what_is_not(name):
    times, held = HELD[name]

    assert held == are_held(times)


@pytest.mark.parametrize(
    "body",
    [
        b"event: a\ndata: {}\nid: s.1\n\n",
        b": hb\nevent: a\ndata: {}\nid: s.1\n\n",
        b"event: a\r\ndata: {}\r\n\r\n",
        b"event:a\ndata:{}\n\n\n",
    ],
)
def test_every_split_of_a_body_is_read_the_same(body):
    whole = read_frames([(0, body)])
    bytewise = read_frames([(0, body[n : n + 1]) for n in range(len(body))])

    assert whole == bytewise
    assert ["a"] == [frame.fields["event"] for frame in whole.frames]


def test_every_code_has_advice_for_any_program():
    source = "".join(file.read_text("utf-8") for file in FOLDER.glob("*.py"))
    calls = re.findall(r"session\.(?:wrong|note)\(\s*\"(\w+)\"", source)

    assert set(calls) == set(ADVICE)
    assert all("any" in table for table in ADVICE.values())


def test_advice_is_for_those_who_are_there():
    hops = [Hop("nginx", "nginx/1.22.1", "server"), Hop("varnish", "varnish", "via")]

    assert ["nginx", "varnish"] == [hop.program for hop, _ in advise("buffered", hops) if hop]
    assert [None] == [hop for hop, _ in advise("stop", hops)]


@pytest.mark.parametrize(
    ("headers", "programs"),
    [
        ({"server": "nginx/1.22.1"}, ["nginx"]),
        ({"server": "cloudflare", "cf-ray": "1", "via": "1.1 varnish"}, ["cloudflare", "varnish"]),
        ({"server": "awselb/2.0"}, ["alb"]),
        ({"via": "1.1 vegur"}, ["heroku"]),
        ({"via": "1.1 abc.cloudfront.net (CloudFront)"}, ["cloudfront"]),
        ({"server": "Apache/2.4.71 (Debian)"}, ["apache"]),
        ({"x-vercel-id": "fra1::1"}, ["vercel"]),
        ({"x-envoy-upstream-service-time": "3", "server": "istio-envoy"}, ["envoy"]),
        ({"x-request-id": "nginx"}, []),
    ],
)
def test_programs_are_known_by_what_they_say(headers, programs):
    reply = Reply("GET /", 0, status=200, headers=httpx2.Headers(headers))

    assert programs == [hop.program for hop in from_reply(reply)]


def test_programs_are_known_by_their_error_pages():
    haproxy = (
        b"<html><body><h1>400 Bad request</h1>\nYour browser sent an invalid request.\n</body>"
    )
    nginx = (
        b"<html><center><h1>400 Bad Request</h1></center><hr><center>nginx/1.22.1</center></html>"
    )

    assert ["haproxy"] == [hop.program for hop in from_page(haproxy)]
    assert ["nginx/1.22.1"] == [hop.shown for hop in from_page(nginx)]
    assert [] == from_page(b'{"detail":"nginx"}')


def test_urls():
    assert "https://a.example/llm/" == str(parse_url("a.example/llm/"))
    assert "http://[::1]:8000" == str(parse_url("http://[::1]:8000"))
    for text in ("ftp://a", "http://", "https://a/?x=1", "http://u:p@a/"):
        with pytest.raises(ValueError, match=r"URL|alone"):
            parse_url(text)
