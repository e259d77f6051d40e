/**
 * A conversation as a tree: a question that is edited, or answered again, stands beside what it was.
 *
 * A turn names the one before it; those that name the same one are versions of each other.
 * What is shown is one path, from a first turn to the end of the newest that follows.
 */

/** @typedef {{kept: {id: number, after: number}}} Node `after` is 0 for a first turn */

/**
 * Return the versions of a turn, the oldest first.
 * @template {Node} T
 * @param {readonly T[]} all
 * @param {T} turn
 */
export function versionsOf(all, turn) {
  return all.filter(({ kept }) => kept.after === turn.kept.after);
}

/**
 * Return the path that leads to a turn and on through the newest that follow it.
 * @template {Node} T
 * @param {readonly T[]} all in the order in which they were asked
 * @param {T|undefined} turn
 * @returns {T[]}
 */
export function pathThrough(all, turn) {
  const byId = new Map(all.map((one) => [one.kept.id, one]));
  const newest = new Map(all.map((one) => [one.kept.after, one])); // the last one given stays
  /** @type {Set<T>} */
  const path = new Set();
  for (let at = turn; at && !path.has(at); at = byId.get(at.kept.after)) path.add(at);
  const found = [...path].reverse();
  for (let at = turn && newest.get(turn.kept.id); at && !path.has(at); at = newest.get(at.kept.id)) {
    path.add(at);
    found.push(at);
  }
  return found;
}

/** Return the number for a next turn. @param {readonly Node[]} all */
export function nextId(all) {
  return Math.max(0, ...all.map(({ kept }) => kept.id)) + 1;
}
