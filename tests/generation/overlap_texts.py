"""Twelve kinds of answers, to be cut at every place."""

from typing import Final

ENGLISH: Final = """\
The lighthouse keeper had a rule about the stairs: never count them on the way up. He had broken it \
once, in his first winter, and the number had followed him ever since. There were two hundred and \
six, or two hundred and seven if you believed that that last stone by the door was a step. Nobody \
did. "It is far, far too low," his sister said, and she would know; she had fallen over it twice.

Still, the mama cat slept there. When the wind came from the west the whole tower hummed, a long low \
note, and she would lift her head, look at the sea, look at him, and go to sleep again. He liked \
that. He liked it very, very much. On some nights, when the lamp was clean and the log was written, \
he sat down beside her and thought of all the things he had had to learn: the knots, the oil, the \
weather, and how to be alone without being lonely.
"""

GERMAN: Final = """\
Am Morgen nach dem Sturm lag der ganze Strand voller Bretter. Die Kinder sammelten sie ein, bevor \
die Großmutter überhaupt aufgestanden war, und bauten daraus ein Haus, das keine Tür hatte, dafür \
aber drei Dächer. „Wozu braucht ihr drei?“, fragte sie später. „Eins gegen den Regen, eins gegen \
die Sonne und eins, falls eins davonfliegt“, sagte die Jüngste, die sich so etwas genau überlegte.

Die Großmutter nickte. Sie wusste, dass das, was man nicht erwartet, meistens zuerst kommt. Sie \
holte Nägel, eine Decke und die alte Laterne; dann saßen alle vier unter dem mittleren Dach und \
hörten zu, wie der Wind langsam, ganz langsam nachließ. Und als es dunkel wurde, da da draußen \
niemand mehr war, zündeten sie die Laterne an und erzählten sich, was die Bretter früher einmal \
gewesen sein könnten: ein Schiff, ein Stall, eine Brücke, vielleicht sogar ein Klavier.
"""

JAPANESE: Final = """\
駅前の古い喫茶店は、来月で閉まることになった。店主の山田さんは七十八歳で、「もういいでしょう」と笑っていたが、\
常連たちはなかなか納得しなかった。毎朝六時に開き、雨の日も雪の日も、同じ曲が同じ音で流れていた。

私はその店でいろいろな話を聞いた。釣りの話、孫の話、遠い町で働いていたころの話。どれも少しずつ大げさで、\
少しずつ本当だった。窓ぎわの席に座ると、線路の向こうに川が見える。春には岸辺の桜が咲き、花びらが風にのって\
ここまで飛んでくることもあった。

最後の日、山田さんはコーヒーをいれながら、ぽつりと言った。「人はだんだん忘れる。でも、忘れたころに思い出す。\
それでいいんだよ」。外に出ると、空はまだ明るかった。私はゆっくり、ゆっくり歩いて帰った。
"""

CHINESE: Final = """\
村口有一棵很老的槐树,谁也说不清它到底活了多少年。夏天的傍晚,大人们搬着小板凳坐在树下,一边摇扇子,\
一边谈论今年的收成。孩子们围着树跑来跑去,跑累了就靠在树干上,听爷爷讲从前的故事。

爷爷讲得很慢,慢慢地说,好像每一个字都要先想一想。他说,从前有一个人,天天往山上搬石头,别人问他为什么,\
他只是笑笑,什么也不回答。过了三十年,山上有了一条路;又过了三十年,路边有了一座亭子。后来那个人不见了,\
可是每逢下雨,走路的人都会在亭子里歇一歇,看看远处的田野,然后继续走自己的路。

我问爷爷,那个人是谁。爷爷没有说话,只是抬起头,看着天上的星星。
"""

TABLE: Final = """\
Here is how the four plans differ:

| Plan | Price | Seats | Storage | Support |
|---|---|---|---|---|
| Free | 0 | 1 | 1 GB | forum |
| Team | 12 | 10 | 100 GB | mail |
| Group | 12 | 10 | 200 GB | mail |
| Firm | 99 | 100 | 1000 GB | phone |

And what each of them includes:

| Feature | Free | Team | Group | Firm |
|:--------|:----:|:----:|:-----:|-----:|
| Export | yes | yes | yes | yes |
| Audit | no | no | yes | yes |
| Roles | no | yes | yes | yes |
| SSO | – | – | – | yes |
| Regions | 1 | 1 | 1 | 11 |

Prices are per seat and month, without tax.
"""

LIST: Final = """\
**Before you start**, check the following:

- [ ] The boiler is off, and off at the switch too.
- [ ] The valve is closed.
- [x] The valve key is at hand.

## Steps

1. Drain the pipe.
   - Put a bucket under it.
   - Open the tap slowly, slowly.
   - Wait until nothing comes.
2. Remove the old seal.
   * Do **not** use a knife.
   * Do *not* pull it.
3. Clean the groove.
4. Clean the ring.
5. Insert the new seal:
   - side A up,
   - side B down.

---

10. Close the tap.
11. Open the valve.
12. Look for drops... and wait ten minutes.
"""

JSON: Final = """\
{
  "id": 100,
  "name": "North pier",
  "open": true,
  "tags": ["pier", "north", "pier-1"],
  "size": {"x": 0, "y": 0, "z": 11},
  "sensors": [
    {
      "id": 1,
      "kind": "wind",
      "values": [0, 0, 0.5, 0.5, 1],
      "unit": {"name": "m/s", "si": true}
    },
    {
      "id": 2,
      "kind": "tide",
      "values": [[1, 2], [2, 3], []],
      "unit": {"name": "m", "si": true}
    },
    {
      "id": 3,
      "kind": "tide",
      "values": [],
      "unit": null
    }
  ],
  "nested": {"a": {"b": {"c": {}}}},
  "note": "",
  "path": "C:\\\\\\\\data\\\\\\\\pier"
}
"""

PYTHON: Final = '''\
"""Counts the words of files."""

from __future__ import annotations

import sys
from collections import Counter
from pathlib import Path


class Words:
    """The words of some files."""

    def __init__(self, names: list[str]) -> None:
        self.names = names
        self.counter: Counter[str] = Counter()

    def __len__(self) -> int:
        return len(self.counter)

    def read(self) -> None:
        for name in self.names:
            text = Path(name).read_text()
            if text == "":
                continue
            for word in text.lower().split():
                self.counter[word.strip(".,;:()")] += 1

    def best(self, n: int = 10) -> list[tuple[str, int]]:
        return sorted(self.counter.items(), key=lambda pair: (-pair[1], pair[0]))[:n]


def main(argv: list[str]) -> int:
    words = Words(argv[1:])
    words.read()
    for word, count in words.best():
        print(f"{word:>20} {count:>6}")
    return 0 if len(words) else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv))
'''

CSV: Final = """\
date,station,min,max,rain,wind,remark
2031-01-01,Aber,0.0,4.4,0.0,11,
2031-01-01,Bryn,-1.1,3.3,0.0,22,
2031-01-02,Aber,0.0,4.0,1.1,10,fog
2031-01-02,Bryn,-2.0,3.0,,,"gauge, frozen"
2031-01-03,Aber,1.0,5.5,12.2,33,
2031-01-03,Bryn,,,,,
2031-01-04,Aber,1.0,5.0,0.0,0,
2031-01-04,Bryn,1.0,5.0,0.0,0,
2031-01-05,Aber,2.2,6.1,0.0,9,fog
2031-01-05,Bryn,0.0,6.0,0.0,7,fog
2031-01-06,Aber,2.0,6.6,3.0,15,
2031-01-06,Bryn,1.5,6.0,2.5,14,
"""

POEM: Final = """\
The ferry leaves at half past four,
    Oh, pull the rope, oh, pull the rope,
With seven sheep and one wet door,
    Oh, pull the rope and go.

The captain sings, the captain knows,
    Oh, pull the rope, oh, pull the rope,
Which way the water never flows,
    Oh, pull the rope and go.

Away, away, the bells, the bells,
    Away, away, away!
The harbour smells of tar and shells,
    Away, away, away!

And when we come to land again,
    Oh, pull the rope, oh, pull the rope,
We count the sheep, and there are ten,
    Oh, pull the rope and go.
"""

NUMBERS: Final = """\
The matrix of the turn and its square:

[[0, 1, 0, 0],
 [0, 0, 1, 0],
 [0, 0, 0, 1],
 [1, 0, 0, 0]]

[[0, 0, 1, 0],
 [0, 0, 0, 1],
 [1, 0, 0, 0],
 [0, 1, 0, 0]]

Its powers repeat: 1, -1, 1, -1, 1, -1. In binary, 170 is 10101010 and 255 is 11111111; 1/3 = \
0.333333, 1/7 = 0.142857142857, and 22/7 = 3.142857. The first squares are 0, 1, 4, 9, 16, 25, 36, \
49, 64, 81, 100, 121, 144; Fibonacci gives 0, 1, 1, 2, 3, 5, 8, 13, 21, 34, 55, 89, 144, 233.

x = 10 000 000
y = 1.00e-10
z = 100.100.100.1
1 1 1 1 0 0 0 0 1 1 1 1
3 + 3 + 3 = 9, 2 * 2 * 2 = 8
"""

HTML: Final = """\
<!DOCTYPE html>
<html lang="en">
<head>
  <meta charset="utf-8">
  <title>Opening hours</title>
</head>
<body>
  <main>
    <h1>Opening hours</h1>
    <p>We are open <b>every</b> day<br><br>but not at night.</p>
    <table class="hours">
      <tr><th></th><th>from</th><th>to</th></tr>
      <tr><td>Monday</td><td>9</td><td>17</td></tr>
      <tr><td>Sunday</td><td></td><td></td></tr>
    </table>
    <ul>
      <li><a href="/a/a.html">A</a></li>
      <li><a href="/b/b.html">B</a></li>
    </ul>
    <div><div><span></span></div></div>
  </main>
  <!-- ---- -->
  <script>let a = [[1, 1], [1, 1]]; a.map(x => x * x);</script>
</body>
</html>
"""

TEXTS: Final = {
    "English": ENGLISH,
    "German": GERMAN,
    "Japanese": JAPANESE,
    "Chinese": CHINESE,
    "a table": TABLE,
    "a list": LIST,
    "JSON": JSON,
    "Python": PYTHON,
    "CSV": CSV,
    "a poem": POEM,
    "numbers": NUMBERS,
    "HTML": HTML,
}
