/**
 * Take what comes in a burst in short tasks, so that the page answers and paints between them.
 */

const TASK_MS = 8; // half a frame
const PAUSE_MS = 4; // nothing for so long: the task was over by itself

/**
 * @template T
 * @param {AsyncIterable<T>} events
 * @param {() => number} [now]
 * @param {() => Promise<unknown>} [rest] lets others have their turn
 * @returns {AsyncGenerator<T, void, void>}
 */
export async function* paced(events, now = () => performance.now(), rest = nextTask) {
  let began = now();
  let last = began;
  for await (const event of events) {
    if (now() - last > PAUSE_MS) began = now();
    yield event;
    last = now();
    if (last - began < TASK_MS) continue;
    await rest();
    began = last = now();
  }
}

function nextTask() {
  return new Promise((resolve) => {
    const { port1, port2 } = new MessageChannel(); // a timer would wait, for a second in a tab behind
    port1.onmessage = () => {
      port1.close();
      resolve(null);
    };
    port2.postMessage(null);
  });
}
