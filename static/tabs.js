/**
 * The tabs of a browser that share something: one leads, the others hear it. A part of store.js.
 *
 * The leader holds a lock. Another tab takes it when the leader has gone, says nothing (its tab may be frozen), or when that tab is the one that is seen.
 *
 * @module
 */

const SILENCE_MS = 4000; // without a word of the leader it is asked, and then replaced

/**
 * @typedef {object} Role
 * @property {() => void} lead begin, or begin again
 * @property {() => void} yield_ another tab leads
 * @property {() => object} state what the leader answers when it is asked
 * @property {(message: any) => void} hear a message of the leader
 * @property {() => void} see the page is seen again, or the network is back
 * @property {() => boolean} isAwaited whether the silence of the leader matters
 */

export class Tabs {
  isLeader = false;
  #name;
  #role;
  #channel;
  #pending = new AbortController();
  #release = () => {};
  /** @type {ReturnType<typeof setTimeout>|undefined} */
  #timer;

  /** @param {string} name the same in all tabs @param {Role} role */
  constructor(name, role) {
    this.#name = name;
    this.#role = role;
    this.#channel = new BroadcastChannel(name);
    this.#channel.onmessage = ({ data }) => this.#hear(data);
    globalThis.document?.addEventListener('visibilitychange', this.#see);
    globalThis.addEventListener?.('online', this.#see);
  }

  /** Tell the other tabs. @param {object} message */
  post(message) {
    this.#channel.postMessage(message);
  }

  /** Lead now, and no other tab. */
  lead() {
    this.#begin();
    this.#take(true);
  }

  /** Lead once no other tab does. */
  follow() {
    this.ask();
    this.#take();
  }

  /** Ask whether there is a leader, now or after a silence. */
  ask(isNow = true) {
    if (isNow) this.post({ isAsked: true });
    clearTimeout(this.#timer);
    this.#timer = setTimeout(() => (isNow ? this.lead() : this.ask(this.#role.isAwaited())), SILENCE_MS);
  }

  /** @param {number} [lingerMs] the lock outlives this by so long */
  close(lingerMs = 0) {
    clearTimeout(this.#timer);
    globalThis.document?.removeEventListener('visibilitychange', this.#see);
    globalThis.removeEventListener?.('online', this.#see);
    this.#channel.close();
    this.#pending.abort();
    this.#pending = new AbortController(); // what was asked for is not current
    setTimeout(this.#release, lingerMs);
  }

  // A page that is seen again trusts no other's connection: a hidden page does not learn that its own is dead.
  #see = () => { if (globalThis.document?.visibilityState === 'visible') this.#role.see(); };

  #begin() {
    clearTimeout(this.#timer);
    this.isLeader = true;
    this.#role.lead();
  }

  /** Take the lock from another tab, or wait for it. @param {boolean} [steal] */
  #take(steal = false) {
    this.#pending.abort();
    const pending = this.#pending = new AbortController();
    const isCurrent = () => pending === this.#pending;
    globalThis.navigator.locks.request(this.#name, steal ? { steal } : { signal: pending.signal }, () => {
      if (!isCurrent()) return undefined;
      if (!this.isLeader) this.#begin();
      this.post(this.#role.state());
      return new Promise((resolve) => { this.#release = () => resolve(undefined); });
    }).catch(() => {
      if (!isCurrent()) return;
      this.isLeader = false; // another tab has taken it
      this.#role.yield_();
      this.follow();
    });
  }

  /** @param {any} message */
  #hear(message) {
    if (message.isAsked) {
      if (this.isLeader) this.post(this.#role.state());
    } else if (!this.isLeader) {
      this.ask(false);
      this.#role.hear(message);
    }
  }
}
