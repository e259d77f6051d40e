// Runs AG-UI's own agent against a relay: ag_ui.mjs URL RUNS_JSON [PACKAGE]
// Each run adds messages and has parameters; prints the events, the messages and what failed.
const [url, runs, name = "@ag-ui/client"] = process.argv.slice(2);
const { HttpAgent } = await import(name);
const agent = new HttpAgent({ url, threadId: "thread-1" });
const seen = [];
const warned = []; // what the client dropped or stripped: a fault of ours
console.warn = (...words) => warned.push(words.join(" "));
let failed = null;
for (const { messages = [], answer, stop, ...parameters } of JSON.parse(runs)) {
  for (const message of messages) agent.messages.push(message);
  if (answer !== undefined) {
    const call = agent.messages.flatMap(({ toolCalls }) => toolCalls ?? []).at(-1);
    agent.messages.push({ id: "t1", role: "tool", toolCallId: call.id, content: answer });
  }
  const onEvent = async ({ event }) => {
    seen.push(event);
    if (stop && event.type === "TEXT_MESSAGE_CONTENT") {
      const { stream } = seen.find(({ name }) => name === "seseragi.stream.start").value;
      await fetch(new URL(`/v1/streams/${stream}/cancel`, url), { method: "POST" });
    }
  };
  try {
    await agent.runAgent(parameters, { onEvent });
  } catch (error) {
    failed = String(error.message ?? error);
  }
}
console.log(JSON.stringify({ seen, warned, failed, messages: agent.messages }));
