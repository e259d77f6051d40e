/**
 * JSON that is still being written: structured output, the arguments of a tool call.
 *
 *     parsePartial('{"city":"Kyo').value // { city: 'Kyo' }
 *
 * @module seseragi/partial-json
 */

const CLOSERS = { '{': '}', '[': ']' };
const LITERAL = /[^\s,:[\]{}"]+/y;
const HIGH_SURROGATE = /[\ud800-\udbff]$/;

/**
 * Return what a beginning of JSON says for sure: strings as far as they go, and numbers, `true`,
 * keys and the like once they are whole. It takes time in proportion to the text.
 *
 * @param {string} text
 * @returns {{value: unknown, complete: boolean}} `value` is undefined where there is none yet, or the text is no JSON
 */
export function parsePartial(text) {
  const whole = parse(text);
  if (whole !== undefined) return { value: whole, complete: true };
  const said = wholeValues(text);
  return { value: parse(said), complete: false };
}

/** @param {string} text */
function parse(text) {
  try {
    return JSON.parse(text);
  } catch {
    return undefined;
  }
}

/** Cut the text behind its last whole value, or in a string, and close what is open. @param {string} text */
function wholeValues(text) {
  /** @type {string[]} */
  const open = [];
  let isKey = false; // whether a string that begins here is a key
  let end = 0;
  for (let at = 0; at < text.length;) {
    const char = text[at];
    if (char === '"') {
      const string = stringAt(text, at);
      if (!string.closed) return isKey ? close(text.slice(0, end), open) : close(`${text.slice(0, string.end)}"`, open);
      at = string.end;
      if (!isKey) end = at;
    } else if (char === '{' || char === '[') {
      open.push(CLOSERS[char]);
      isKey = char === '{';
      end = at += 1;
    } else if (char === '}' || char === ']') {
      open.pop();
      end = at += 1;
    } else {
      if (char === ':') isKey = false;
      if (char === ',') isKey = open.at(-1) === '}';
      LITERAL.lastIndex = at;
      const [literal = ''] = LITERAL.exec(text) ?? [];
      at += literal.length || 1;
      // A number at the very end may go on.
      if (literal && (at < text.length || /^(true|false|null)$/.test(literal))) end = at;
    }
  }
  return close(text.slice(0, end), open);
}

/** @param {string} text @param {string[]} open */
function close(text, open) {
  return text + open.reverse().join('');
}

/** Find the end of a string, or of what can be read of it. @param {string} text @param {number} start */
function stringAt(text, start) {
  let at = start + 1;
  let end = at;
  for (; at < text.length; end = at) {
    if (text[at] === '"') return { closed: true, end: at + 1 };
    if (text[at] === '\\') at += text[at + 1] === 'u' ? 6 : 2;
    else at += 1;
    if (at > text.length) break; // within an escape
  }
  // Half of a character: the other half comes next.
  if (HIGH_SURROGATE.test(text.slice(end - 1, end))) end -= 1;
  const escaped = /\\u[dD][89abAB][0-9a-fA-F]{2}$/.exec(text.slice(Math.max(start, end - 6), end));
  return { closed: false, end: escaped && !isEscaped(text, end - 6) ? end - 6 : end };
}

/** Whether the backslash here is itself escaped. @param {string} text @param {number} at */
function isEscaped(text, at) {
  let before = 0;
  while (text[at - 1 - before] === '\\') before += 1;
  return before % 2 === 1;
}
