"""What providers say that a call has cost, exact to the nano-USD."""

from typing import Any

import pytest

from app.dialects.openai_chat.upstream.parser import parse_usage
from app.dialects.openai_responses.upstream.parser import parse_usage as parse_responses_usage
from app.dialects.reading.json_values import decode

pytestmark = pytest.mark.pure

BYOK = '"is_byok": true, "cost_details": {"upstream_inference_cost": 0.879694}'


@pytest.mark.parametrize("parse", [parse_usage, parse_responses_usage])
@pytest.mark.parametrize(
    ("said", "cost"),
    [
        ('"cost": 0.0000893', "0.0000893"),
        ('"cost": 0', "0"),
        ('"cost": 1.5e-8', "0.000000015"),
        ('"cost": 0.00010600000000000001', "0.000106"),
        ('"cost": 99.123456789', "99.123456789"),
        ('"cost": 0.0000893, "is_byok": false, "cost_details": {"upstream_inference_cost": 1}', "0.0000893"),
        (f'"cost": 0.0439847, {BYOK}', "0.9236787"),
        ('"cost": 0.0439847, "is_byok": true', None),
        ('"cost": {"input_tokens_cost": 0.00001, "total_cost": 0.00501}', "0.00501"),
        *((f'"cost": {wrong}', None) for wrong in ("-1", "1e9", "1e999", "1" + "0" * 400, "-1" + "0" * 400, "NaN", '"0.1"', "true", "null", "[1]", "{}")),
    ],
)  # fmt: skip
def test_the_cost_is_the_decimal_number_that_was_sent(parse: Any, said: str, cost: str | None):
    counts = parse(decode("{" + said + "}"))
    assert (cost, None if cost is None else "provider") == (counts.cost, counts.cost_from)
