"""Parser of a guardrail's trace: its verdicts without the matched text.

A trace quotes the masked or blocked text, and the model's original output
[bedrock/converse-guardrail]. Readers of the answer must not receive that, so only the fields
in `SHOWN` of each finding are emitted.
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
    "type",
    "name",
    "action",
    "detected",
    "confidence",
    "filterStrength",
    "threshold",
    "score",
)


def parse_trace(builder: EventBuilder, trace: dict[str, Any]) -> None:
    """Emit the verdicts on the prompt and on the answer."""
    inputs = mapping(trace.get("inputAssessment")).values()
    builder.content_filter(0, "prompt", _categories(list(inputs)))
    listed = mapping(trace.get("outputAssessments")).values()
    outputs = [one for several in listed for one in mappings(several)]
    builder.content_filter(0, "completion", _categories(outputs))


def _categories(assessments: list[Any]) -> dict[str, Any]:
    findings: dict[str, list[dict[str, Any]]] = {}
    for assessment in assessments:
        for policy in POLICIES:
            for found in mapping(mapping(assessment).get(policy)).values():
                for item in mappings(found):
                    fields = {key: item[key] for key in SHOWN if _is_plain(item.get(key))}
                    findings.setdefault(policy, []).append(fields)
    return {
        policy: {
            "filtered": any(item.get("action", "NONE") != "NONE" for item in items),
            "findings": items,
        }
        for policy, items in findings.items()
    }


def _is_plain(value: object) -> bool:
    return isinstance(value, str | int | float)
