"""The demo's Japanese."""

import re

from .phrases import Phrases, Variant


def _begins(pattern: str) -> re.Pattern[str]:
    return re.compile(rf"\s*(?:{pattern})")


_CURL = """\
ターミナルからは、次のように呼び出せます。

```sh
curl -N localhost:8000/v1/chat \\
  -H 'content-type: application/json' \\
  -d '{"messages": [{"role": "user", "content": "やあ"}]}'
```"""

_CLIENT = """\
ブラウザーでは、付属の `seseragi.js` を使うのが手軽です。

```js
import { chat } from '/static/seseragi.js';

for await (const { event } of chat({ messages })) {
  if (event.type === 'text.delta') output.append(event.text);
}
```"""

_EVENT_SOURCE = """\
ストリームを読み直すだけなら、`EventSource` で足ります。

```js
const source = new EventSource(`/v1/streams/${id}/events`);
source.addEventListener('text.delta', (message) => {
  output.append(JSON.parse(message.data).text);
});
source.addEventListener('stream.end', () => source.close());
```"""

JAPANESE = Phrases(
    greetings=(
        (_begins("おはよう|お早う"), "おはようございます！☀️"),
        (_begins("こんばんは|今晩は"), "こんばんは！🌙"),
        (_begins("こんにちは|こんにちわ|今日は[！!。]|やあ|どうも"), "こんにちは！👋"),
        (_begins("はじめまして|初めまして"), "はじめまして！😊"),
        (_begins("ありがとう|有難う|有り難う|サンキュー"), "どういたしまして！😊"),
        (_begins("さようなら|さよなら|またね|バイバイ"), "またお話ししましょう！👋"),
    ),
    turn="この会話では {turn} 通目のメッセージですね。",
    ordinal=str,
    variants=(
        Variant(
            intro="Seseragi に組み込まれたデモがお答えします 🌊 モデルは動いていません。"
            "用意してある文章を、本物と同じトークンのストリームとしてお届けしています。",
            quote="いただいたメッセージは「{quote}」でした。",
            points="画面を作りながら、次のことを試してみてください。\n\n"
            "- **再読み込み**：途中で読み込み直しても、続きから届きます\n"
            "- **停止**：表示だけでなく、生成そのものが止まります\n"
            "- **別のモデル**：`demo-drop` なら途中で切れます",
            code=_CURL,
            closing="それでは、どうぞごゆっくり 🍃",
        ),
        Variant(
            intro="こちらは Seseragi リレーのデモです ✨ "
            "裏でモデルが動いているわけではありませんが、言葉は本物のプロバイダーと同じ形式で、少しずつ流れてきます。",
            quote="「{quote}」とお書きになりましたね。",
            points="確かめておくと安心なことが三つあります。\n\n"
            "1. 届いた文字がすぐに表示されるか\n"
            "2. 👩‍💻 や 🇯🇵 のような絵文字が崩れないか\n"
            "3. 接続が切れたことが画面でわかるか",
            code=_CLIENT,
            closing="よい画面ができますように 🎏",
        ),
        Variant(
            intro="Seseragi のデモです 🐟 API キーもネットワークも必要なく、モデルもありません。"
            "あらかじめ書かれた文章を、数文字ずつ流しています。",
            quote="「{quote}」というメッセージ、たしかに受け取りました。",
            points="ほかにも仲間がいます。\n\n"
            "- `demo-reasoning`：考えてから答えます 🤔\n"
            "- `demo-tools`：ツールを呼び出します 🔧\n"
            "- `demo-slow`：ゆっくり答えます 🐢",
            code=_EVENT_SOURCE,
            closing="いつでもまた話しかけてください 💧",
        ),
    ),
    brief="Seseragi に組み込まれたデモです 🌊 モデルがないので作業はできませんが、"
    "「{quote}」というメッセージはたしかに届き、この返事も無事に流れています。",
    no_tool="Seseragi に組み込まれたデモです 🌊 いただいたメッセージは「{quote}」でした。"
    "ツールはどれも、名前からすると何かを変えるもののようです。"
    "デモが自分から呼び出すことはありません。`tool_choice` で指定すれば呼び出します。",
    title="デモ：{quote}",
    reasoning="ユーザーのメッセージは「{quote}」。まず、何語で答えるかを決める。"
    "かなか漢字が入っているので、日本語がよさそうだ。次に、自分は何者か。"
    "モデルのないデモなのだから、それらしく振る舞うより、正直にそう伝えたほうがいい。"
    "相手はおそらく画面を作っている人で、思考が答えと分かれて表示されるかを見たいのだろう。"
    "自己紹介、引用、短い箇条書き、コードの例。この順に書けば十分だ。",
    slow="お待たせしました 🐢 モデルのない Seseragi のデモ、`demo-slow` です。"
    "「{quote}」に、ゆっくりお答えしています。待っている間の表示を確かめてみてください。",
    cities=("東京", "京都"),
    results="ツールの結果が届きました ✅\n\n{results}\n\n"
    "本物のモデルなら、ここから答えを組み立てます。"
    "デモにはモデルがないので、届いた内容をそのままお見せしています。",
    result=("- `", "`："),
    paragraph="【{number}】",
    sentences=(
        "山の奥で、岩の間から最初のひとしずくが落ちます。",
        "しずくはやがて細い筋になり、苔の上を音もなく滑っていきます。",
        "朝の光が差すと、水面は小さな鏡を並べたようにきらめきます ✨ ",
        "せせらぎの音は、急ぐ人の足どりさえ少しゆるめてくれます。",
        "石にぶつかった水は、形を変えながらも先へ進みます。",
        "メダカの群れが、影のように浅瀬を横切っていきました 🐟 ",
        "橋のたもとでは、子どもたちが笹舟を流して競争しています。",
        "雨上がりには流れが速くなり、水音もいちだんと高くなります。",
        "落ち葉が一枚、くるりと回って岸に寄りました 🍂 ",
        "沢が一つ合わさるたびに、川は少しずつ広くなります。",
        "水車はゆっくりと回り、昼下がりの時を刻んでいます。",
        "夕暮れどき、川面は空の茜色に染まります 🌇 ",
        "カワセミが、青い線を引くように飛び去りました。",
        "夏の夜には、蛍が水辺の草むらをほのかに照らします。",
        "流れは後戻りせず、途切れることもありません。",
        "やがて風に潮の香りが混じり、遠くに海が見えてきます 🌊 ",
    ),
)
