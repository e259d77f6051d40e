"""The texts of the demo, in English and Japanese.

`{quote}` and `{results}` stand for text of the request; each template has at most one of them, so
that the user's own words are never taken for a placeholder.
"""

from typing import Final, NamedTuple


class Texts(NamedTuple):
    """The texts of one language."""

    usual: str
    brief: str
    """For agents, which may act on code, and for `demo-slow`: one paragraph without any."""
    paragraph: str
    """Repeated by `demo-long`."""
    reasoning: str
    results: str
    cities: tuple[str, str]


_CODE: Final = """\
```js
import { chat } from '/static/seseragi.js';

for await (const { event } of chat({ model: 'demo', messages })) {
  if (event.type === 'text.delta') output.append(event.text);
}
```"""

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
    paragraph="High in the mountains, a **first drop** falls between two rocks 🌊 It becomes a "
    "thread that slips over the moss, meets a stone, changes its shape and carries on all the "
    "same. Now it is a river, slow and wide, and never breaks off before **the sea**.",
    reasoning="The user wrote “{quote}”. First, the language: I see no kana and no kanji, so "
    "English it is. Next, who am I? A demo without a model, and it is better to say so plainly "
    "than to pretend. The reader is probably building a page and wants to see thoughts apart "
    "from the answer. So: say what this is, quote the words, give a short list and some code.",
    results="The tools have answered ✅\n\n{results}\n\nA model would now turn this into an answer "
    "of its own. The demo has none, so it shows the results as they came.",
    cities=("Tokyo", "Kyoto"),
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
    paragraph="山の奥で、岩の間から**最初のひとしずく**が落ちます 🌊 しずくは細い筋になり、"
    "苔の上を音もなく滑り、石にぶつかり、形を変えながらも先へ進みます。"
    "もう大きな川です。後戻りせず、途切れることもなく、**海**へ続きます。",
    reasoning="ユーザーのメッセージは「{quote}」。まず、何語で答えるかを決める。"
    "かなか漢字が入っているので、日本語がよさそうだ。次に、自分は何者か。"
    "モデルのないデモなのだから、それらしく振る舞うより、正直にそう伝えたほうがいい。"
    "相手はおそらく画面を作っている人で、思考が答えと分かれて表示されるかを見たいのだろう。"
    "自己紹介、引用、短い箇条書き、コードの例。この順に書けば十分だ。",
    results="ツールの結果が届きました ✅\n\n{results}\n\n"
    "本物のモデルなら、ここから答えを組み立てます。"
    "デモにはモデルがないので、届いた内容をそのままお見せしています。",
    cities=("東京", "京都"),
)
