// The page's own language: each text of the page has its line, and no line is left over.

import assert from 'node:assert/strict';
import { readFileSync, readdirSync } from 'node:fs';
import test from 'node:test';

Object.defineProperty(globalThis, 'navigator', { value: { languages: ['fr-FR', 'ja-JP', 'en'] }, configurable: true });
const { LANGUAGE, moment, number, say } = await import('../../static/chat/language.js');
const { JAPANESE } = await import('../../static/chat/japanese.js');

const STATIC = new URL('../../static/', import.meta.url);
const MODULES = ['chat.js', 'key.js', ...readdirSync(new URL('chat/', STATIC)).filter((name) => name.endsWith('.js') && name !== 'japanese.js').map((name) => `chat/${name}`)];
const SOURCES = new Map(MODULES.map((name) => [name, readFileSync(new URL(name, STATIC), 'utf8')]));
const PAGE = readFileSync(new URL('index.html', STATIC), 'utf8');

/** The texts that marked elements of the page have, in attributes and between their tags. */
function marked() {
  const found = [];
  for (const [, attributes, after] of PAGE.matchAll(/<[a-z]\w*\b([^>]*\sdata-say\b[^>]*)>([^<]*)/g)) {
    const names = /data-say="([^"]*)"/.exec(attributes)?.[1] ?? '';
    for (const name of names.split(' ').filter(Boolean)) found.push(new RegExp(`\\s${name}="([^"]*)"`).exec(attributes)[1]);
    if (after.trim()) found.push(after);
  }
  // What follows a <kbd> within its sentence.
  for (const [, text] of PAGE.matchAll(/<\/kbd>([^<]*)/g)) if (text.trim()) found.push(text);
  return found;
}

test('the first language of the reader that the page speaks is taken', () => {
  assert.equal(LANGUAGE, 'ja');
  assert.equal(say('Send'), '送信');
  assert.equal(say('Could not share: {problem}', { problem: '{problem}' }), '共有できませんでした：{problem}');
  assert.equal(say('a text without a line, {n}', { n: 2 }), 'a text without a line, 2');
  assert.equal(number(12345.5), '12,345.5');
  assert.match(moment(new Date(2026, 10, 22, 18, 30)), /^2026.11.22 18:30$/);
});

test('every text that a module says has a Japanese line', () => {
  const missing = [];
  for (const [name, source] of SOURCES) {
    for (const [, text] of source.matchAll(/\bsay\(\s*'([^']*)'/g)) if (!(text in JAPANESE)) missing.push(`${name}: ${text}`);
  }

  assert.deepEqual(missing, []);
});

test('every marked element of the page has a Japanese line', () => {
  const texts = marked();

  assert.ok(texts.length > 40);
  assert.deepEqual(texts.filter((text) => !(text in JAPANESE)), []);
});

test('no text of the page is left unmarked', () => {
  const body = PAGE.slice(PAGE.indexOf('<body'));
  const unmarked = [];
  for (const [, tag, attributes, text] of body.matchAll(/<([a-z]\w*)\b([^>]*)>([^<]*[a-z]{3}[^<]*)/g)) {
    if (!/\sdata-say\b/.test(attributes) && !['option', 'kbd'].includes(tag)) unmarked.push(text.trim());
  }
  for (const [tag, name] of body.matchAll(/<[^>]*\s(placeholder|aria-label|title|alt)="[^"]*[a-z]{3}[^>]*>/g)) {
    if (!new RegExp(`data-say="[^"]*\\b${name}\\b`).test(tag)) unmarked.push(tag);
  }

  assert.deepEqual(unmarked.filter((text) => !/^Seseragi$|^closed$|^API$/.test(text)), []);
});

test('no line is left over', () => {
  const used = new Set(marked());
  const all = [...SOURCES.values()].join('\n');

  assert.deepEqual(Object.keys(JAPANESE).filter((text) => !used.has(text) && !all.includes(`'${text}'`)), []);
});

test('a text keeps its values in Japanese', () => {
  const values = (text) => (text.match(/\{\w+\}/g) ?? []).sort().join();

  assert.deepEqual(Object.entries(JAPANESE).filter(([text, line]) => values(text) !== values(line)), []);
});
