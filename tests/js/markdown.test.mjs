// The page's Markdown: every construct, however the text was cut; nodes that stay while text grows; hostile text.

import assert from 'node:assert/strict';
import test from 'node:test';

import { CASES } from './markdown-cases.mjs';
import { FakeElement, grow, markup } from './markdown-dom.mjs';

const { makeCode } = await import('../../static/chat/clipboard.js');
const { Markdown } = await import('../../static/chat/markdown.js');

const shownBy = (pieces) => grow(Markdown, pieces).childNodes.map(markup).join('');

for (const [construct, cases] of Object.entries(CASES)) {
  test(`${construct}: the same at every cut`, () => {
    for (const [text, expected] of cases) {
      assert.equal(shownBy([text]), expected, text);
      assert.equal(shownBy([...text]), expected, `${text}, character by character`);
      for (let at = 1; at < text.length; at++) assert.equal(shownBy([text.slice(0, at), text.slice(at)]), expected, `${text}, cut at ${at}`);
    }
  });
}

test('all cases in one text are the same at every line and every few characters', () => {
  const text = Object.values(CASES).flat().map(([one]) => one).join('\n\n');
  const whole = shownBy([text]);

  for (const size of [1, 3, 7, 50]) assert.equal(shownBy(text.match(new RegExp(`[^]{1,${size}}`, 'g'))), whole);
});

test('words are shown at once, and marks that may become several things wait', () => {
  const root = new FakeElement('div');
  const markdown = new Markdown(root);
  for (const [piece, shown] of [['さら', '<p>さら</p>'], ['さら', '<p>さらさら</p>'], ['\n-', '<p>さらさら</p>'], [' a', '<p>さらさら</p><ul><li>a</li></ul>'], ['\n\n``', '<p>さらさら</p><ul><li>a</li></ul>'], ['`js', '<p>さらさら</p><ul><li>a</li></ul><pre js><code></code></pre>']]) {
    markdown.append(piece);

    assert.equal(root.childNodes.map(markup).join(''), shown);
  }
});

test('nodes of what is shown stay while text grows, so that a selection does', () => {
  const root = new FakeElement('div');
  const markdown = new Markdown(root);
  markdown.append('one *two* thr');
  const [paragraph] = root.childNodes;
  const nodes = [...paragraph.childNodes];
  markdown.append('ee `four`\n\n- five\n- si');
  const item = root.childNodes[1].childNodes[0];
  markdown.append('x\n\n```\nsev');
  const code = root.childNodes[2].lastChild.lastChild;
  markdown.append('en\neight\n```\n\nnine');
  markdown.finish();

  assert.equal(root.childNodes[0], paragraph);
  assert.deepEqual(paragraph.childNodes.slice(0, 3).map((node, at) => node === nodes[at]), [true, true, true]);
  assert.equal(root.childNodes[1].childNodes[0], item);
  assert.equal(root.childNodes[2].lastChild.lastChild, code);
  assert.equal(code.data, 'seven\neight');
});

test('finished blocks are neither parsed nor drawn again', (t) => {
  const root = new FakeElement('div');
  const markdown = new Markdown(root);
  const drawn = t.mock.method(document, 'createElement');
  for (let at = 0; at < 2000; at++) markdown.append(`paragraph *${at}*\n\n`);
  markdown.finish();

  assert.equal(root.childNodes.length, 2000);
  assert.equal(drawn.mock.callCount(), 4000);
});

const HOSTILE = ['`', '``` ', '`a``', '[', ']', '[]', '](', '![', '[a](', '[a](b "', '[a](<', '*', '**a', '*a_ ', '_b*', 'a**b', '~~', '~~a', '\\', '<', '<a:', '<a@', '&', '&a', '&#1', 'https://', 'https://a.b/(', '>', '> ', '> a\n', '>\n', '- ', '- a\n', '\n - ', '1. ', '\t', ' ', '#', '# ', 'a #', '\n', '|', '|-', 'a|', '| a\n|-|\n', '\n    ', '=', '-', '* ', '~~~', '\u202e', '(', '"', '<br>', '- [ ] ', '$', 'a\n', 'a  \n', 'a\\\n'];

test('the cost of hostile text is linear, however deep', () => {
  for (const piece of HOSTILE) {
    const began = process.cpuUsage(); // and not the clock, which other programs slow down
    const root = grow(Markdown, [piece.repeat(10_000)]);
    const pieces = grow(Markdown, Array(600).fill(piece));
    const { user, system } = process.cpuUsage(began);

    assert.ok(user + system < 2_000_000, `${JSON.stringify(piece)}: ${Math.round((user + system) / 1000)} ms`);
    assert.ok(Math.max(depthOf(root), depthOf(pieces)) < 70);
  }
});

test('a table of many columns and short rows is not filled up without end', () => {
  const root = grow(Markdown, [`${'a|'.repeat(2000)}\n${'-|'.repeat(2000)}\n${'a\n'.repeat(2000)}`]);

  assert.ok(root.childNodes[0].childNodes[0].childNodes[0].childNodes.slice(1).every((row) => row.childNodes.length <= 50));
});

test('Japanese text is marked as Japanese', () => {
  assert.equal(grow(Markdown, ['a', 'せせらぎ']).lang, 'ja');
  assert.equal(grow(Markdown, ['murmur']).lang, '');
});

test('code is copied as it was written', async () => {
  const written = [];
  Object.defineProperty(globalThis, 'navigator', { value: { clipboard: { writeText: async (text) => written.push(text) } }, configurable: true });
  const [block] = grow(Markdown, ['```js\nlet a', ' = 1;\n\n// b\n```\n']).childNodes;
  await block.childNodes[0].onclick();
  await makeCode('sh', 'ls').childNodes[0].onclick();

  assert.deepEqual(written, ['let a = 1;\n\n// b', 'ls']);
});

/** How deep elements are within each other. */
function depthOf(root) {
  let deepest = 0;
  for (const waiting = [[root, 0]]; waiting.length;) {
    const [node, depth] = waiting.pop();
    deepest = Math.max(deepest, depth);
    for (const child of node.childNodes ?? []) waiting.push([child, depth + 1]);
  }
  return deepest;
}
