"""The prepared texts of the demo, in English and Japanese.

`{quote}` and `{results}` stand for text of the request; each template has at most one of them, so
that the user's own words are never taken for a placeholder.
"""

from typing import Final, NamedTuple


class Texts(NamedTuple):
    """The texts of one language."""

    usual: str
    brief: str
    """For agents, which may act on code: one paragraph without any."""
    slow: str
    title: str
    reasoning: str
    results: str
    cities: tuple[str, str]
    river: tuple[str, ...]
    """Lines of the story that the page's show asks for; `demo-long` repeats them."""
    space: str
    """Between two sentences."""
    prompts: dict[str, tuple[str, str]]
    """The answers, and the reasoning if there is any, to the prompts of static/chat/prompts.js."""


_CODE: Final = """\
```js
import { chat } from '/static/seseragi.js';

for await (const { event } of chat({ model: 'demo', messages })) {
  if (event.type === 'text.delta') output.append(event.text);
}
```"""

_RIVER: Final = (
    "High in the mountains, a **first drop** falls between two rocks.",
    "Drop by drop it becomes a thread that slips over the moss.",
    "The morning light turns the thread into a row of mirrors ✨",
    "It meets a stone, changes its shape and carries on all the same.",
    "A school of small fish crosses the shallows 🐟",
    "Another brook comes in from the left, and the voice grows deeper.",
    "Children on a bridge let boats of bamboo leaf race each other.",
    "The water wheel turns, and counts the hours of the afternoon.",
    "After the rain the current is faster, its song *a tone higher*.",
    "A kingfisher flies off and leaves a blue line in the air.",
    "Now it is a river, and slow, and carries the sky 🌇",
    "Fireflies light up the reeds on both banks.",
    "Under the last bridge there is salt in the wind.",
    "It never turned back, it never broke off: **the sea** 🌊",
)
_RIVER_JA: Final = (
    "山の奥で、岩の間から**最初のひとしずく**が落ちます。",
    "しずくは細い筋になり、苔の上を音もなく滑っていきます。",
    "朝の光が差すと、小さな鏡を並べたようにきらめきます ✨",
    "石にぶつかり、形を変えながらも先へ進みます。",
    "メダカの群れが、影のように浅瀬を横切りました 🐟",
    "左から沢が一つ合わさり、水の声が少し低くなります。",
    "橋のたもとで、子どもたちが笹舟を競わせています。",
    "水車がゆっくりと回り、昼下がりの時を刻みます。",
    "雨上がりの流れは速く、水音も*いちだんと高く*なります。",
    "カワセミが、青い線を引くように飛び去りました。",
    "もう大きな川です。ゆったりと空を映しています 🌇",
    "夏の夜には、蛍が両岸の草むらを照らします。",
    "最後の橋をくぐると、風に潮の香りが混じります。",
    "後戻りせず、途切れることもなく、**海**です 🌊",
)

ENGLISH: Final = Texts(
    usual=f"""\
Hello! 👋 This is the built-in demo of the Seseragi relay 🌊 No model is running: the words are \
prepared, but they really travel to you as a stream of tokens.

You wrote: “{{quote}}”.

While you build your page, try this:

- **Reload** halfway: the stream goes on where it broke.
- **Stop**: the generation itself ends, not only the display.
- **Another model**: `demo-drop` breaks in the middle of an emoji such as 👩‍💻.

In a browser, `seseragi.js` reads the stream:

{_CODE}""",
    brief="This is the built-in demo of the Seseragi relay 🌊 There is no model behind it, so it "
    "can do no work; but your message “{quote}” arrived, and so did this answer.",
    slow="Thank you for waiting 🐢 This is `demo-slow` of the Seseragi relay, without a model. "
    "“{quote}” deserves an unhurried answer: use the time to check your spinner.",
    title="Demo: {quote}",
    reasoning="The user wrote “{quote}”. First, the language: I see no kana and no kanji, so "
    "English it is. Next, who am I? A demo without a model, and it is better to say so plainly "
    "than to pretend. The reader is probably building a page and wants to see thoughts apart "
    "from the answer. So: say what this is, quote the words, give a short list and some code.",
    results="The tools have answered ✅\n\n{results}\n\nA model would now turn this into an answer "
    "of its own. The demo has none, so it shows the results as they came.",
    cities=("Tokyo", "Kyoto"),
    river=_RIVER,
    space=" ",
    prompts={
        "How do server-sent events work?": (
            """\
**Server-sent events** are one long HTTP response, to which the server adds frames:

| field | meaning |
|:--|:--|
| `event` | the name that `addEventListener` takes |
| `data` | the payload, here one line of JSON |
| `id` | where to resume after a cut |

```js
const source = new EventSource(`/v1/streams/${id}/events`);
source.addEventListener('text.delta', ({ data }) => output.append(JSON.parse(data).text));
source.addEventListener('stream.end', () => source.close());
```

1. A blank line ends a frame.
2. After a cut the browser sends `Last-Event-ID`, and the server resumes **behind it**.

> A prepared answer; no model is running 🌊""",
            "",
        ),
        "What can Seseragi do that a plain fetch cannot?": (
            f"""\
A plain `fetch` can read a stream. What it cannot do is **lose** one and go on:

| | plain `fetch` | Seseragi |
|:--|:-:|:-:|
| shows tokens as they come | ✅ | ✅ |
| goes on after a cut or a reload | ❌ | ✅ |
| is read in two tabs, generated once | ❌ | ✅ |
| keeps the provider's key from the page | ❌ | ✅ |

Try it here, while an answer runs:

- [x] send a prompt
- [ ] press **Cut the connection**, and watch the ids go on without a gap
- [ ] reload the page in the middle of a sentence

{_CODE}

This is a prepared answer of the demo; no model is running ✨""",
            "",
        ),
        "What does “seseragi” mean? Use emoji.": (
            """\
**Seseragi** (せせらぎ) is Japanese for a small, clear stream, and for the sound of it 🏞️

- 🪨 behind each stone the water folds in *bubbles*, and every bubble rings
- 🐟 killifish, river crabs and kingfishers live along it

> Tokens should arrive **without losing a drop** 💧

(A prepared answer; no model is running.)""",
            "",
        ),
        "A farmer, a wolf, a goat and a cabbage: how do they cross the river?": (
            """\
**It takes seven crossings.** The goat can stay with nobody, so it travels most:

1. 🐐 over
2. nobody back
3. 🐺 over
4. 🐐 **back**, which is the trick
5. 🥬 over
6. nobody back
7. 🐐 over

(Prepared, thoughts included: the demo has no model.)""",
            "A farmer, a wolf, a goat and a cabbage; the boat takes the farmer and one more. Left "
            "alone, the wolf eats the goat, and the goat the cabbage. Only the wolf and the "
            "cabbage may stay together, so the goat goes first. Whatever follows, the goat may "
            "not stay with it: it has to come back. Then the other one, and the goat last. Seven.",
        ),
        "Take your time: what makes a stream murmur?": (
            "Bubbles 🫧 A stream folds air under itself at each stone, and every *bubble* rings "
            "for a moment. (Prepared, and slow on purpose.)",
            "",
        ),
        "Follow a river from its source to the sea, line by line.": (
            "\n".join(f"{number}. {line}" for number, line in enumerate(_RIVER, 1)),
            "",
        ),
    },
)

JAPANESE: Final = Texts(
    usual=f"""\
こんにちは！👋 Seseragi に組み込まれたデモです 🌊 モデルは動いていません。\
用意してある文章を、本物と同じトークンのストリームとしてお届けしています。

いただいたメッセージは「{{quote}}」でした。

画面を作りながら、次のことを試してみてください。

- **再読み込み**：途中で読み込み直しても、続きから届きます
- **停止**：表示だけでなく、生成そのものが止まります
- **別のモデル**：`demo-drop` なら 👩‍💻 のような絵文字の途中で切れます

ブラウザーでは、付属の `seseragi.js` で読めます。

{_CODE}""",
    brief="Seseragi に組み込まれたデモです 🌊 モデルがないので作業はできませんが、"
    "「{quote}」というメッセージはたしかに届き、この返事も無事に流れています。",
    slow="お待たせしました 🐢 モデルのない Seseragi のデモ、`demo-slow` です。"
    "「{quote}」に、ゆっくりお答えしています。待っている間の表示を確かめてみてください。",
    title="デモ：{quote}",
    reasoning="ユーザーのメッセージは「{quote}」。まず、何語で答えるかを決める。"
    "かなか漢字が入っているので、日本語がよさそうだ。次に、自分は何者か。"
    "モデルのないデモなのだから、それらしく振る舞うより、正直にそう伝えたほうがいい。"
    "相手はおそらく画面を作っている人で、思考が答えと分かれて表示されるかを見たいのだろう。"
    "自己紹介、引用、短い箇条書き、コードの例。この順に書けば十分だ。",
    results="ツールの結果が届きました ✅\n\n{results}\n\n"
    "本物のモデルなら、ここから答えを組み立てます。"
    "デモにはモデルがないので、届いた内容をそのままお見せしています。",
    cities=("東京", "京都"),
    river=_RIVER_JA,
    space="",
    prompts={
        "サーバー送信イベントはどのように動きますか？": (
            """\
**サーバー送信イベント（SSE）** は、閉じずに続く HTTP 応答です。サーバーがフレームを書き足します。

| フィールド | 役割 |
|:--|:--|
| `event` | `addEventListener` で待つ名前 |
| `data` | 中身。ここでは一行の JSON |
| `id` | 切れたあと、どこから続けるか |

```js
const source = new EventSource(`/v1/streams/${id}/events`);
source.addEventListener('text.delta', ({ data }) => output.append(JSON.parse(data).text));
source.addEventListener('stream.end', () => source.close());
```

1. フレームは空行で終わります
2. 切れると `Last-Event-ID` を付けて再接続し、その**続きから**届きます

> 用意してある答えです。モデルは動いていません 🌊""",
            "",
        ),
        "ただの fetch と何が違いますか？": (
            f"""\
ただの `fetch` でもストリームは読めます。できないのは、**切れたあとに続けること**です。

| | ただの `fetch` | Seseragi |
|:--|:-:|:-:|
| 届いたトークンから表示する | ✅ | ✅ |
| 切れても、再読み込みしても続く | ❌ | ✅ |
| 二つのタブで読んで、生成は一度 | ❌ | ✅ |
| プロバイダーの鍵をページに渡さない | ❌ | ✅ |

答えが流れている間に、試してみてください。

- [x] 質問を送る
- [ ] **接続を切る**を押して、番号が抜けずに続くのを見る
- [ ] 文の途中で再読み込みする

{_CODE}

これはデモが用意している答えで、モデルは動いていません ✨""",
            "",
        ),
        "せせらぎについて、絵文字もまじえて教えてください。": (
            """\
**せせらぎ**は、浅い川の水が石の間を流れる音、またその流れのことです 🏞️

- 🪨 石にあたった水が*泡*を抱きこみ、泡がふるえて音になります
- 🐟 メダカや沢ガニ、カワセミが暮らしています

> トークンが、**一滴も失われずに**届くように 💧

（用意してある答えです。モデルは動いていません。）""",
            "",
        ),
        "農夫とオオカミとヤギとキャベツは、どうやって川を渡りますか？": (
            """\
**答えは七回です。** だれとも残せないのはヤギなので、ヤギがいちばん多く舟に乗ります。

1. 🐐 渡る
2. 一人で戻る
3. 🐺 渡る
4. 🐐 **戻る**。ここがかぎです
5. 🥬 渡る
6. 一人で戻る
7. 🐐 渡る

（考えも答えも用意してあるもので、モデルは動いていません。）""",
            "農夫とオオカミ、ヤギ、キャベツ。舟には農夫のほかに一つしか乗らない。"
            "目を離すと、オオカミはヤギを、ヤギはキャベツを食べる。"
            "一緒に残せるのはオオカミとキャベツだけ。ならば最初に渡すのはヤギ。"
            "次に渡したものとヤギは残せないので、ヤギを連れて戻る。"
            "それから残りの一つを渡し、最後にもう一度ヤギ。数えると、七回。",
        ),
        "ごゆっくり。川はなぜせせらぐのでしょう？": (
            "泡です 🫧 水は石を越えるたびに空気を抱きこみ、その*泡*がふるえて音になります。"
            "（用意した答えを、わざとゆっくり流しています。）",
            "",
        ),
        "源から海まで、川の流れを一行ずつたどってください。": (
            "\n".join(f"{number}. {line}" for number, line in enumerate(_RIVER_JA, 1)),
            "",
        ),
    },
)


def _plain(words: str) -> str:
    """Drop case, spaces and punctuation, which people type differently."""
    return "".join(character for character in words.casefold() if character.isalnum())


_PROMPTS: Final = {
    _plain(prompt): answer
    for texts in (ENGLISH, JAPANESE)
    for prompt, answer in texts.prompts.items()
}
_LONGEST: Final = 2 * max(len(prompt) for texts in (ENGLISH, JAPANESE) for prompt in texts.prompts)


def prepared_for(words: str) -> tuple[str, str] | None:
    """Return the answer and the reasoning prepared for a prompt of the page, or None."""
    return _PROMPTS.get(_plain(words)) if len(words) <= _LONGEST else None
