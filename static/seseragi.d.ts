/**
 * The types of seseragi.js, the browser client of Seseragi, written by hand.
 */

// ---- The events ---------------------------------------------------------------------------------

/** The name of every native event: what an EventSource has to listen for, one by one. */
export const EVENT_TYPES: readonly StreamEvent['type'][];

export type FinishReason = 'stop' | 'length' | 'tool_calls' | 'content_filter' | 'refusal' | 'pause' | 'error' | 'cancelled' | 'unknown';
export type Status = 'completed' | 'cancelled' | 'failed' | 'interrupted';

/** What a stream used. A number that is not known is absent, never 0. */
export interface Usage {
  input_tokens?: number;
  output_tokens?: number;
  total_tokens?: number;
  cached_input_tokens?: number;
  cache_write_tokens?: number;
  reasoning_tokens?: number;
  /** What these tokens cost, in USD: a decimal number such as "0.00135". Absent where a price is unknown. */
  cost?: string;
  /** Whether the relay has estimated what the provider did not say. */
  estimated?: true;
  /** Whose word `cost` is, where it is not the relay's own, by its prices. */
  cost_from?: 'provider';
}

export interface StreamFailure {
  code: string;
  message: string;
  retryable: boolean;
  retry_after_s?: number;
}

/** `choice` is absent for choice 0; blocks are numbered across the whole stream. */
export interface InBlock {
  block: number;
  choice?: number;
}

export type StreamStart = { type: 'stream.start'; stream: string; model: string; created: number; labels?: Record<string, string> };
export type StreamTarget = { type: 'stream.target'; upstream: string; model: string; attempt: number; upstream_id?: string; usage?: Usage };
export type TextStart = InBlock & { type: 'text.start' };
export type TextDelta = InBlock & { type: 'text.delta'; text: string };
export type TextEnd = InBlock & { type: 'text.end' };
export type ReasoningStart = InBlock & { type: 'reasoning.start' };
export type ReasoningDelta = InBlock & { type: 'reasoning.delta'; text: string };
export type ReasoningEnd = InBlock & { type: 'reasoning.end'; signature?: string; encrypted?: string; format?: string };
export type RefusalStart = InBlock & { type: 'refusal.start' };
export type RefusalDelta = InBlock & { type: 'refusal.delta'; text: string };
export type RefusalEnd = InBlock & { type: 'refusal.end' };
/** The provider's own words, in its dialect `format`; `data` is a JSON object as text. */
export type Raw = { format: string; data: string };
export type ToolCallStart = InBlock & { type: 'tool_call.start'; id: string; name: string; raw?: Raw };
/** `arguments` is a piece of JSON text. */
export type ToolCallDelta = InBlock & { type: 'tool_call.delta'; arguments: string };
/** `arguments` is the whole JSON text. */
export type ToolCallEnd = InBlock & { type: 'tool_call.end'; arguments: string; incomplete?: boolean };
/** To be sent back to the provider on the next turn. */
export type Opaque = Partial<InBlock> & { type: 'opaque'; format: string; data: unknown };
export type Source = Partial<InBlock> & {
  type: 'source'; url?: string; document?: unknown; title?: string; cited_text?: string; start?: number; end?: number;
  raw?: Raw;
};
/** `data` is base64. */
export type Media = InBlock & { type: 'media'; media_type: string; url?: string; data?: string };
export type Logprobs = InBlock & { type: 'logprobs'; content: unknown };
export type ContentFilter = { type: 'content_filter'; choice?: number; scope: 'prompt' | 'completion'; categories: unknown; filtered: boolean };
/** A tool that the provider ran itself. */
export type ProviderTool = InBlock & { type: 'provider_tool'; name: string; input?: unknown; output?: unknown; raw?: Raw };
/** What only the provider's dialect has, for clients of that dialect. */
export type ProviderData = Partial<InBlock> & { type: 'provider_data'; raw: Raw };
/** For developers; no part of the answer. */
export type Notice = { type: 'notice'; code: string; message: string };
export type ChoiceEnd = { type: 'choice.end'; choice?: number; finish_reason: FinishReason; finish_reason_raw?: string; stop_sequence?: string; raw?: Raw };
export type UsageEvent = Usage & { type: 'usage' };
/** Who or what ended an answer before it was complete; values may be added. */
export type EndedBy =
  | 'user' | 'operator' | 'reader_gone' | 'budget' | 'deadline' | 'provider' | 'relay' | 'relay_lost' | 'shutdown'
  | (string & {});
/** Always the last. `cost` is in USD, of the whole stream: attempts that failed before the answer are in it. */
export type StreamEnd = {
  type: 'stream.end'; status: Status; finish_reason?: FinishReason; usage?: Usage; error?: StreamFailure; cost?: string;
  ended_by?: EndedBy;
  /** Whether another target continued the answer after a failure within it. */
  rescued?: true;
};

/** Every native event, told apart by `type`. */
export type StreamEvent =
  | StreamStart | StreamTarget
  | TextStart | TextDelta | TextEnd
  | ReasoningStart | ReasoningDelta | ReasoningEnd
  | RefusalStart | RefusalDelta | RefusalEnd
  | ToolCallStart | ToolCallDelta | ToolCallEnd
  | Opaque | Source | Media | Logprobs | ContentFilter | ProviderTool | ProviderData | Notice
  | ChoiceEnd | UsageEvent | StreamEnd;

/**
 * One event as it was received. It stands beside its id and not around it: `tool_call.start` has
 * an `id` of its own.
 */
export interface Received<E = StreamEvent> {
  /** The cursor to read on from. Take it as opaque. */
  id: string;
  event: E;
  /** The event's JSON as it stood on the wire. */
  data: string;
}

// ---- The request and the options ----------------------------------------------------------------

/** The body of POST /v1/chat: a Chat Completions request and four fields of Seseragi's own. */
export interface ChatRequest {
  messages: { role: string; content?: unknown; [field: string]: unknown }[];
  model?: string;
  on_disconnect?: 'continue' | 'cancel' | number;
  /** The conversation, of which `overlap` speaks. */
  chat?: string;
  /** While another stream of the chat runs: run beside it (the default), be refused, or stop it. */
  overlap?: 'allow' | 'refuse' | 'replace';
  provider_options?: Record<string, unknown>;
  [field: string]: unknown;
}

/** What `POST /v1/client_secrets` answers. */
export interface ClientSecret {
  value: string;
  /** In unix seconds. Without it the function is asked again for each request. */
  expires_at?: number;
}

/** Fetches a credential from the application's own server, for instance. */
export type FetchCredential = () => string | ClientSecret | Promise<string | ClientSecret>;

export interface CallOptions {
  signal?: AbortSignal;
  /**
   * Who asks: sent as `authorization: Bearer ...`, and never with a URL that has a token.
   *
   * A function is asked before a credential ends, and once more when one was refused (401). What
   * it gave is kept by the function itself: give every call the same one, and another user another.
   */
  credential?: string | FetchCredential | null;
  /** In place of the global one. */
  fetch?: typeof globalThis.fetch;
  /** Sent with every request; a function is asked each time anew. */
  headers?: HeadersInit | (() => HeadersInit | Promise<HeadersInit>);
}

/** What a client keeps `{id, cursor}` in; `sessionStorage` is one. */
export type ClientStorage = Pick<Storage, 'getItem' | 'setItem' | 'removeItem'>;

export interface ReadOptions extends CallOptions {
  /** Where the streams are. Default: `streams` besides the `url`. */
  streamsUrl?: string;
  /** Attempts in a row, without an event between them, before it gives up: 20. 0: never reconnect. */
  maxAttempts?: number;
  /** The waiting before all those attempts together: 600000. */
  maxWaitMs?: number;
  /** The least wait before the relay has named one by `retry:`: 1000. */
  retryMs?: number;
  /** The longest wait, unless the relay asks for more: 30000. */
  maxDelayMs?: number;
  /** A connection on which no byte came for so long is lost: 45000. The relay sends one every 10 s, and a GET gets its head within 5 s, at first. */
  stallMs?: number;
  /** Keeps `{id, cursor}` while the stream runs, for `resumeFrom`. */
  storage?: ClientStorage;
  /** Where in it: `seseragi`. */
  storageKey?: string;
}

export interface ChatOptions extends ReadOptions {
  /** Default: `/v1/chat` of the relay that served this module, else of the page's own host. */
  url?: string | URL;
  /** Sent as `Idempotency-Key`: with it, a POST that got no answer is sent again. */
  idempotencyKey?: string;
}

export interface ResumeOptions extends ReadOptions {
  /** The id of the last event seen, or its number; without it, the stream from its beginning. */
  after?: string | number | null;
}

/**
 * How frames of another of the relay's dialects are read: for adapters, which POST to its path.
 * After a cut the rest is asked for in the same dialect.
 */
export interface Dialect<E> {
  /** Its name in `?format=`: `ui`, `ag_ui`. */
  format: string;
  parse(data: string): E;
  /** Whether it is the last of its stream. */
  ends(event: E): boolean;
}

// ---- Errors -------------------------------------------------------------------------------------

/** The codes that are the client's own. */
export type ClientErrorCode = 'connection_failed' | 'connection_lost' | 'events_missing' | 'end_missing' | 'invalid_response' | 'credential_failed' | 'http_error';

/** The codes of the relay that can come before a stream begins, or instead of one. */
export type RelayErrorCode =
  | 'invalid_request' | 'unauthenticated' | 'forbidden' | 'not_found' | 'model_not_found' | 'method_not_allowed'
  | 'conflict' | 'idempotency_mismatch' | 'stream_expired' | 'previous_response_not_found' | 'request_too_large' | 'unsupported_media_type' | 'upgrade_required' | 'rate_limited' | 'budget_exceeded'
  | 'context_length_exceeded' | 'content_filtered' | 'upstream_invalid_request' | 'upstream_auth' | 'upstream_forbidden' | 'upstream_billing'
  | 'upstream_not_found' | 'upstream_rate_limited' | 'upstream_unavailable' | 'upstream_overloaded' | 'upstream_timeout'
  | 'upstream_invalid_response' | 'upstream_tool_failed' | 'upstream_truncated' | 'overloaded' | 'producer_lost'
  | 'cancelled' | 'internal';

/** A code that a later version knows is a string too. */
export type ErrorCode = ClientErrorCode | RelayErrorCode | (string & {});

/**
 * What went wrong outside the stream of events.
 * A failure inside a stream is no exception: it is `stream.end` with its `status` and `error`.
 */
export class SeseragiError extends Error {
  constructor(code: ErrorCode, message: string, about?: {
    status?: number; retryable?: boolean; retryAfterS?: number | null; requestId?: string | null; stream?: string | null; cause?: unknown;
  });
  readonly name: 'SeseragiError';
  readonly code: ErrorCode;
  /** The HTTP status, 0 when there was none. */
  readonly status: number;
  /** Whether the same request may succeed later. */
  readonly retryable: boolean;
  /** Seconds to wait before that, where the relay said so. */
  readonly retryAfterS: number | null;
  readonly requestId: string | null;
  /** The running stream of the chat, where that is why: `overlap: 'refuse'`. */
  readonly stream: string | null;
}

// ---- Server-sent events -------------------------------------------------------------------------

/** One decoded message. `id` and `retry` are those in force when it was dispatched. */
export interface Message {
  event: string;
  data: string;
  id: string;
  retry: number | null;
}

/** Bytes in, messages out: the event stream format of WHATWG HTML 9.2.6, fed in any pieces. */
export class SseDecoder {
  /** The last `retry:` in milliseconds, also one that came without a message. */
  get retry(): number | null;
  /** Give the messages that these bytes complete. */
  feed(bytes: Uint8Array): Message[];
  /** End the input and give the unfinished message, which the standard does not dispatch. */
  close(): Message | null;
}

// ---- Reading ------------------------------------------------------------------------------------

/** Read the events of one response, up to and including `stream.end`. It does not reconnect. */
export function readEvents(response: Response, options?: { signal?: AbortSignal }): AsyncGenerator<Received, void, void>;

/**
 * `connecting`: no answer yet. `open`: reading. `reconnecting`: the connection was lost, and the
 * next is being waited for or made. `closed`: ended, failed or left.
 */
export type ReadyState = 'connecting' | 'open' | 'reconnecting' | 'closed';

/**
 * One generation, read over any number of connections. Iterating it sends the request; it can be
 * iterated once. It dispatches `statechange` whenever `readyState` has changed,
 * and `wait` whenever `retryAt` has.
 *
 * The loop ends after `stream.end` and not otherwise: where the relay says that the stream has ended
 * and there is nothing after the cursor, it throws `end_missing`. It throws a SeseragiError when it cannot go on, and an AbortError (or
 * the reason given) after `disconnect()` or an abort of the signal.
 */
export class ChatStream<E = StreamEvent> extends EventTarget implements AsyncIterable<Received<E>> {
  /**
   * Without a request it reads what exists: the `stream`, by its id or `events_url`, or what a GET
   * of the `url` answers with. For another dialect than the native one the request is of its form.
   */
  constructor(request: ChatRequest | object | null, options?: ChatOptions & ResumeOptions & { stream?: string; dialect?: Dialect<E> });
  /** The stream's id, once the answer has begun. */
  readonly streamId: string | null;
  /** The id of the last event handed over: the cursor. */
  readonly lastEventId: string | null;
  readonly requestId: string | null;
  readonly readyState: ReadyState;
  /** How often a lost connection was replaced. */
  readonly reconnects: number;
  /** Why it has to connect again, or that no answer has come for `stallMs`; else null. */
  readonly problem: SeseragiError | null;
  /** When the next attempt is made, in milliseconds since the epoch; null while none is waited for. */
  readonly retryAt: number | null;
  [Symbol.asyncIterator](): AsyncGenerator<Received<E>, void, void>;
  /**
   * Stop the generation, wherever it is read. The loop goes on to its `stream.end`; where the
   * request could not be sent yet, it throws an AbortError. What waits for a connection gets that of the loop, which reads on later.
   */
  cancel(): Promise<void>;
  /** Stop reading and leave the generation to the relay; the loop throws the reason. */
  disconnect(reason?: unknown): void;
  /** End the wait for the next attempt, for somebody who does not want to wait; also one that the relay asked for. */
  retryNow(): void;
  addEventListener(type: ('statechange' | 'wait'), listener: ((event: Event) => void) | null, options?: boolean | AddEventListenerOptions): void;
  removeEventListener(type: ('statechange' | 'wait'), listener: ((event: Event) => void) | null, options?: boolean | EventListenerOptions): void;
}

/** Ask for an answer and read it as it comes. */
export function chat(request: ChatRequest, options?: ChatOptions): ChatStream;

/** Read a stream that exists, by its id or its `events_url`, with the token in that, and on while it runs. */
export function resume(stream: string, options?: ResumeOptions): ChatStream;

/**
 * Read on what the `storage` option has kept; null if nothing was running.
 *
 * The cursor is that of the last event handed over. A page that has not kept what those events
 * said passes `after: null` to have them all again.
 */
export function resumeFrom(storage: ClientStorage, key?: string, options?: ResumeOptions): ChatStream | null;

// ---- Calls --------------------------------------------------------------------------------------

export interface StartedStream {
  id: string;
  events_url: string;
  cancel_url: string;
}

/** Start a generation without reading it: for an EventSource, another tab, or later. The URLs are resolved. */
export function startAsync(
  request: ChatRequest, options?: CallOptions & { url?: string | URL; idempotencyKey?: string },
): Promise<StartedStream>;

export interface ListedStream {
  stream: string;
  status: Status | 'running';
  model: string;
  /** Unix seconds. */
  created: number;
  timings: { started_at: number; ended_at?: number };
  /** The `metadata` of the request; `chat` of the AI SDK, `thread_id` and `run_id` of AG-UI. */
  metadata?: Record<string, string>;
  /** Of its `stream.end`. */
  last_event_id?: string;
}

export interface StreamList {
  data: ListedStream[];
  /** The `after` of the next page; absent on the last. */
  next?: string;
}

export interface ListOptions extends CallOptions {
  streamsUrl?: string;
  status?: 'running' | 'ended';
  /** `key:value`: only streams with this metadata. A page may then be short, or empty, and have a `next`. */
  metadata?: string;
  /** The most streams: 1 to 100, by default 20. */
  limit?: number;
  after?: string;
}

/** An `AbortError`: a DOMException, or an Error where there is none, as in React Native. */
export function abortError(message: string): Error;

/** `signal.throwIfAborted()`, also for signals without it, as those of React Native. */
export function throwIfAborted(signal: AbortSignal | undefined): void;

/** The URL of the streams beside that of the chat: `v1/streams` besides `v1/chat`. */
export function besides(url?: string): string;

/** Read what is sent as a credential; null where none is. That of a function is fetched as for a request, and for all of them. */
export function readCredential(credential: CallOptions['credential']): string | Promise<string> | null;

/** Forget what a function has fetched, as when the user signs out: the next request asks it again. */
export function forgetCredential(credential: CallOptions['credential']): void;

/** List the streams of who asks, to find on another device what runs: running ones, then ended ones, the newest first. */
export function listStreams(options?: ListOptions): Promise<StreamList>;

/** What a watch tells of a stream, or that it is up to date (`running`: all streams that run, unless they are too many). */
export type WatchEvent =
  | (ListedStream & { type: 'stream.started' | 'stream.ended' })
  | { type: 'stream.removed' | 'events.lost'; stream: string }
  | { type: 'watch.ready'; running?: string[]; complete?: boolean }
  | (StreamEvent & { stream: string });

export interface Watched {
  /** A cursor over all streams, for `after`. */
  id: string;
  event: WatchEvent;
}

export interface WatchOptions extends CallOptions {
  streamsUrl?: string;
  /** `key:value`: only streams with this metadata. */
  metadata?: string;
  /** Also the events of the streams, each with its `stream`: one connection serves any number of answers. */
  events?: boolean;
  /** The `id` of the last event seen. Without it, the streams that run now come first. */
  after?: string;
  /** Silence after which a connection counts as lost, by default 45 s. */
  stallMs?: number;
  /** How many attempts to connect again may fail in a row: any number. */
  maxAttempts?: number;
  /** Is told that a connection broke, or that none is made for now. */
  onLoss?(): void;
}

/** Watch the streams of who asks, on all devices, until the signal is aborted or the loop is left. */
export function watchStreams(options?: WatchOptions): AsyncGenerator<Watched, void, void>;

/**
 * Stop a generation by its id or its `cancel_url`. Readers still get its `stream.end`, `cancelled`.
 * What it sends outlives the page, so that it may be called as a page is being closed.
 */
export function cancel(stream: string, options?: CallOptions & { streamsUrl?: string }): Promise<void>;
