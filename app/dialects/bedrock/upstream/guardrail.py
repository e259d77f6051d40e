"""What a guardrail's trace says of its verdicts, and not what it found.

A trace quotes what was masked or blocked, and the model's output before it
[bedrock/converse-guardrail]. Whoever reads the answer must not get it that way, so that of
each finding only the fields of `SHOWN` are told.
"""

from typing import Any, Final

from ...reading.event_builder import EventBuilder
from ...reading.json_values import mapping, mappings

POLICIES: Final = (
    "topicPolicy",
    "contentPolicy",
    "wordPolicy",
    "sensitiveInformationPolicy",
    "contextualGroundingPolicy",
)
SHOWN: Final = (
    *("type", "name", "action", "detected", "confidence", "filterStrength"),
    *("threshold", "score"),
)


def parse_trace(builder: EventBuilder, trace: dict[str, Any]) -> None:
    """Report of the verdicts on the prompt and on the answer."""
    given = mapping(trace.get("inputAssessment")).values()
    builder.content_filter(0, "prompt", _categories(list(given)))
    listed = mapping(trace.get("outputAssessments")).values()
    answered = [one for several in listed for one in mappings(several)]
    builder.content_filter(0, "completion", _categories(answered))


def _categories(assessments: list[Any]) -> dict[str, Any]:
    findings: dict[str, list[dict[str, Any]]] = {}
    for assessment in assessments:
        for policy in POLICIES:
            for found in mapping(mapping(assessment).get(policy)).values():
                for item in mappings(found):
                    kept = {key: item[key] for key in SHOWN if _is_plain(item.get(key))}
                    findings.setdefault(policy, []).append(kept)
    return {
        policy: {
            "filtered": any(item.get("action", "NONE") != "NONE" for item in items),
            "findings": items,
        }
        for policy, items in findings.items()
    }


def _is_plain(value: object) -> bool:
    return isinstance(value, str | int | float)
