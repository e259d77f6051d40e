/** Formats of numbers, times, money and names. No DOM. */

export const DASH = '–';

// Characters that reverse or hide the text around them.
const UNSAFE = /[\p{Cc}\u061c\u200b\u200e\u200f\u2028-\u202e\u2060-\u2069\ufeff]/gu;

const known = (value) => value !== null && value !== undefined && value !== '';
// Creating one takes as long as formatting a hundred numbers.
const NUMBERS = [0, 1, 2, 3, 4, 5, 6].map((digits) => new Intl.NumberFormat('en', { minimumFractionDigits: digits, maximumFractionDigits: digits }));
const TIME = new Intl.DateTimeFormat('en-GB', { timeStyle: 'medium' });

/** Escape a name or message from outside. */
export function plain(value) {
  return known(value) ? String(value).replace(UNSAFE, (one) => `\\u${one.codePointAt(0).toString(16).padStart(4, '0')}`) : DASH;
}

export const count = (value) => (known(value) ? NUMBERS[0].format(value) : DASH);

export function seconds(value) {
  if (!known(value)) return DASH;
  const s = Math.max(0, value);
  if (s < 60) return `${s.toFixed(s < 10 ? 2 : 1)} s`;
  const two = (large, each, small, part) => `${Math.floor(s / each)} ${large} ${Math.floor((s % each) / part)} ${small}`;
  return s < 3600 ? two('m', 60, 's', 1) : s < 86400 ? two('h', 3600, 'm', 60) : two('d', 86400, 'h', 3600);
}

/** Format decimal US dollars; small sums with two significant digits. */
export function usd(value) {
  if (!known(value)) return DASH;
  const amount = Number(value);
  if (amount === 0) return '$0';
  if (amount < 1e-6) return '< $0.000001';
  return `$${NUMBERS[amount >= 1 ? 2 : Math.max(2, Math.min(6, 1 - Math.floor(Math.log10(amount))))].format(amount)}`;
}

export const clock = (at) => (known(at) ? TIME.format(at * 1000) : DASH);

/** The owner of a stream. */
export function owner({ tenant, key, user, owner: whole }) {
  return plain([tenant, key, user].filter(Boolean).join(' / ') || whole);
}
