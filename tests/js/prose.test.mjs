// The text of an answer in the page: the same blocks however the text was cut, and text that only grows.

import assert from 'node:assert/strict';
import test from 'node:test';

/** As much of a document as prose.js, inline.js and fenced.js touch. */
class FakeChild {
  parent = null;

  remove() {
    const at = this.parent.childNodes.indexOf(this);
    this.parent.childNodes.splice(at, 1);
    this.parent = null;
  }

  replaceWith(...given) {
    const nodes = given.filter((node) => node !== '').map(nodeOf);
    const { parent } = this;
    const at = parent.childNodes.indexOf(this);
    for (const node of [...nodes]) node.parent?.childNodes.splice(node.parent.childNodes.indexOf(node), 1);
    parent.childNodes.splice(at, 1, ...nodes);
    for (const node of nodes) node.parent = parent;
    this.parent = null;
  }
}

class FakeNode extends FakeChild {
  constructor(localName) {
    super();
    Object.assign(this, { localName, childNodes: [], dataset: {}, lang: '' });
  }

  append(...children) {
    for (const child of [...children].map(nodeOf)) {
      if (child.parent) child.remove();
      child.parent = this;
      this.childNodes.push(child);
    }
  }

  get firstChild() {
    return this.childNodes[0] ?? null;
  }

  get textContent() {
    return this.childNodes.map((child) => child.textContent).join('');
  }
}

class FakeText extends FakeChild {
  constructor(data) {
    super();
    this.data = data;
  }

  appendData(data) {
    this.data += data;
  }

  get length() {
    return this.data.length;
  }

  get textContent() {
    return this.data;
  }
}

/** @param {FakeChild|string} child */
function nodeOf(child) {
  return typeof child === 'string' ? new FakeText(child) : child;
}

Object.assign(globalThis, { Text: FakeText, HTMLElement: FakeNode });
globalThis.document = {
  createElement: (tag) => new FakeNode(tag),
  createElementNS: (_, tag) => new FakeNode(tag),
  createTextNode: (data) => new FakeText(data),
};
const { Prose } = await import('../../static/chat/prose.js');
const { Tokens } = await import('../../static/chat/tokens.js');

FakeNode.prototype.setAttribute = function set(name, value) {
  this[name] = value;
};

/** A node as markup, by the tags that matter here. */
function markup(node) {
  if (node instanceof FakeText) return node.data;
  const inside = node.childNodes.map(markup).join('');
  if (['span', 'button'].includes(node.localName)) return inside;
  if (node.localName === 'input') return node.checked ? '[x]' : '[ ]';
  const shown = ['td', 'th', 'li', 'a'].includes(node.localName) && node.className;
  const about = shown ? ` .${node.className}` : node.dataset.language ? ` ${node.dataset.language}` : node.href ? ` ${node.href}` : node.start ? ` ${node.start}` : '';
  return `<${node.localName}${about}>${inside}</${node.localName}>`;
}

// name, text, markup
const CASES = [
  ['one paragraph', 'こんにちは 🏞️', '<p>こんにちは 🏞️</p>'],
  ['line ends stay inside a paragraph', 'a\nb\n  c', '<p>a\nb\n  c</p>'],
  ['blank lines part paragraphs', 'a\n\nb\n\n\n\nc', '<p>a</p><p>b</p><p>c</p>'],
  ['blank lines at the edges are dropped', '\n\na\n\n', '<p>a</p>'],
  ['a fenced block', 'a\n```js\nlet b;\n\n  c();\n```\nd', '<p>a</p><pre js><code>let b;\n\n  c();</code></pre><p>d</p>'],
  ['a fenced block between blank lines', 'a\n\n``` python \nb\n```\n\nc', '<p>a</p><pre python><code>b</code></pre><p>c</p>'],
  ['two blocks in a row', '```\na\n```\n```\nb\n```', '<pre><code>a</code></pre><pre><code>b</code></pre>'],
  ['a block that begins with blank lines', '```\n\n\na\n```', '<pre><code>a</code></pre>'],
  ['a longer fence holds a shorter one', '````md\n```js\na\n```\n````\nb', '<pre md><code>```js\na\n```</code></pre><p>b</p>'],
  ['a fence line needs backticks only to close', '```\n```js\n```', '<pre><code>```js</code></pre>'],
  ['an unfinished block', 'a\n```sh\nls', '<p>a</p><pre sh><code>ls</code></pre>'],
  ['an unfinished fence', 'a\n``', '<p>a\n``</p>'],
  ['an opening fence at the end', 'a\n```', '<p>a</p><pre><code></code></pre>'],
  ['marks in a code block are text', '```\n**a** [b](http://c)\n- d\n# e\n```', '<pre><code>**a** [b](http://c)\n- d\n# e</code></pre>'],
  ['code in a line', '`a*b*` and ``b`c`` are\n`c`', '<p><code>a*b*</code> and <code>b`c</code> are\n<code>c</code></p>'],
  ['backticks that begin a line but open nothing', '```a``` b\nc', '<p><code>a</code> b\nc</p>'],
  ['markup is text', '<b>a</b>\n<script>b</script>', '<p><b>a</b>\n<script>b</script></p>'],
  ['emphasis', '*a* **b** ***c*** _d_ __e__ ~~f~~', '<p><em>a</em> <strong>b</strong> <strong><em>c</em></strong> <em>d</em> <strong>e</strong> <del>f</del></p>'],
  ['emphasis in emphasis', '**a *b* c**', '<p><strong>a <em>b</em> c</strong></p>'],
  ['emphasis without spaces, as in Japanese', '川は**とても**速い', '<p>川は<strong>とても</strong>速い</p>'],
  ['marks that are none', '2 * 3 * 4, a_b_c, ~5, * * x', '<p>2 * 3 * 4, a_b_c, ~5, * * x</p>'],
  ['marks that are never closed', '**a `b\n\n*c', '<p>**a `b</p><p>*c</p>'],
  ['marks that cross', '**a *b** c*', '<p><strong>a *b</strong> c*</p>'],
  ['escapes', '\\*a\\* \\b', '<p>*a* \\b</p>'],
  ['a link', 'see [the *page*](https://a.example/x_(y)) now', '<p>see <a https://a.example/x_(y)>the <em>page</em></a> now</p>'],
  ['a link with a title', '[a](https://b.example "c")', '<p><a https://b.example>a</a></p>'],
  ['what is no link', '[a] [b](javascript:alert(1)) [c](d) [e](\nf', '<p>[a] [b](javascript:alert(1)) [c](d) [e](\nf</p>'],
  ['an unfinished link', '[a](https://b', '<p>[a](https://b</p>'],
  ['headings', '# a\n## b *c*\nd\n\n#e', '<h4>a</h4><h5>b <em>c</em></h5><p>d</p><p>#e</p>'],
  ['a list', 'a:\n- b\n- **c**\n  d\n\ne', '<p>a:</p><ul><li>b</li><li><strong>c</strong>\nd</li></ul><p>e</p>'],
  ['a numbered list', '3. a\n4) b', '<ol 3><li>a</li><li>b</li></ol>'],
  ['lists within lists', '- a\n  1. b\n     * c\n  2. d\n- e', '<ul><li>a<ol><li>b<ul><li>c</li></ul></li><li>d</li></ol></li><li>e</li></ul>'],
  ['a loose list', '1. a\n\n   b\n\n2. c', '<ol><li>a<p>b</p></li><li>c</li></ol>'],
  ['code in a list', '- a\n  ```js\n  b\n  ```\n- c', '<ul><li>a<pre js><code>b</code></pre></li><li>c</li></ul>'],
  ['code deep in lists', '1. a\n   - b\n     ```js\n     if (c) {\n       d\n    e\n     ```\n   - f', '<ol><li>a<ul><li>b<pre js><code>if (c) {\n  d\ne</code></pre></li><li>f</li></ul></li></ol>'],
  ['a paragraph belongs to the item that it is indented for', '1. a\n   - b\n\n   c\n\n     d\n2. e', '<ol><li>a<ul><li>b</li></ul><p>c</p><p>d</p></li><li>e</li></ol>'],
  ['a quote in an item', '- a\n  > b\n  > - c\n- d', '<ul><li>a<blockquote><p>b</p><ul><li>c</li></ul></blockquote></li><li>d</li></ul>'],
  ['quotes in quotes', '> a\n> > b\n> > c\n>\n> d', '<blockquote><p>a</p><blockquote><p>b\nc</p></blockquote><p>d</p></blockquote>'],
  ['all blocks in a quote', '> ## a\n> 1. b\n> 2. c\n>\n> ```js\n> d\n> ```\n> | e |\n> |---|', '<blockquote><h5>a</h5><ol><li>b</li><li>c</li></ol><pre js><code>d</code></pre><div><table><tbody><tr><th>e</th></tr></tbody></table></div></blockquote>'],
  ['a quote', '> a\n> b\n>\n> c\n\nd', '<blockquote><p>a\nb</p><p>c</p></blockquote><p>d</p>'],
  ['rules', 'a\n\n---\nb\n***\n', '<p>a</p><hr></hr><p>b</p><hr></hr>'],
  ['a table', '| a | **b** |\n|---|:-:|\n| 1 | `x\\|y` |\n\nc', '<div><table><tbody><tr><th>a</th><th .center><strong>b</strong></th></tr><tr><td>1</td><td .center><code>x|y</code></td></tr></tbody></table></div><p>c</p>'],
  ['a head that is empty is no head', '| | a |\n|---|---|\n| b | c |', '<div><table><tbody><tr><td></td><th>a</th></tr><tr><td>b</td><td>c</td></tr></tbody></table></div>'],
  ['how columns stand', '| a | b | c |\n|:--|--:|:-:|\n| 1 | 2<br>3 | 4 |', '<div><table><tbody><tr><th>a</th><th .end>b</th><th .center>c</th></tr><tr><td>1</td><td .end>2\n3</td><td .center>4</td></tr></tbody></table></div>'],
  ['a list of tasks', '- [x] a\n- [ ] *b*\n  1. [X] c\n- [y] d\n- [x](e)', '<ul><li .task>[x]a</li><li .task>[ ]<em>b</em><ol><li .task>[x]c</li></ol></li><li>[y] d</li><li>[x](e)</li></ul>'],
  ['a line that is broken on purpose', 'a\\\nb  \nc', '<p>a\nb  \nc</p>'],
  ['a picture is a link', 'see ![the *map*](https://a.example/b.png)! and ![](https://c.example) [!d](https://e.example)', '<p>see <a .image>the <em>map</em></a>! and <a .image>https://c.example</a> <a https://e.example>!d</a></p>'],
  ['what is no picture', 'a! [b] ![c] !d', '<p>a! [b] ![c] !d</p>'],
  ['addresses in the text', 'at https://a.example/b_c?d=1, (http://e.example/f_(g)) or <https://h.example>。https://i.exampleです', '<p>at <a https://a.example/b_c?d=1>https://a.example/b_c?d=1</a>, (<a http://e.example/f_(g)>http://e.example/f_(g)</a>) or <<a https://h.example>https://h.example</a>>。<a https://i.example>https://i.example</a>です</p>'],
  ['addresses that are left alone', '`https://a.example` [https://b.example](https://c.example) javascript://d', '<p><code>https://a.example</code> <a https://c.example>https://b.example</a> javascript://d</p>'],
  ['code with colours keeps its text', '```ts twoslash\nconst a = `b\nc`; // d\n\ne(1)\n```', '<pre ts><code>const a = `b\nc`; // d\n\ne(1)</code></pre>'],
  ['formulas in a line', 'so \\(a_1^2\\), $\\frac{1}{2}$ and **$x$**.', '<p>so <math><msubsup><mi>a</mi><mn>1</mn><mn>2</mn></msubsup></math>, <math><mfrac><mn>1</mn><mn>2</mn></mfrac></math> and <strong><math><mi>x</mi></math></strong>.</p>'],
  ['formulas on lines of their own', 'a:\n$$\n- b\n+ c\n$$\n\\[ d \\]\n- e', '<p>a:\n<math><mrow><mo>−</mo><mi>b</mi><mo>+</mo><mi>c</mi></mrow></math>\n<math><mi>d</mi></math></p><ul><li>e</li></ul>'],
  ['dollars that are money', '$5 to $10, US$3; *a* $PATH:$HOME $1,000 and **b**\ncost $2\n\n$', '<p>$5 to $10, US$3; <em>a</em> $PATH:$HOME $1,000 and <strong>b</strong>\ncost $2</p><p>$</p>'],
  ['a formula that is never closed', '\\[ a *b*\n\n$$ c\n\n\\(d', '<p>[ a <em>b</em></p><p>$$ c</p><p>(d</p>'],
  ['a formula that is not known', '$\\unknown{a}$', '<p><code>$\\unknown{a}$</code></p>'],
  ['formulas in code are code', '`$a$` and `\\(b\\)`', '<p><code>$a$</code> and <code>\\(b\\)</code></p>'],
  ['entities', 'a &lt;b&gt; &amp;amp; &#233;&#x1F30A; Q&A &unknown; &#0; AT&T&', '<p>a <b> &amp; é🌊 Q&A &unknown; &#0; AT&T&</p>'],
  ['entities in code and addresses', '`&lt;` https://a.example/?b=1&lt=2', '<p><code>&lt;</code> <a https://a.example/?b=1&lt=2>https://a.example/?b=1&lt=2</a></p>'],
  ['characters that turn text', 'a \u202eb *c\u2067* &#x202e; d\u200f\n\n`e\u200ff`\n```js\ng\u202d h\n```', '<p>a <bdi>\u202e</bdi>b <em>c<bdi>\u2067</bdi></em> <bdi>\u202e</bdi> d\u200f</p><p><code>e<bdi>\u200f</bdi>f</code></p><pre js><code>g<bdi>\u202d</bdi> h</code></pre>'],
  ['a number or a dash that is no list', '1\n-\n12.5 -x', '<p>1\n-\n12.5 -x</p>'],
];

function grow(pieces) {
  const root = new FakeNode('div');
  const prose = new Prose(root);
  for (const piece of pieces) prose.append(piece);
  prose.finish();
  return root;
}

const shownBy = (pieces) => grow(pieces).childNodes.map(markup).join('');

for (const [name, text, expected] of CASES) {
  test(`${name}: the same at every cut`, () => {
    assert.equal(shownBy([text]), expected, 'whole');
    assert.equal(shownBy([...text]), expected, 'character by character');
    for (let at = 0; at <= text.length; at++) {
      assert.equal(shownBy([text.slice(0, at), text.slice(at)]), expected, `cut at ${at}`);
    }
  });
}

test('words are shown at once', () => {
  const root = new FakeNode('div');
  const prose = new Prose(root);
  for (const [piece, shown] of [['さら', 'さら'], ['さら', 'さらさら'], ['\n', 'さらさら'], ['と', 'さらさら\nと'], [' **x', 'さらさら\nと x'], ['** `y', 'さらさら\nと x y']]) {
    prose.append(piece);

    assert.equal(root.textContent, shown);
  }
});

test('the cost of hostile text is linear', () => {
  let writes = 0;
  const { appendData } = FakeText.prototype;
  FakeText.prototype.appendData = function count(data) {
    writes += data.length;
    return appendData.call(this, data);
  };
  try {
    for (const piece of ['**a', '[', '](', '`', '[a](', '_b*', '\n> ', '>', '\n- ', '\n|', '~~', '\\', '![', '- [', '\n  - [x] ', 'https://', '<br>|', '&', '&a', '$', '$a', '$$', '\\(', '\\[a', '$a$', '{$x']) {
      writes = 0;
      grow(Array(3000).fill(piece));

      assert.ok(writes <= 40 * 3000 * piece.length, `${JSON.stringify(piece)}: ${writes}`);
    }
  } finally {
    FakeText.prototype.appendData = appendData;
  }
});

test('Japanese text is marked as Japanese', () => {
  assert.equal(grow(['a', 'せせらぎ']).lang, 'ja');
  assert.equal(grow(['murmur']).lang, '');
});

/** The tokens of lines, those with a colour. */
function coloured(language, ...lines) {
  const tokens = new Tokens(language);
  return lines.flatMap((line) => {
    const found = tokens.line(line);
    assert.equal(found.map(({ text }) => text).join(''), line);
    return found.filter(({ kind }) => kind).map(({ kind, text }) => `${kind} ${text}`);
  });
}

// language, lines, the tokens with a colour
const COLOURED = [
  ['js', ["for await (const { id } of chat('a\\'b', 1.5e3)) // c"], ['keyword for', 'keyword await', 'keyword const', 'keyword of', 'call chat', "string 'a\\'b'", 'number 1.5e3', 'comment // c']],
  ['TypeScript', ['/* a', ' * b */ let x = `c ${', 'd\\`e`;'], ['comment /* a', 'comment  * b */', 'keyword let', 'string `c ${', 'string d\\`e`']],
  ['python', ['def f(a):  # b', '    """c', 'd""" + "e#f"'], ['keyword def', 'call f', 'comment # b', 'string """c', 'string d"""', 'string "e#f"']],
  ['json', ['{"a": ["b", -1, true, null]}'], ['key "a"', 'string "b"', 'number 1', 'keyword true', 'keyword null']],
  ['sh', ['curl -N "$URL" | jq . # a#b', 'echo a#b'], ['keyword curl', 'string "$URL"', 'comment # a#b', 'keyword echo']],
  ['html', ['<a href="b">c</a> <!-- d', 'e --> 5'], ['keyword <a', 'key href', 'string "b"', 'keyword >', 'keyword </a>', 'comment <!-- d', 'comment e -->']],
  ['css', ['.a { color: red; } /* b */'], ['key color', 'comment /* b */']],
  ['sql', ["SELECT a from b -- c"], ['keyword SELECT', 'keyword from', 'comment -- c']],
  ['http', ['event: text.delta'], ['key event']],
  ['diff', ['--- a/b', '@@ -1 +1 @@', '-old "x"', '+new', ' same'], ['comment --- a/b', 'comment @@ -1 +1 @@', 'removed -old "x"', 'added +new']],
  ['nothing known', ['if (a) { return "b"; }'], []],
  ['js', ['"never closed', 'x'], ['string "never closed']],
];

for (const [language, lines, expected] of COLOURED) {
  test(`${language}: ${lines[0]}`, () => {
    assert.deepEqual(coloured(language, ...lines), expected);
  });
}

test('to colour hostile code is linear, and a line has an end', () => {
  let looked = 0;
  const { exec } = RegExp.prototype;
  RegExp.prototype.exec = function count(text) {
    looked += 1;
    return exec.call(this, text);
  };
  try {
    for (const language of ['js', 'html', 'python']) {
      for (const piece of ['"', "'", '`', '/*', '<!--', '"\\', '<a ', '"""', '#', '(((', 'a.']) {
        looked = 0;
        const lines = Array(50).fill(piece.repeat(40));
        coloured(language, ...lines);

        assert.ok(looked <= 3 * 50 * 40 * piece.length, `${language} ${piece}: ${looked}`);
      }
    }
  } finally {
    RegExp.prototype.exec = exec;
  }
  assert.deepEqual(new Tokens('js').line('"a" '.repeat(1000)).length, 1);
});

test('code is copied as it was written', async () => {
  const written = [];
  Object.defineProperty(globalThis, 'navigator', { value: { clipboard: { writeText: async (text) => written.push(text) } }, configurable: true });
  const root = grow(['```js\nlet a', ' = 1;\n\n// b\n```\n']);
  const [button] = root.childNodes[0].childNodes;
  await button.onclick();

  assert.deepEqual(written, ['let a = 1;\n\n// b']);
  assert.equal(root.textContent, 'let a = 1;\n\n// b');
});
