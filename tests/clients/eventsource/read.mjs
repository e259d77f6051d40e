// Reads a stream through a library, cut after each of its bytes once: read.mjs LIBRARY URL [STEP]
// Prints for every cut what events the library has told of, by their numbers.
//
// The server here stands between the library and the relay. It asks the relay once for each
// cursor, with the query and the header that the library has sent, and says those bytes again:
// a thousand readers are then a matter of this process alone.
import net from "node:net";
import { createRequire } from "node:module";
import { once } from "node:events";

const [library, target, step = "1"] = process.argv.slice(2);
const { hostname, port, pathname, search } = new URL(target);
const TYPES = ["stream.start", "stream.target", "text.start", "text.delta", "text.end", "choice.end", "usage", "stream.end"];
const require = createRequire(import.meta.url);
const REFUSAL = Buffer.from("HTTP/1.1 503 Busy\r\nconnection: close\r\ncontent-length: 0\r\n\r\n");

// ---- The libraries: (url, tell, ended) => nothing. `tell` gets the type, the id, the data.

function listen(source, tell) {
  source.onerror = () => setTimeout(() => source.readyState === 2 && tell()); // it has given up
  for (const type of TYPES) source.addEventListener(type, (event) => tell(event.type, event.lastEventId, event.data) && source.close());
}

const READERS = {
  async eventsource2() {
    const EventSource = require("eventsource2");
    return (url, tell) => listen(new EventSource(url), tell);
  },
  async "launchdarkly-eventsource"() {
    const { EventSource } = require("launchdarkly-eventsource");
    return (url, tell) => {
      const source = new EventSource(url, { initialRetryDelayMillis: 100, maxBackoffMillis: 100 });
      listen(source, tell);
    };
  },
  async "event-source-polyfill"() {
    const { EventSourcePolyfill } = require("event-source-polyfill");
    return (url, tell) => listen(new EventSourcePolyfill(url), tell);
  },
  async "reconnecting-eventsource"() {
    // It comes back by itself only where an EventSource has given up, as at a 503.
    const { EventSource } = await import("eventsource3");
    globalThis.EventSource = EventSource;
    const { default: Reconnecting } = require("reconnecting-eventsource");
    return (url, tell) => listen(new Reconnecting(url, { max_retry_time: 200 }), tell);
  },
  async "@microsoft/fetch-event-source"() {
    globalThis.window = globalThis;
    globalThis.document = new EventTarget();
    const { fetchEventSource } = require("@microsoft/fetch-event-source");
    return (url, tell) => {
      const leaving = new AbortController();
      fetchEventSource(url, {
        signal: leaving.signal,
        openWhenHidden: true,
        async onopen({ status }) {
          if (status === 204) throw new Error("there is nothing more");
        },
        onerror(error) {
          if (error.message === "there is nothing more") throw error;
          return 100; // the time to wait
        },
        onmessage: ({ event, id, data }) => event && tell(event, id, data) && leaving.abort(),
      }).catch(() => tell());
    };
  },
  async "eventsource-client"() {
    const { createEventSource } = await import("eventsource-client");
    return (url, tell) => {
      const source = createEventSource({
        url,
        onMessage: ({ event, id, data }) => tell(event, id, data) && source.close(),
      });
    };
  },
};
for (const version of ["3", "5"]) {
  READERS[`eventsource${version}`] = async () => {
    const { EventSource } = await import(`eventsource${version}`);
    return (url, tell) => listen(new EventSource(url), tell);
  };
}

// ---- The relay's answers, and the server that cuts them

const answers = new Map();

function answer(path, cursor) {
  const key = `${path}\n${cursor}`;
  if (!answers.has(key)) answers.set(key, ask(path, cursor));
  return answers.get(key);
}

async function ask(path, cursor) {
  const header = cursor ? `last-event-id: ${cursor}\r\n` : "";
  const socket = net.connect(port, hostname);
  socket.write(`GET ${path} HTTP/1.1\r\nhost: ${hostname}:${port}\r\naccept: text/event-stream\r\n${header}\r\n`);
  let whole = Buffer.alloc(0);
  // Not `connection: close`: with that, Node's fetch takes a body that was cut for a whole one.
  while (!whole.includes("\r\n0\r\n\r\n") && !whole.includes("HTTP/1.1 204")) {
    const [data] = await once(socket, "data");
    whole = Buffer.concat([whole, data]);
  }
  socket.destroy();
  return whole;
}

const visits = new Map();

async function serve(socket) {
  socket.on("error", () => {});
  let head = "";
  while (!head.includes("\r\n\r\n")) {
    const [data] = await once(socket, "data");
    head += data;
  }
  const [, cut, rest] = /^GET \/(\d+)(\S*)/.exec(head);
  const [, cursor = ""] = /^last-event-id: *(.*?)\r$/im.exec(head) ?? [];
  const visit = (visits.get(cut) ?? 0) + 1;
  visits.set(cut, visit);
  const whole = await answer(rest, cursor);
  if (visit === 1) socket.end(whole.subarray(0, whole.indexOf("\r\n\r\n") + 4 + Number(cut)));
  else if (visit === 2 && library === "reconnecting-eventsource") socket.end(REFUSAL);
  else socket.end(whole);
}

const server = net.createServer((socket) => serve(socket).catch(() => socket.destroy()));
server.listen({ port: 0, host: "127.0.0.1", backlog: 4096 });
await once(server, "listening");

function typeOf(data) {
  try {
    return JSON.parse(data).type;
  } catch {
    return null; // no event of the relay
  }
}

// ---- The run

const open = await READERS[library]();
const whole = await answer(pathname + search, "");
const size = whole.length - whole.indexOf("\r\n\r\n") - 4;

function play(cut) {
  const seen = [];
  return new Promise((resolve) => {
    const timer = setTimeout(() => resolve([cut, seen, "in vain"]), 150_000);
    open(`http://127.0.0.1:${server.address().port}/${cut}${pathname}${search}`, (type, id, data) => {
      if (type) seen.push([Number(id.split(".").at(-1)), typeOf(data) === type]);
      if (type && type !== "stream.end") return false;
      clearTimeout(timer);
      setTimeout(() => resolve([cut, seen]), 20);
      return true;
    });
  });
}

const cuts = [];
for (let cut = 0; cut <= size; cut += Number(step)) cuts.push(cut);
const found = await Promise.all(cuts.map(play));
console.log(JSON.stringify({ whole: whole.subarray(-size).toString(), found }));
process.exit(0);
