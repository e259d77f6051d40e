/// <reference lib="esnext.disposable" />

/** A relay for tests in Node.js: the command on a free port, a scripted provider, cassettes. */

/** What a script is made of; after the last step the connection is closed. */
export type Step =
  | { readonly send: string | Uint8Array }
  | { readonly wait: number }
  | { readonly hold: true }
  | { readonly reset: true };

export type Script = readonly Step[];

/** One request as it came to the provider. */
export interface Call {
  readonly method: string;
  readonly path: string;
  /** By their names in lower case. */
  readonly headers: Readonly<Record<string, string>>;
  readonly body: string;
  /** Whether the relay has closed the connection. */
  readonly closed: boolean;
  json(): any;
}

/** A provider that does what a script says. */
export interface Upstream {
  /** Played to every call. */
  script: Script;
  /** Where a call decides what is played to it. */
  choose: ((call: Call) => Script) | null;
  /** Played to every GET. */
  models: Script;
  /** What has come, but for every GET. */
  readonly calls: Call[];
  readonly port: number;
  readonly baseUrl: string;
  /** Forget what has come, and play this script from now on. */
  reset(script?: Script): void;
  stop(): Promise<void>;
}

export interface RelayOptions {
  /** How the relay is started; `['seseragi']` without it, else such as `['.venv/bin/python', '-m', 'seseragi']`. */
  command?: readonly string[];
  /** The folder of cassettes; an empty one, which is removed, without it. */
  cassettes?: string | null;
  /** What `record_cassettes` is. */
  record?: 'off' | 'new' | 'replay';
  /** The relay's settings, by their names. */
  settings?: Readonly<Record<string, string | number | boolean | readonly string[]>>;
  /** What the scripted provider speaks. */
  dialect?: string;
  /** Whether the environment is passed on, with the providers whose keys are in it: they cost money. */
  providers?: boolean;
  timeoutMs?: number;
}

/** A relay that runs. The model `scripted/NAME`, of any name, is answered by `upstream`. */
export interface Relay {
  readonly url: string;
  /** What an SDK takes as its base URL. */
  readonly apiUrl: string;
  readonly upstream: Upstream;
  /** The folder: `NAME.jsonl` in it is the model `cassette/NAME`. */
  readonly cassettes: string;
  /** The last lines of its log, JSON each. */
  readonly log: readonly string[];
  /** Have the provider answer as at the start, and forget what it was sent. */
  reset(): void;
  /** Stop it, within five seconds; `await using` does so too. */
  stop(): Promise<void>;
  [Symbol.asyncDispose](): Promise<void>;
}

/** Run a relay in a process of its own, until `stop`. Rejects, with its log, if it does not start. */
export function startRelay(options?: RelayOptions): Promise<Relay>;

/** Run a scripted provider alone. */
export function startUpstream(): Promise<Upstream>;

/** Send bytes, whatever they are: half a line, garbage, a head of one's own. */
export function send(data: string | Uint8Array): Step;
/** Do nothing for so many seconds. */
export function wait(seconds: number): Step;
/** Stay silent until the relay closes the connection. */
export function hold(): Step;
/** Break the connection: RST instead of FIN. */
export function reset(): Step;
/** Send the head of a reply whose body ends with the connection. */
export function head(status?: string, contentType?: string, headers?: Record<string, string>): Step;
/** Send the head of a reply in chunks, whose end can be told from a cut. */
export function chunkedHead(): Step;
/** Send one chunk of such a body. */
export function chunk(data: string): Step;
/** The end of such a body. */
export const LAST_CHUNK: Step;
/** A whole reply, such as `reply('429 Too Many Requests', '{}')`. */
export function reply(status: string, body: string, contentType?: string, headers?: Record<string, string>): Script;
/** One chunk of Chat Completions as a server-sent event, to be sent. */
export function event(delta?: object, fields?: object): string;
/** The end of an answer of Chat Completions: why it ends, what it used, and that it is over. */
export const FINISH: string;
export const USAGE: string;
export const DONE: string;
/** The chunk of a piece of text. */
export function text(content: string): string;
/** A whole answer of Chat Completions, one read a piece. */
export function answer(...pieces: string[]): Script;
