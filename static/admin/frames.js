/** Reads the frames of a stream in one dialect, and aligns two dialects. */

import { showing } from '../key.js';

const STALL_MS = 45_000; // four heartbeats of the relay
const BACKLOG_MS = 400; // frames that arrive so soon were stored before
const MOST = 50_000; // frames

/** Splits text, in any pieces, into frames; lines end in LF. */
export class FrameDecoder {
  #pieces = []; // of an incomplete line; joined once
  #fields = {};

  feed(text) {
    this.#pieces.push(text);
    if (!text.includes('\n')) return [];
    const lines = this.#pieces.join('').split('\n');
    this.#pieces = [lines.pop()];
    const frames = [];
    for (const line of lines) {
      const { event = '', data, id = '' } = this.#fields;
      const colon = line.indexOf(': ');
      if (colon > 0) this.#fields[line.slice(0, colon)] = line.slice(colon + 2);
      if (line) continue;
      if (data !== undefined) frames.push({ event, data, id });
      this.#fields = {};
    }
    return frames;
  }
}

/** Reads a stream until it has ended, over any number of connections, or until `close`. */
export class Source {
  frames = []; // each with its arrival `at`, and whether it was `live`
  ended = false;
  problem = '';
  #closed = false;
  #connection = new AbortController();

  constructor(url, changed) {
    Object.assign(this, { url, changed });
    this.#run();
  }

  close() {
    this.#closed = true;
    this.#connection.abort();
  }

  async #run() {
    for (let failures = 0; !this.#closed && !this.ended; failures++) {
      const before = this.frames.length;
      await this.#read().catch(() => { this.problem ||= 'The connection was lost; reading on…'; });
      if (this.#closed) return;
      this.changed();
      if (this.frames.length > before) failures = -1;
      await new Promise((resolve) => { setTimeout(resolve, failures > 0 ? Math.min(15_000, 500 * 2 ** failures) : 0); });
    }
  }

  async #read() {
    const connection = this.#connection = new AbortController();
    const abort = () => connection.abort();
    let watchdog = setTimeout(abort, STALL_MS);
    try {
      const last = this.frames.at(-1)?.id;
      const headers = { accept: 'text/event-stream', ...showing(), ...(last && { 'last-event-id': last }) };
      const response = await fetch(this.url, { headers, signal: connection.signal, cache: 'no-store' });
      const { status } = response;
      this.problem = response.ok ? '' : (await response.json().catch(() => null))?.detail ?? `the relay answered ${status}`;
      // 204: the cursor is at the end. Temporary errors are retried.
      this.ended = status === 204 || (!response.ok && status < 500 && status !== 429);
      if (this.ended || !response.ok) return;
      const opened = performance.now();
      const decoder = new FrameDecoder();
      const reader = response.body.pipeThrough(new TextDecoderStream()).getReader();
      for (let piece; !(piece = await reader.read()).done && !this.#closed;) {
        clearTimeout(watchdog);
        watchdog = setTimeout(abort, STALL_MS);
        this.#take(decoder.feed(piece.value), opened);
        if (this.ended) return abort();
      }
    } finally {
      clearTimeout(watchdog);
    }
  }

  #take(frames, opened) {
    const at = performance.now();
    for (const frame of frames) {
      this.frames.push({ ...frame, at, live: at - opened > BACKLOG_MS });
      if (frame.event === 'stream.end') this.ended = true; // in other dialects a 204 tells it
    }
    if (this.frames.length >= MOST) {
      this.ended = true;
      this.problem = `Only ${MOST} frames are read here.`;
    }
    if (frames.length) this.changed();
  }
}

const AHEAD = 16; // frames searched for the text of an event
const LARGE = 20_000; // characters: such a frame is a summary
const PIECE = /"(?:text|arguments)":("(?:[^"\\]|\\.)+")\}$/;

/** Finds for each frame of another dialect the native event with the same, or the next, text. */
export class Alignment {
  due = []; // for each frame the number of its event, from 1
  #event = 0; // how many events have been looked for
  #frames = 0; // how many frames are settled

  /** `ended` says that there will be no more of either. */
  update(events, frames, ended) {
    this.due.length = this.#frames;
    for (; this.#event < events.length; this.#event++) {
      const { event, data } = events[this.#event];
      const piece = event.endsWith('.delta') && PIECE.exec(data)?.[1];
      if (!piece) continue;
      const ahead = frames.slice(this.#frames, this.#frames + AHEAD);
      const found = ahead.findIndex((frame) => frame.data.length < LARGE && frame.data.includes(piece));
      if (found < 0 && !ended && ahead.length < AHEAD) break; // it may still come
      this.#frames += found + 1;
      while (this.due.length < this.#frames) this.due.push(this.#event + 1);
    }
    while (this.due.length < frames.length) this.due.push(events.length); // as far as it is known
    return this.due;
  }
}
