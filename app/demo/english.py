"""The demo's English."""

import re

from .phrases import Phrases, Variant


def _ordinal(number: int) -> str:
    if number % 100 in (11, 12, 13):
        return f"{number}th"
    return f"{number}{({1: 'st', 2: 'nd', 3: 'rd'}).get(number % 10, 'th')}"


def _begins(pattern: str) -> re.Pattern[str]:
    return re.compile(rf"\s*(?:{pattern})\b", re.IGNORECASE)


_CURL = """\
The same from a terminal:

```sh
curl -N localhost:8000/v1/chat \\
  -H 'content-type: application/json' \\
  -d '{"messages": [{"role": "user", "content": "Hi"}]}'
```"""

_CLIENT = """\
In a browser, `seseragi.js` does the reading for you:

```js
import { chat } from '/static/seseragi.js';

for await (const { event } of chat({ messages })) {
  if (event.type === 'text.delta') output.append(event.text);
}
```"""

_EVENT_SOURCE = """\
To read a stream again, a plain `EventSource` will do:

```js
const source = new EventSource(`/v1/streams/${id}/events`);
source.addEventListener('text.delta', (message) => {
  output.append(JSON.parse(message.data).text);
});
source.addEventListener('stream.end', () => source.close());
```"""

ENGLISH = Phrases(
    greetings=(
        (_begins("good morning"), "Good morning! ☀️"),
        (_begins("good (?:evening|night)"), "Good evening! 🌙"),
        (_begins("hi|hello|hey|good (?:day|afternoon)|greetings"), "Hello! 👋"),
        (_begins("thanks?(?: you)?|cheers"), "You are welcome! 😊"),
        (_begins("bye|goodbye|see you"), "Goodbye, and come back soon! 👋"),
    ),
    turn="This is your {turn} message in this conversation.",
    ordinal=_ordinal,
    variants=(
        Variant(
            intro="This is the built-in demo of the Seseragi relay 🌊 There is no model behind it: "
            "the words are prepared, but they really travel to you as a stream of tokens.",
            quote="You wrote: “{quote}”.",
            points="While you build your page, you may want to try this:\n\n"
            "- **Reload** halfway: the stream goes on where it broke.\n"
            "- **Stop**: the generation itself ends, not only the display.\n"
            "- **Another model**: `demo-drop` breaks in the middle.",
            code=_CURL,
            closing="Enjoy the sound of the water 🍃",
        ),
        Variant(
            intro="You are talking to the demo of the Seseragi relay ✨ No model is running, only "
            "a small stand-in that sends its text piece by piece, just as a provider would.",
            quote="“{quote}”, you said, and I am glad to repeat it.",
            points="Three things are worth a look:\n\n"
            "1. Does the page keep up with every token?\n"
            "2. Do emoji such as 👩‍💻 and 🇯🇵 arrive in one piece?\n"
            "3. Does it say so when the connection is lost?",
            code=_CLIENT,
            closing="Happy building! 🎏",
        ),
        Variant(
            intro="Seseragi's demo here 🐟 I need no API key and no network, and I have no model "
            "either: what you read is a prepared text, cut into tokens.",
            quote="Your message, “{quote}”, came through loud and clear.",
            points="I have some relatives:\n\n"
            "- `demo-reasoning` thinks before it answers 🤔\n"
            "- `demo-tools` calls your tools 🔧\n"
            "- `demo-slow` takes its time 🐢",
            code=_EVENT_SOURCE,
            closing="Write again whenever you like 💧",
        ),
    ),
    brief="This is the built-in demo of the Seseragi relay 🌊 There is no model behind it, so it "
    "can do no work; but your message “{quote}” came through, and so did this answer.",
    no_tool="This is the built-in demo of the Seseragi relay 🌊 You wrote: “{quote}”. All of your "
    "tools change something, by their names; the demo calls such a tool only if `tool_choice` "
    "asks for one.",
    title="Demo: {quote}",
    reasoning="The user wrote “{quote}”. First, the language: I see no kana and no kanji, so "
    "English it is. Next, who am I? A demo without a model, and it is better to say so plainly "
    "than to pretend. Whoever asks is probably building a page and wants to see whether thoughts "
    "show up apart from the answer. So: say what this is, quote the words, give a short list and "
    "some code. That should be enough.",
    slow="Thank you for waiting 🐢 This is `demo-slow`, part of the Seseragi demo without a model. "
    "“{quote}” deserves an unhurried answer: use the time to check your spinner.",
    cities=("Tokyo", "Kyoto"),
    results="The tools have answered ✅\n\n{results}\n\nA model would now turn this into an answer "
    "of its own. The demo has none, so it shows you what came in.",
    result=("- `", "`: "),
    paragraph="[{number}] ",
    sentences=(
        "High in the mountains, a first drop of water falls between two rocks. ",
        "Drop by drop it becomes a thread that slips over the moss without a sound. ",
        "When the morning light comes in, the surface glitters like a row of tiny mirrors ✨ ",
        "The murmur of the stream makes even hurried people walk a little slower. ",
        "Water that meets a stone changes its shape and carries on all the same. ",
        "A school of small fish crosses the shallows like a passing shadow 🐟 ",
        "On the bridge, children let boats of bamboo leaf race each other. ",
        "After the rain the current is faster, and its voice a tone higher. ",
        "A single leaf turns around once and comes to rest at the bank 🍂 ",
        "With every brook that joins it, the river grows a little wider. ",
        "The water wheel turns slowly and counts the hours of the afternoon. ",
        "At dusk the whole river takes on the red of the sky 🌇 ",
        "A kingfisher flies off and leaves a blue line in the air. ",
        "On summer nights, fireflies light up the reeds along the water. ",
        "The current never turns back, and it never breaks off either. ",
        "Then there is salt in the wind, and far away the sea comes into view 🌊 ",
    ),
)
