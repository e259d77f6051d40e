"""Every recorded stream in the front ends' dialects, before their own validators."""

import json
import subprocess
from pathlib import Path
from typing import Any

import pytest
from ag_ui_validate.pytest_plugin import validate_agui, validate_agui_endpoint
from ag_ui_validate.transport import default_run_agent_input

from app.events import RefusalDelta, Status, TextDelta
from tests.dialects.streams import recordings
from tests.judges.folder import package
from tests.judges.recorded import WAYS, played, rendered
from tests.needs import program
from tests.serving import serve_relay

pytestmark = pytest.mark.proving

SCRIPT = Path(__file__).with_name("front_ends.mjs")
ROWS = recordings()


def chunks(
    client_format: str, row: dict[str, Any], way: tuple[float, Status | None]
) -> tuple[str, Any]:
    """Return the text of the answer, and what a client is sent."""
    events = played(row, part=way[0], status=way[1])
    found = [json.loads(m.data) for m in rendered(client_format, events) if m.data != "[DONE]"]
    said = (TextDelta, RefusalDelta)  # which has no place of its own there
    return "".join(e.text for e in events if isinstance(e, said) and e.choice == 0), found


@pytest.mark.parametrize(
    ("judge", "client_format"), [("ai", "ui"), ("ai6", "ui"), ("ag-ui", "ag_ui")]
)
def test_their_own_code_finds_nothing_wrong(judge: str, client_format: str) -> None:
    node = program("node")
    for name in ("rxjs", "@ag-ui/client", "@ag-ui/core") if judge == "ag-ui" else ("rxjs", judge):
        package(name)
    rows = [row for parameter in ROWS if isinstance(row := parameter.values[0], dict)]
    if not rows:
        pytest.skip("no recorded streams")
    asked = [(row["file"], way, *chunks(client_format, row, way)) for row in rows for way in WAYS]
    streams = json.dumps([stream for *_, stream in asked])
    done = subprocess.run(
        [node, str(SCRIPT), judge], input=streams, capture_output=True, text=True, check=True
    )

    found = json.loads(done.stdout)
    assert len(asked) == len(found)
    assert [] == [
        (file, way, one)
        for (file, way, text, _), one in zip(asked, found, strict=True)
        if one != {"wrong": [], "text": text}
    ]


@pytest.mark.parametrize("row", ROWS)
def test_ag_ui_validate_finds_nothing_wrong(row: dict[str, Any]) -> None:
    for way in WAYS:
        _, sent = chunks("ag_ui", row, way)
        report = validate_agui(sent)
        found = [(d.rule, d.message) for d in report.diagnostics if d.severity != "info"]
        if way[1] == "cancelled":
            # A run may only finish when its calls have ended, and what was stopped is no JSON.
            found = [(rule, message) for rule, message in found if rule != "AGUI204"]
        assert [] == found
        assert [] == report.internal_errors


@pytest.mark.parametrize("model", ["demo", "demo-reasoning", "demo-tools"])
async def test_ag_ui_validate_finds_nothing_wrong_on_the_wire(model: str) -> None:
    async with serve_relay() as relay:
        run = {**default_run_agent_input(), "forwardedProps": {"model": model}}
        report = await validate_agui_endpoint(f"{relay.url}/v1/ag-ui", input=run)

    assert [] == [(d.rule, d.message) for d in report.diagnostics if d.severity != "info"]
    assert report.event_count > 3
