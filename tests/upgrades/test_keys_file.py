"""Keys files of earlier formats are read; what only a later version writes is told of."""

import json

import pytest

from app.identity.keys import Keys
from app.identity.keys_file import KeysFile, KeysUnusable, change_keys_file, read_keys_file
from app.identity.tokens import Tokens
from tests.clock import StoppedClock
from tests.upgrades.make import FORMATS, KEY, SIGNING_KEY

pytestmark = pytest.mark.pure

FIXTURES = sorted(FORMATS.glob("keys-*.json"))


@pytest.fixture(params=FIXTURES, ids=lambda file: file.stem)
def path(request, tmp_path):
    copy = tmp_path / "keys.json"
    copy.write_bytes(request.param.read_bytes())
    copy.chmod(0o600)
    return copy


async def test_keys_of_an_earlier_format_stay_valid_with_their_tokens(path):
    clock = StoppedClock(1_796_000_000.0)
    keys = Keys([], path, clock=clock)
    principal = await keys.verify(KEY)
    assert principal is not None
    assert ("web", "acme", ("demo*",)) == (principal.key, principal.tenant, principal.models)
    assert 1 == principal.key_limits.usd_per_day
    earlier = Tokens(SIGNING_KEY, find_key=keys.find, clock=clock)
    now = Tokens(SIGNING_KEY, file=keys, find_key=keys.find, clock=clock)
    secret = earlier.make_client_secret(principal, user="ann", expires_at=clock.now + 60)
    user = await now.verify(secret)
    assert user is not None
    assert "ann" == user.user


def test_file_that_nobody_rotated_is_written_as_before(path):
    before = json.loads(path.read_bytes())
    change_keys_file(path, lambda file: file or KeysFile())
    assert before == json.loads(path.read_bytes())


@pytest.mark.parametrize("place", ["file", "key"])
def test_file_of_a_newer_version_is_told(path, place):
    content = json.loads(path.read_bytes())
    (content if place == "file" else content["keys"][0])["later"] = 1
    path.write_text(json.dumps(content))
    with pytest.raises(KeysUnusable, match=r"`later`.*a newer version may have written"):
        read_keys_file(path)
