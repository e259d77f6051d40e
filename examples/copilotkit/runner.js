// CopilotKit's `AgentRunner` whose runs are the relay's: nothing is stored twice.

import { AgentRunner } from '@copilotkit/runtime/v2';
import { Observable } from 'rxjs';
import { ChatStream, cancel, listStreams } from 'seseragi';

const ENDS = new Set(['RUN_FINISHED', 'RUN_ERROR']);
const AG_UI = { format: 'ag_ui', parse: (data) => JSON.parse(data), ends: ({ type }) => ENDS.has(type) };

/** The events that `read` yields, until nobody observes them: then the relay goes on alone. */
function observe(read) {
  return new Observable((observer) => {
    const left = new AbortController();
    (async () => {
      try {
        for await (const event of read(left.signal)) observer.next(event);
      } catch ({ code, message }) {
        observer.next({ type: 'RUN_ERROR', code, message });
      }
      observer.complete();
    })();
    return () => left.abort();
  });
}

export class RelayRunner extends AgentRunner {
  #url;
  #options;
  #threads;

  /** `threads` has the last run of each thread and what it was asked: a table of your database, with `get` and `set`. */
  constructor({ url, credential, threads = new Map() }) {
    super();
    this.#url = `${url}/v1/ag-ui`;
    this.#options = { credential, streamsUrl: `${url}/v1/streams`, dialect: AG_UI };
    this.#threads = threads;
  }

  run({ threadId, input }) {
    const forwardedProps = { on_disconnect: 'continue', overlap: 'refuse', ...input.forwardedProps };
    const options = { ...this.#options, url: this.#url, idempotencyKey: input.runId };
    return observe(async function* (signal) {
      for await (const { event } of new ChatStream({ ...input, forwardedProps }, { ...options, signal })) {
        if (event.type === 'RUN_STARTED') await this.#threads.set(threadId, { runId: input.runId, messages: input.messages });
        yield event;
      }
    }.bind(this));
  }

  connect({ threadId }) {
    return observe(async function* (signal) {
      const { runId, messages } = await this.#threads.get(threadId) ?? {};
      const [run] = runId === undefined ? [] : await this.#find({ runId });
      if (!run) return;
      for await (const { event } of new ChatStream(null, { ...this.#options, stream: run.stream, signal })) {
        yield event;
        if (event.type === 'RUN_STARTED') yield { type: 'MESSAGES_SNAPSHOT', messages };
      }
    }.bind(this));
  }

  async isRunning({ threadId }) {
    return (await this.#find({ threadId, status: 'running' })).length > 0;
  }

  async stop({ threadId, runId }) {
    const runs = await this.#find({ threadId, runId, status: 'running' });
    await Promise.all(runs.map(({ stream }) => cancel(stream, this.#options)));
    return runs.length > 0;
  }

  async #find({ threadId, runId, status }) {
    const metadata = runId === undefined ? `thread_id:${threadId}` : `run_id:${runId}`;
    const { data } = await listStreams({ ...this.#options, metadata, status });
    return data;
  }
}
