// TeX as MathML: what models write, what is not known, and nothing that hangs or throws.

import assert from 'node:assert/strict';
import test from 'node:test';

class FakeElement {
  constructor(name) {
    Object.assign(this, { name, childNodes: [], attributes: {} });
  }

  append(...children) {
    this.childNodes.push(...children);
  }

  setAttribute(name, value) {
    this.attributes[name] = value;
  }
}
globalThis.document = { createElementNS: (_, name) => new FakeElement(name) };
const { mathOf } = await import('../../static/chat/maths.js');

const markup = (node) => (typeof node === 'string' ? node : `<${node.name}>${node.childNodes.map(markup).join('')}</${node.name}>`);
const made = (tex, display = false) => {
  const math = mathOf(tex, display);
  return math && math.childNodes.map(markup).join('').replaceAll(/<(\/?)m(i|n|o|row|frac|sup|sub|subsup)>/g, '<$1$2>');
};

// TeX, MathML with its commonest elements short
const CASES = [
  ['x', '<i>x</i>'],
  ['E = mc^2', '<row><i>E</i><o>=</o><i>m</i><sup><i>c</i><n>2</n></sup></row>'],
  ['a_{ij}^{-1}', '<subsup><i>a</i><row><i>i</i><i>j</i></row><row><o>−</o><n>1</n></row></subsup>'],
  ["f'(x)", "<row><sup><i>f</i><o>′</o></sup><o>(</o><i>x</i><o>)</o></row>"],
  ['\\frac12 x^10', '<row><frac><n>1</n><n>2</n></frac><sup><i>x</i><n>1</n></sup><n>0</n></row>'],
  ['\\frac{1}{\\sqrt{y}}', '<frac><n>1</n><msqrt><i>y</i></msqrt></frac>'],
  ['\\sqrt[3]{y}', '<mroot><i>y</i><n>3</n></mroot>'],
  ['\\mathbb{R} \\mathcal{LO} \\mathbf{x1}', '<row><i>ℝ</i><i>ℒ𝒪</i><i>𝐱𝟏</i></row>'],
  ['\\text{if } \\alpha \\leq 1{,}5', '<row><mtext>if\u00a0</mtext><i>α</i><o>≤</o><n>1</n><o>,</o><n>5</n></row>'],
  ['\\left\\{ a \\right.', '<row><o>{</o><i>a</i></row>'],
  ['a \\\\ b', '<mtable><mtr><mtd><i>a</i></mtd></mtr><mtr><mtd><i>b</i></mtd></mtr></mtable>'],
  ['\\begin{pmatrix}1&2\\\\3&4\\\\\\end{pmatrix}', '<row><o>(</o><mtable><mtr><mtd><n>1</n></mtd><mtd><n>2</n></mtd></mtr><mtr><mtd><n>3</n></mtd><mtd><n>4</n></mtd></mtr></mtable><o>)</o></row>'],
];

for (const [tex, expected] of CASES) {
  test(tex, () => assert.equal(made(tex), expected));
}

test('what stands above and below a sum does so on a line of its own', () => {
  assert.equal(made('\\sum_1^n', true), '<munderover><o>∑</o><n>1</n><i>n</i></munderover>');
  assert.equal(made('\\sum_1^n'), '<subsup><o>∑</o><n>1</n><i>n</i></subsup>');
});

test('what is not known or not whole gives null', () => {
  for (const tex of ['\\unknown', '{', '}', 'a^b^c', '\\frac{1}', '\\left( a', '\\begin{pmatrix} 1', '\\begin{tikz}\\end{tikz}', '\\begin{constructor}\\end{constructor}', 'a & b', '\\text{$', '#', '\\href{javascript:1}{x}', '{'.repeat(1000), '\\mathbf{\\x}', '$']) {
    assert.equal(mathOf(tex, true), null, tex);
  }
});

test('hostile formulas cost in proportion to their length', () => {
  for (const piece of ['{', 'a^', '\\frac', '\\sqrt{', '\\left(', '&', '\\\\', '\\begin{array}', "'", '_']) {
    let elements = 0;
    const { createElementNS } = globalThis.document;
    globalThis.document.createElementNS = (...of) => {
      elements += 1;
      return createElementNS(...of);
    };
    mathOf(piece.repeat(500), true);
    globalThis.document.createElementNS = createElementNS;
    assert.ok(elements <= 500 * 4, `${piece}: ${elements}`);
  }
});
