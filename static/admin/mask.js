/** Masks the content of frames: all but listed fields become dots of the same length. */

const words = (text) => new Set(text.split(' '));

/** Fields with names, shown if they look like one. */
const NAMES = words('type id object model role status code name stream upstream upstream_id provider cost service_tier finish_reason finish_reason_raw stop_reason'
  + ' finishReason reason format media_type scope item_id call_id messageId parentMessageId toolCallId toolName toolCallName threadId runId protocolVersion');
const NAME = /^[\w.:/@+~=-]*$/;

/** Error messages of the relay; these notices quote the provider. */
const MESSAGES = words('message errorText');
const QUOTES = words('refusal finish_message');

/** Objects and lists whose fields are masked one by one. */
const STRUCTURE = words('choices delta message tool_calls function response item part output content content_block error usage outcome messageMetadata'
  + ' input_tokens_details output_tokens_details');
const LONGEST = 80; // dots

function dots(text) {
  const length = [...text].length;
  return '•'.repeat(Math.min(length, LONGEST)) + (length > LONGEST ? ` (${length})` : '');
}

/** Return the data of a frame with its content masked. */
export function masked(data) {
  if (data === '[DONE]') return data;
  try {
    return JSON.stringify(object(JSON.parse(data)));
  } catch {
    return dots(data); // no object
  }
}

function object(whole) {
  if (whole.constructor !== Object) throw new TypeError('no object');
  return Object.fromEntries(Object.entries(whole).map(([key, value]) => [key, field(key, value, whole)]));
}

function field(key, value, beside) {
  if (typeof value === 'string') {
    const shown = NAMES.has(key) ? NAME.test(value) && value.length < 200 : MESSAGES.has(key) && !QUOTES.has(beside.code);
    return shown ? value : dots(value);
  }
  if (value === null || typeof value !== 'object' || !Object.keys(value).length) return value;
  const known = STRUCTURE.has(key)
    || (key === 'data' && beside.type === 'data-seseragi') || (key === 'value' && `${beside.name}`.startsWith('seseragi.')); // our own events in other dialects
  // Only typed items of a list: `logprobs`, for example, are untyped words.
  if (known && Array.isArray(value) && value.every((item) => item && ('type' in item || 'index' in item || 'provider' in item))) return value.map(object);
  return known && !Array.isArray(value) ? object(value) : dots(JSON.stringify(value));
}
