// TanStack AI's `StreamDurability` whose log is the relay's: nothing is stored twice.

import { ChatStream, listStreams } from 'seseragi';

const ENDS = new Set(['RUN_FINISHED', 'RUN_ERROR']);
const AG_UI = { format: 'ag_ui', parse: (data) => JSON.parse(data), ends: ({ type }) => ENDS.has(type) };

export function relayDurability(request, { url, credential }) {
  const query = new URL(request.url).searchParams;
  const offset = request.headers.get('last-event-id') ?? query.get('offset');
  const options = { credential, streamsUrl: `${url}/v1/streams`, dialect: AG_UI };
  const ids = new WeakMap(); // the relay's, of its chunks
  let run = null;

  async function find() { // by the page's own id; the relay lists streams for credentials only
    const { data: [found] } = await listStreams({ ...options, metadata: `run_id:${query.get('runId')}`, limit: 1 });
    if (!found) throw new Error('the run is not known');
    return found.stream;
  }
  return {
    async start(input) { // throws what the relay refuses
      const asked = { ...input, forwardedProps: { on_disconnect: 'continue', ...input.forwardedProps } };
      run = new ChatStream(asked, { ...options, url: `${url}/v1/ag-ui`, idempotencyKey: input.runId });
      const events = run[Symbol.asyncIterator]();
      const first = await events.next();
      return (async function* () {
        for (let next = first; !next.done; next = await events.next()) {
          ids.set(next.value.event, next.value.id);
          yield next.value.event;
        }
      })();
    },
    resumeFrom: () => offset,
    // The relay has them. TanStack AI's own first chunk stands before the run's first.
    append: async (chunks) => chunks.map((chunk) => ids.get(chunk) ?? `${run.streamId}.g0`),
    async *read(after, signal) {
      const from = after === '-1' ? { stream: await find() } : { stream: after.split('.')[0], after };
      for await (const { id, event } of new ChatStream(null, { ...options, ...from, signal })) yield { offset: id, chunk: event };
    },
    close: async () => {},
    snapshot: async () => { throw new Error('for servers that take a run over, which the relay does by itself'); },
  };
}
