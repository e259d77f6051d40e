// What the page says of its own modules.

import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import test from 'node:test';

const STATIC = new URL('../../static/', import.meta.url);

/** The modules that one imports, and those that these import. @param {URL} module @param {Set<string>} found */
function imported(module, found = new Set()) {
  for (const [, path] of readFileSync(module, 'utf8').matchAll(/^(?:import|export)\b[^;]*?from '(\.[^']+)';/gm)) {
    const other = new URL(path, module);
    if (found.has(other.href)) continue;
    found.add(other.href);
    imported(other, found);
  }
  return found;
}

test('the page names all modules that it needs, so that they come at once', () => {
  const page = readFileSync(new URL('index.html', STATIC), 'utf8');
  const named = [...page.matchAll(/<link rel="modulepreload" href="static\/([^"]+)">/g)].map(([, path]) => new URL(path, STATIC).href);

  assert.deepEqual(named.toSorted(), [...imported(new URL('chat.js', STATIC))].toSorted());
});
