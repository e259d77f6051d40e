// The text of an answer in the page: the same blocks however the text was cut, and text that only grows.

import assert from 'node:assert/strict';
import test from 'node:test';

/** As much of a document as prose.js touches. */
class FakeNode {
  constructor(tagName) {
    Object.assign(this, { tagName, children: [], dataset: {}, lang: '' });
  }

  append(...children) {
    this.children.push(...children);
  }

  get textContent() {
    return this.children.map((child) => child.textContent).join('');
  }
}

class FakeText {
  constructor(data) {
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

const p = (text) => ['p', text];
const pre = (text, language = '') => ['pre', text, language];

// name, text, blocks
const CASES = [
  ['one paragraph', 'こんにちは 🏞️', [p('こんにちは 🏞️')]],
  ['line ends stay inside a paragraph', 'a\nb\n  c', [p('a\nb\n  c')]],
  ['blank lines part paragraphs', 'a\n\nb\n\n\n\nc', [p('a'), p('b'), p('c')]],
  ['blank lines at the edges are dropped', '\n\na\n\n', [p('a')]],
  ['a fenced block', 'a\n```js\nlet b;\n\n  c();\n```\nd', [p('a'), pre('let b;\n\n  c();', 'js'), p('d')]],
  ['a fenced block between blank lines', 'a\n\n``` python \nb\n```\n\nc', [p('a'), pre('b', 'python'), p('c')]],
  ['two blocks in a row', '```\na\n```\n```\nb\n```', [pre('a'), pre('b')]],
  ['a block that begins with blank lines', '```\n\n\na\n```', [pre('a')]],
  ['a longer fence holds a shorter one', '````md\n```js\na\n```\n````\nb', [pre('```js\na\n```', 'md'), p('b')]],
  ['a fence line needs backticks only to close', '```\n```js\n```', [pre('```js')]],
  ['an unfinished block', 'a\n```sh\nls', [p('a'), pre('ls', 'sh')]],
  ['an unfinished fence', 'a\n``', [p('a\n``')]],
  ['an opening fence at the end', 'a\n```', [p('a'), pre('')]],
  ['code in a line is no fence', '`a` and ```b``` are\n`c`', [p('`a` and ```b``` are\n`c`')]],
  ['backticks that begin a line but open nothing', '```a``` b\nc', [p('```a``` b\nc')]],
  ['markup is text', '<b>a</b>\n<script>b</script>', [p('<b>a</b>\n<script>b</script>')]],
];

function blocksOf(root) {
  return root.children.map((block) => (block.tagName === 'pre' ? pre(block.textContent, block.dataset.language) : p(block.textContent)));
}

function grow(pieces) {
  const root = new FakeNode('div');
  const prose = new Prose(root);
  let shown = '';
  for (const piece of pieces) {
    prose.append(piece);
    const now = root.textContent;
    assert.ok(now.startsWith(shown), `${JSON.stringify(now)} does not begin with ${JSON.stringify(shown)}`);
    shown = now;
  }
  prose.finish();
  assert.ok(root.textContent.startsWith(shown));
  return root;
}

for (const [name, text, blocks] of CASES) {
  test(`${name}: the same at every cut`, () => {
    assert.deepEqual(blocksOf(grow([text])), blocks, 'whole');
    assert.deepEqual(blocksOf(grow([...text])), blocks, 'character by character');
    for (let at = 0; at <= text.length; at++) {
      assert.deepEqual(blocksOf(grow([text.slice(0, at), text.slice(at)])), blocks, `cut at ${at}`);
    }
  });
}

test('words are shown at once', () => {
  const root = new FakeNode('div');
  const prose = new Prose(root);
  for (const [piece, shown] of [['さら', 'さら'], ['さら', 'さらさら'], ['\n', 'さらさら'], ['と', 'さらさら\nと'], ['\n`x', 'さらさら\nと\n`x']]) {
    prose.append(piece);

    assert.equal(root.textContent, shown);
  }
});

test('Japanese text is marked as Japanese', () => {
  assert.equal(grow(['a', 'せせらぎ']).lang, 'ja');
  assert.equal(grow(['murmur']).lang, '');
});
