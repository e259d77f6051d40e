// Conversations in the browser's storage: bounded, apart by owner, and none lost to another tab.

import assert from 'node:assert/strict';
import test from 'node:test';

import { History, ownerOf } from '../../static/chat/history.js';
import { nextId, pathThrough, versionsOf } from '../../static/chat/tree.js';

/** A Storage with room for so many characters. */
function storage(room = Infinity) {
  const kept = new Map();
  const size = () => [...kept].reduce((sum, [name, value]) => sum + name.length + value.length, 0);
  return {
    get length() { return kept.size; },
    key: (at) => [...kept.keys()][at] ?? null,
    getItem: (name) => kept.get(name) ?? null,
    removeItem: (name) => kept.delete(name),
    setItem(name, value) {
      const before = kept.get(name);
      kept.set(name, value);
      if (size() <= room) return;
      if (before === undefined) kept.delete(name);
      else kept.set(name, before);
      throw new DOMException('full', 'QuotaExceededError');
    },
    kept,
  };
}

const talk = (id, at = 1, text = id) => ({ id, revision: null, at, shown: 1, turns: [{ id: 1, after: 0, prompt: text }] });
const ids = (history) => history.list().map(({ id }) => id);

test('conversations are listed, read and removed, the newest first', () => {
  const history = new History(storage(), 'me');
  for (const [id, at] of [['a', 2], ['b', 3], ['c', 1]]) assert.equal(history.write(talk(id, at, `about ${id}`)).id, id);

  assert.deepEqual(history.list()[0], { id: 'b', title: 'about b', at: 3 });
  assert.deepEqual(ids(history), ['b', 'a', 'c']);
  const { revision, ...read } = history.read('a');
  assert.deepEqual({ ...read, revision: null }, talk('a', 2, 'about a'));
  history.remove('b');
  assert.deepEqual([ids(history), history.read('b')], [['a', 'c'], null]);
  history.clear();
  assert.deepEqual(ids(history), []);
});

test('what is kept for one owner is not there for another', () => {
  const shared = storage();
  const [mine, yours] = ['ssk_a', 'ssk_b'].map((key) => new History(shared, ownerOf('/', key)));
  mine.write(talk('a'));

  assert.deepEqual([ids(yours), yours.read('a')], [[], null]);
  yours.clear();
  yours.remove('a');
  assert.deepEqual(ids(mine), ['a']);
  const owners = [['/', null], ['/', ''], ['/', 'ssk_a'], ['/llm/', 'ssk_a'], ['/llm/', null]].map(([base, key]) => ownerOf(base, key));
  assert.equal(new Set(owners).size, 4); // no key and an empty one are the same
  assert.ok(![...shared.kept].flat().join().includes('ssk_'));
});

test('a conversation that another tab has gone on with is kept beside it', () => {
  const shared = storage();
  const one = new History(shared, 'me');
  const other = new History(shared, 'me');
  const first = one.write(talk('a'));
  const read = other.read('a');
  const again = one.write({ ...talk('a', 2), ...first });
  assert.equal(again.id, 'a');
  const apart = other.write({ ...read, at: 3 });

  assert.notEqual(apart.id, 'a');
  assert.deepEqual(ids(one), [apart.id, 'a']);
  assert.equal(other.write({ ...read, ...apart, at: 4 }).id, apart.id);
});

test('what another tab has deleted is not written again', () => {
  const history = new History(storage(), 'me');
  const kept = history.write(talk('a'));
  history.clear();

  assert.equal(history.write({ ...talk('a'), ...kept }), null);
  assert.deepEqual(ids(history), []);
});

test('the oldest go first, by number and by size, whoever had them', () => {
  const shared = storage();
  const [one, other] = ['one', 'other'].map((owner) => new History(shared, owner));
  for (let at = 0; at < 120; at += 1) (at % 2 ? one : other).write(talk(`c${at}`, at));
  assert.equal(shared.length, 100);
  assert.deepEqual([ids(one).at(-1), ids(other).at(-1)], ['c21', 'c20']);

  for (let at = 0; at < 4; at += 1) one.write(talk(`large${at}`, 1000 + at, 'x'.repeat(900_000)));
  const size = [...shared.kept].flat().join('').length;
  assert.ok(size <= 2_500_000, String(size));
  assert.deepEqual(ids(one).slice(0, 2), ['large3', 'large2']);
});

test('a storage that is full, forbidden or broken costs no more than what it cannot keep', () => {
  const tight = storage(1000);
  const history = new History(tight, 'me');
  for (let at = 0; at < 30; at += 1) assert.ok(history.write(talk(`c${at}`, at)));
  assert.equal(ids(history)[0], 'c29');
  assert.ok(ids(history).length > 2);
  assert.equal(history.write(talk('too large', 99, 'x'.repeat(2000))), null);

  const forbidden = { length: 0, key: () => null, getItem() { throw new Error('no'); }, setItem() { throw new Error('no'); }, removeItem() { throw new Error('no'); } };
  const none = [new History(forbidden, 'me'), new History(null, 'me')];
  for (const one of none) assert.deepEqual([one.write(talk('a')), one.read('a'), one.list(), one.clear()], [null, null, [], undefined]);

  const odd = storage();
  for (const [name, value] of [['a', ''], ['b', 'null\nnull'], ['c', '{}\n{"turns":[]}'], ['d', '{"at":1}\n{']]) odd.setItem(`seseragi.chat.me.${name}`, value);
  const broken = new History(odd, 'me');
  assert.deepEqual(['a', 'b', 'c', 'd'].map((id) => broken.read(id)), [null, null, null, null]);
  assert.equal(broken.list().length, 4);
  broken.clear();
  assert.equal(odd.length, 0);
});

test('of a conversation that is too large its last turns are kept', () => {
  const history = new History(storage(), 'me');
  const turns = Array.from({ length: 5 }, (_, at) => ({ id: at + 1, after: at, prompt: `${at}`.repeat(300_000) }));
  history.write({ ...talk('a'), turns });

  assert.deepEqual(history.read('a').turns.map(({ id }) => id), [3, 4, 5]);
});

const tree = (...edges) => edges.map(([id, after]) => ({ kept: { id, after } }));
const path = (all, at) => pathThrough(all, all[at]).map(({ kept }) => kept.id);

test('versions stand beside each other, each with what followed it', () => {
  // 1 > 2 > 3; 2 was asked again as 4, which 5 followed; 1 was edited into 6.
  const all = tree([1, 0], [2, 1], [3, 2], [4, 1], [5, 4], [6, 0]);

  assert.deepEqual([0, 1, 2, 3, 4, 5].map((at) => path(all, at)), [[1, 4, 5], [1, 2, 3], [1, 2, 3], [1, 4, 5], [1, 4, 5], [6]]);
  assert.deepEqual(versionsOf(all, all[1]).map(({ kept }) => kept.id), [2, 4]);
  assert.deepEqual(versionsOf(all, all[5]).map(({ kept }) => kept.id), [1, 6]);
  assert.equal(nextId(all), 7);
  assert.equal(nextId([]), 1);
  assert.deepEqual(pathThrough([], undefined), []);
});

test('a path ends also where what was kept names each other in a circle, or nobody', () => {
  assert.deepEqual(path(tree([1, 2], [2, 1]), 0).sort(), [1, 2]);
  assert.deepEqual(path(tree([3, 9], [4, 3]), 0), [3, 4]);
});
