"""What the page shows as code for a request, as `static/chat/snippets.js` writes it."""

import json
import subprocess
from pathlib import Path
from typing import Any

from tests.needs import program

ROOT = Path(__file__).parents[2]

WRITE = """
import { SNIPPETS } from './static/chat/snippets.js';
const { request, ...where } = JSON.parse(process.argv[1]);
console.log(JSON.stringify(Object.fromEntries(
  Object.entries(SNIPPETS).map(([name, { write }]) => [name, write(request, where)]))));
"""

AWKWARD = "It's \"quoted\": `$HOME` \\n $(id) \\\\'\n\t</script> ${1} %s {0} \u2028せせらぎ🏞️ '''"

CONVERSATION: list[dict[str, Any]] = [
    {"role": "user", "content": AWKWARD},
    {"role": "assistant", "content": "Earlier"},
    {
        "role": "user",
        "content": [
            {"type": "image_url", "image_url": {"url": "data:image/png;base64,iVBORw0KGgo="}},
            {"type": "text", "text": AWKWARD * 3},
        ],
    },
]
"""What is hard to quote, in one way or another."""


def write_code(
    messages: list[dict[str, Any]],
    base: str,
    *,
    keyed: bool,
    stream: str = "",
    format: str = "native",
    **rest: Any,
) -> dict[str, str]:
    """Return a request as code, by the snippet's name; `stream` is read again in `format`."""
    where = {"base": base, "keyed": keyed, "stream": stream, "format": format}
    given = {"request": {**rest, "messages": messages}, **where}
    words = (program("node"), "--input-type=module", "--eval", WRITE, "--", json.dumps(given))
    done = subprocess.run(words, cwd=ROOT, capture_output=True, text=True, check=True)
    written: dict[str, str] = json.loads(done.stdout)
    return written
