// What the page says of models, files and figures, without a page.

import assert from 'node:assert/strict';
import test from 'node:test';

import { figures, note } from '../../static/chat/figures.js';
import { contentOf, decode, kindOf, problemOf } from '../../static/chat/files.js';
import { readModels, search, takes } from '../../static/chat/models.js';

const ROWS = [
  { id: 'demo', owned_by: 'demo' },
  {
    id: 'lab/large', name: 'Large', context_length: 200_000, supported_parameters: ['tools', 'reasoning', 'seed'],
    architecture: { input_modalities: ['text', 'image', 'file'], output_modalities: ['text', 'image'] },
    pricing: { prompt: '0.000003', completion: '0.000015' },
  },
  { id: 'demo-tools', owned_by: 'demo' },
  { id: 'lab/small', context_length: 8192, architecture: { input_modalities: ['text'] }, pricing: { prompt: '0', completion: '0' } },
];

test('models are read with what is known of them, group by group', () => {
  const models = readModels(ROWS);
  assert.deepEqual(models.map(({ id, group }) => [id, group]), [['demo', 'demo'], ['demo-tools', 'demo'], ['lab/large', 'lab'], ['lab/small', 'lab']]);
  assert.deepEqual(models[2].facts, ['200K context', 'image', 'file', 'makes image', 'tools', 'reasoning', '$3 in, $15 out']);
  assert.deepEqual(models[3].facts, ['8.2K context', 'free']);
  assert.deepEqual(models[0].facts, []);
  assert.deepEqual(models.map((model) => takes(model, 'image')), [null, null, true, false]);
});

test('models are found by all words of a query, of names and of what they can', () => {
  const models = readModels(ROWS);
  const found = (query) => search(models, query).map(({ id }) => id);
  assert.deepEqual(found(''), models.map(({ id }) => id));
  assert.deepEqual(found('IMAGE  tools'), ['lab/large']);
  assert.deepEqual(found('demo'), ['demo', 'demo-tools']);
  assert.deepEqual(found('200k'), ['lab/large']);
  assert.deepEqual(found('nothing like it'), []);
});

test('files are told by their types, and text by reading it', () => {
  const types = ['image/png', 'image/svg+xml', 'application/pdf', 'text/csv', 'application/json', '', 'application/zip', 'video/mp4'];
  assert.deepEqual(types.map(kindOf), ['image', null, 'file', 'text', 'text', 'text', null, null]);
  assert.equal(decode(new TextEncoder().encode('せせらぎ').buffer), 'せせらぎ');
  assert.equal(decode(new Uint8Array([0xff, 0xfe]).buffer), null);
  assert.equal(decode(new Uint8Array([65, 0, 66]).buffer), null);
});

const IMAGE = { kind: 'image', name: 'a.png', size: 3, data: 'data:image/png;base64,AAAA', thumb: 'data:,' };
const PDF = { kind: 'file', name: 'a.pdf', size: 3, data: 'data:application/pdf;base64,AAAA', thumb: '' };
const TEXT = { kind: 'text', name: 'a.txt', size: 2, data: 'hi', thumb: '' };

test('files are parts before what was typed', () => {
  assert.equal(contentOf('hello'), 'hello');
  assert.deepEqual(contentOf('hello', [IMAGE, PDF, TEXT]), [
    { type: 'image_url', image_url: { url: IMAGE.data } },
    { type: 'file', file: { filename: 'a.pdf', file_data: PDF.data } },
    { type: 'text', text: 'a.txt:\n\nhi' },
    { type: 'text', text: 'hello' },
  ]);
  assert.deepEqual(contentOf('', [TEXT]).length, 1);
});

test('a model that is known to take no images is told of, and an unknown one is not', () => {
  const [demo, , large, small] = readModels(ROWS);
  assert.equal(problemOf([IMAGE, PDF, TEXT], demo), '');
  assert.equal(problemOf([IMAGE, PDF, TEXT], large), '');
  assert.match(problemOf([IMAGE], small), /lab\/small takes no images: remove a\.png/);
  assert.match(problemOf([PDF], small), /takes no PDF/);
  assert.equal(problemOf([TEXT], small), '');
});

test('figures say what is known and nothing else', () => {
  const timing = { asked: 1000 };
  note(timing, { type: 'stream.start' }, 1100);
  note(timing, { type: 'reasoning.delta' }, 1250);
  note(timing, { type: 'text.delta' }, 3250);
  note(undefined, { type: 'text.delta' }, 1);
  const usage = { input_tokens: 1200, output_tokens: 201, cached_input_tokens: 1000, reasoning_tokens: 50 };
  assert.deepEqual(figures({ usage, cost: '0.00135', timing }).map(({ text }) => text),
    ['1,200 in (1,000 cached)', '201 out (50 reasoning)', '$0.0014', 'first token 250 ms', '100 tokens/s']);
  assert.deepEqual(figures({}), []);
  assert.deepEqual(figures({ usage: { output_tokens: 3, estimated: true } }), [{ text: '3 out', about: 'Tokens of the answer, estimated by the relay' }]);
  assert.deepEqual(figures({ timing: { asked: 1 } }), []);
});
