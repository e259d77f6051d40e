// The text of an answer in the page: the same blocks however the text was cut, and text that only grows.

import assert from 'node:assert/strict';
import test from 'node:test';

/** As much of a document as prose.js and inline.js touch. */
class FakeChild {
  parent = null;

  remove() {
    const at = this.parent.childNodes.indexOf(this);
    this.parent.childNodes.splice(at, 1);
    this.parent = null;
  }

  replaceWith(...nodes) {
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
    for (const child of [...children]) {
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

globalThis.document = {
  createElement: (tag) => new FakeNode(tag),
  createTextNode: (data) => new FakeText(data),
};
const { Prose } = await import('../../static/prose.js');

/** A node as markup, by the tags that matter here. */
function markup(node) {
  if (node instanceof FakeText) return node.data;
  const inside = node.childNodes.map(markup).join('');
  if (node.localName === 'span') return inside;
  const about = node.dataset.language ? ` ${node.dataset.language}` : node.href ? ` ${node.href}` : node.start ? ` ${node.start}` : '';
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
  ['code in a list', '- a\n  ```js\n  b\n  ```\n- c', '<ul><li>a<pre js><code>  b</code></pre></li><li>c</li></ul>'],
  ['a quote', '> a\n> b\n>\n> c\n\nd', '<blockquote><p>a\nb</p><p>c</p></blockquote><p>d</p>'],
  ['rules', 'a\n\n---\nb\n***\n', '<p>a</p><hr></hr><p>b</p><hr></hr>'],
  ['a table', '| a | **b** |\n|---|:-:|\n| 1 | `x\\|y` |\n\nc', '<div><table><tbody><tr><th>a</th><th><strong>b</strong></th></tr><tr><td>1</td><td><code>x|y</code></td></tr></tbody></table></div><p>c</p>'],
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
    for (const piece of ['**a', '[', '](', '`', '[a](', '_b*', '\n> ', '\n- ', '\n|', '~~', '\\']) {
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
