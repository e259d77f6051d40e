"""Answers to the prompts that the relay's own page suggests.

A demo has no model, but what it is asked by that page is known beforehand. Each text says
that it was prepared, and shows what a page has to draw: lists, tables, code, emphasis.
"""

from typing import Final, NamedTuple


class Prepared(NamedTuple):
    """What is said to one prompt."""

    text: str
    reasoning: str = ""
    """For the model that thinks first."""


_EVENTS = """\
**Server-sent events** are one long HTTP response. The server keeps it open and writes \
a frame whenever there is something to say:

```http
HTTP/1.1 200 OK
content-type: text/event-stream

event: text.delta
data: {"type":"text.delta","block":0,"text":"Hello"}
id: st_4fJ9qXw0V1cT8mYbR2nZkQ.3
```

| field | what it is for |
|:--|:--|
| `event` | the name that `addEventListener` waits for |
| `data` | the payload, here one line of JSON |
| `id` | where to go on after a cut |
| `retry` | how long to wait before that, in milliseconds |

A browser reads them with a few lines:

```js
const source = new EventSource(`/v1/streams/${id}/events`);
source.addEventListener('text.delta', ({ data }) => {
  output.append(JSON.parse(data).text); // one token, as it comes
});
source.addEventListener('stream.end', () => source.close());
```

Three things to know:

1. A blank line ends a frame; half a frame is *never* handed over.
2. After a cut the browser comes back with `Last-Event-ID`, and the server goes on **behind it**.
3. It is plain HTTP, so that proxies, cookies and compression work as ever.

> No model wrote this: the demo has prepared answers to the prompts of this page 🌊"""

_EVENTS_JA = """\
**サーバー送信イベント（SSE）** は、閉じずに続く一つの HTTP 応答です。伝えることができるたびに、\
サーバーがフレームを書き足します。

```http
HTTP/1.1 200 OK
content-type: text/event-stream

event: text.delta
data: {"type":"text.delta","block":0,"text":"こんにちは"}
id: st_4fJ9qXw0V1cT8mYbR2nZkQ.3
```

| フィールド | 役割 |
|:--|:--|
| `event` | `addEventListener` で待つ名前 |
| `data` | 中身。ここでは一行の JSON |
| `id` | 切れたあと、どこから続けるか |
| `retry` | 再接続までの時間（ミリ秒） |

ブラウザーでは数行で読めます。

```js
const source = new EventSource(`/v1/streams/${id}/events`);
source.addEventListener('text.delta', ({ data }) => {
  output.append(JSON.parse(data).text); // 届いたトークンをそのまま
});
source.addEventListener('stream.end', () => source.close());
```

覚えておきたいことは三つです。

1. フレームは空行で終わり、半端なフレームは**渡されません**
2. 切れると `Last-Event-ID` を付けて再接続し、その**続きから**届きます
3. ただの HTTP なので、プロキシも Cookie も圧縮もそのまま使えます

> モデルが書いた文章ではありません。この画面の質問には、デモが答えを用意しています 🌊"""

_FETCH = """\
A plain `fetch` can read a stream. What it cannot do is **lose** one and go on:

| | plain `fetch` | Seseragi |
|:--|:-:|:-:|
| shows tokens as they come | ✅ | ✅ |
| goes on after a cut | ❌ | ✅ |
| survives a reload | ❌ | ✅ |
| is read in two tabs, generated once | ❌ | ✅ |
| knows a cut from an end | ❌ | ✅ |
| keeps the provider's key from the page | ❌ | ✅ |

Try it here, while an answer runs:

- [x] send a prompt
- [ ] press **Cut the connection**, and watch the ids go on without a gap
- [ ] reload the page in the middle of a sentence
- [ ] open a **Second tab**

```js
import { chat } from '/static/seseragi.js';

for await (const { id, event } of chat({ model: 'demo', messages })) {
  if (event.type === 'text.delta') output.append(event.text); // each once, in order
}
```

This is a prepared answer of the demo; no model is running ✨"""

_FETCH_JA = """\
ただの `fetch` でもストリームは読めます。できないのは、**切れたあとに続けること**です。

| | ただの `fetch` | Seseragi |
|:--|:-:|:-:|
| 届いたトークンから表示する | ✅ | ✅ |
| 切れても続きから読む | ❌ | ✅ |
| 再読み込みしても続く | ❌ | ✅ |
| 二つのタブで読んで、生成は一度 | ❌ | ✅ |
| 切断と終わりを区別する | ❌ | ✅ |
| プロバイダーの鍵をページに渡さない | ❌ | ✅ |

答えが流れている間に、試してみてください。

- [x] 質問を送る
- [ ] **接続を切る**を押して、番号が抜けずに続くのを見る
- [ ] 文の途中で再読み込みする
- [ ] **二つ目のタブ**を開く

```js
import { chat } from '/static/seseragi.js';

for await (const { id, event } of chat({ model: 'demo', messages })) {
  if (event.type === 'text.delta') output.append(event.text); // 一度ずつ、順番どおりに
}
```

これはデモが用意している答えで、モデルは動いていません ✨"""

_MURMUR_JA = """\
**せせらぎ**は、浅い川の水が石の間を流れる音、またその流れのことです 🏞️

- 🪨 石にあたった水が**泡**を抱きこみ、泡がふるえて音になります
- 🍃 春は雪どけで高く、夏は木陰で*涼しげ*に聞こえます
- 🐟 メダカや沢ガニ、カワセミが暮らしています
- 📖 古くは「せせらき」とも言い、和歌にも詠まれました

> 石走る　垂水の上の　さわらびの
> 萌え出づる春に　なりにけるかも
> ― 志貴皇子『万葉集』

このリレーの名前でもあります。トークンが、一滴も失われずに届くように 💧

（用意してある答えです。モデルは動いていません。）"""

_MURMUR = """\
**Seseragi** (せせらぎ) is Japanese for a small, clear stream, and for the sound of it 🏞️

- 🪨 water folds air into *bubbles* behind each stone, and every bubble rings as it closes
- 🍃 in spring, with the snow, the note is high; in summer it is a whisper under the trees
- 🐟 killifish, river crabs and kingfishers live along it

> The old pond;
> a frog leaps in:
> the sound of water.
> *Bashō*

It is also the name of this relay: tokens should arrive **without losing a drop** 💧

(A prepared answer; no model is running.)"""

_CROSSING = Prepared(
    """\
**It takes seven crossings.** The goat is the one that can stay with nobody, so it travels most:

| | the boat carries | this bank | far bank |
|--:|:--|:--|:--|
| 1 | 🐐 over | 🐺 🥬 | 🐐 |
| 2 | nobody back | 🐺 🥬 | 🐐 |
| 3 | 🐺 over | 🥬 | 🐺 🐐 |
| 4 | 🐐 **back** | 🐐 🥬 | 🐺 |
| 5 | 🥬 over | 🐐 | 🐺 🥬 |
| 6 | nobody back | 🐐 | 🐺 🥬 |
| 7 | 🐐 over | | 🐺 🐐 🥬 |

Step 4 is the trick: to go on, one has to take something *back*.

(Prepared, thoughts included: the demo has no model.)""",
    "A farmer, a wolf, a goat and a cabbage; the boat takes the farmer and one more. Left alone, "
    "the wolf eats the goat, and the goat the cabbage. So the goat must never stay with either. "
    "What may be left together? Only the wolf and the cabbage. Then the goat goes first. Next the "
    "wolf or the cabbage, it does not matter, but whichever it is, the goat may not stay with it: "
    "it has to come back. Then the other one goes over, and the goat last. Let me count: over, "
    "back, over, back, over, back, over. Seven.",
)

_CROSSING_JA = Prepared(
    """\
**答えは七回です。** だれとも残せないのはヤギなので、ヤギがいちばん多く舟に乗ります。

| | 舟に乗るもの | こちらの岸 | むこうの岸 |
|--:|:--|:--|:--|
| 1 | 🐐 渡る | 🐺 🥬 | 🐐 |
| 2 | 一人で戻る | 🐺 🥬 | 🐐 |
| 3 | 🐺 渡る | 🥬 | 🐺 🐐 |
| 4 | 🐐 **戻る** | 🐐 🥬 | 🐺 |
| 5 | 🥬 渡る | 🐐 | 🐺 🥬 |
| 6 | 一人で戻る | 🐐 | 🐺 🥬 |
| 7 | 🐐 渡る | | 🐺 🐐 🥬 |

四回目がかぎです。先へ進むために、一度*連れて戻る*必要があります。

（考えも答えも用意してあるもので、モデルは動いていません。）""",
    "農夫とオオカミ、ヤギ、キャベツ。舟には農夫のほかに一つしか乗らない。"
    "目を離すと、オオカミはヤギを、ヤギはキャベツを食べる。だからヤギはどちらとも残せない。"
    "一緒に残せるのはオオカミとキャベツだけ。ならば最初に渡すのはヤギ。"
    "次はオオカミでもキャベツでもよいが、渡した先にヤギを残せないので、ヤギを連れて戻る。"
    "それから残りの一つを渡し、最後にもう一度ヤギ。数えると、七回。",
)

_SLOW = """\
Bubbles 🫧 Still water is silent; a stream folds air under itself at each stone, and every \
*bubble* rings for a moment. (Prepared, and slow on purpose.)"""

_SLOW_JA = """\
泡です 🫧 水は石を越えるたびに空気を抱きこみ、その*泡*がふるえて音になります。\
（用意した答えを、わざとゆっくり流しています。）"""

_RIVER = """\
1. High in the mountains, a **first drop** falls between two rocks.
2. Drop by drop it becomes a thread that slips over the moss.
3. The morning light turns the thread into a row of mirrors ✨
4. It meets a stone, changes its shape and carries on all the same.
5. A school of small fish crosses the shallows 🐟
6. Another brook comes in from the left, and the voice grows deeper.
7. Children on a bridge let boats of bamboo leaf race each other.
8. The water wheel turns, and counts the hours of the afternoon.
9. After the rain the current is faster, its song *a tone higher*.
10. A kingfisher flies off and leaves a blue line in the air.
11. Now it is a river, and slow, and carries the sky 🌇
12. Fireflies light up the reeds on both banks.
13. Under the last bridge there is salt in the wind.
14. It never turned back, it never broke off: **the sea** 🌊"""

_RIVER_JA = """\
1. 山の奥で、岩の間から**最初のひとしずく**が落ちます。
2. しずくは細い筋になり、苔の上を音もなく滑っていきます。
3. 朝の光が差すと、小さな鏡を並べたようにきらめきます ✨
4. 石にぶつかり、形を変えながらも先へ進みます。
5. メダカの群れが、影のように浅瀬を横切りました 🐟
6. 左から沢が一つ合わさり、水の声が少し低くなります。
7. 橋のたもとで、子どもたちが笹舟を競わせています。
8. 水車がゆっくりと回り、昼下がりの時を刻みます。
9. 雨上がりの流れは速く、水音も*いちだんと高く*なります。
10. カワセミが、青い線を引くように飛び去りました。
11. もう大きな川です。ゆったりと空を映しています 🌇
12. 夏の夜には、蛍が両岸の草むらを照らします。
13. 最後の橋をくぐると、風に潮の香りが混じります。
14. 後戻りせず、途切れることもなく、**海**です 🌊"""

_PREPARED: Final[dict[str, Prepared]] = {
    "How do server-sent events work?": Prepared(_EVENTS),
    "サーバー送信イベントはどのように動きますか？": Prepared(_EVENTS_JA),
    "What can Seseragi do that a plain fetch cannot?": Prepared(_FETCH),
    "ただの fetch と何が違いますか？": Prepared(_FETCH_JA),
    "What does “seseragi” mean? Use emoji.": Prepared(_MURMUR),
    "せせらぎについて、絵文字もまじえて教えてください。": Prepared(_MURMUR_JA),
    "A farmer, a wolf, a goat and a cabbage: how do they cross the river?": _CROSSING,
    "農夫とオオカミとヤギとキャベツは、どうやって川を渡りますか？": _CROSSING_JA,
    "Take your time: what makes a stream murmur?": Prepared(_SLOW),
    "ごゆっくり。川はなぜせせらぐのでしょう？": Prepared(_SLOW_JA),
    "Follow a river from its source to the sea, line by line.": Prepared(_RIVER),
    "源から海まで、川の流れを一行ずつたどってください。": Prepared(_RIVER_JA),
}
_LONGEST: Final = max(map(len, _PREPARED))


def _plain(words: str) -> str:
    """Leave out what people type differently."""
    return "".join(character for character in words.casefold() if character.isalnum())


_BY_WORDS: Final = {_plain(prompt): prepared for prompt, prepared in _PREPARED.items()}


def prepared_for(words: str) -> Prepared | None:
    """Return the answer to a prompt of the page; None for other words."""
    return _BY_WORDS.get(_plain(words)) if len(words) <= 2 * _LONGEST else None
