// Judges streams with the front ends' own code: front_ends.mjs ai|ai6|ag-ui, streams as JSON on stdin.
// Each stream is the list of its chunks; prints for each what is wrong with it and what the client makes of it.
const [judge] = process.argv.slice(2);
const { from, lastValueFrom, toArray } = await import("rxjs");

async function uiJudge(pack) {
  const { readUIMessageStream, uiMessageChunkSchema, validateUIMessages } = await import(pack);
  const schema = uiMessageChunkSchema();
  return async (chunks) => {
    const wrong = [];
    for (const chunk of chunks) {
      const { success } = await schema.validate(chunk);
      if (!success) wrong.push(`not in the schema: ${JSON.stringify(chunk)}`);
    }
    // What a provider failed with comes as an error of the stream: that is no fault of its form.
    const told = chunks.flatMap(({ type, errorText }) => (type === "error" ? [errorText] : []));
    const onError = ({ message }) => told.includes(message) || wrong.push(message);
    let message;
    for await (const seen of readUIMessageStream({ stream: ReadableStream.from(chunks), onError })) message = seen;
    if (message?.parts.length) await validateUIMessages({ messages: [message] });
    return { wrong, text: (message?.parts ?? []).map(({ type, text }) => (type === "text" ? text : "")).join("") };
  };
}

async function agUiJudge() {
  const { EventSchema } = await import("@ag-ui/core/schemas");
  const { verifyEvents } = await import("@ag-ui/client");
  return async (events) => {
    const wrong = [];
    for (const event of events) {
      if (!EventSchema.safeParse(event).success) wrong.push(`not in the schema: ${JSON.stringify(event)}`);
    }
    await lastValueFrom(from(events).pipe(verifyEvents(false), toArray()));
    return { wrong, text: events.map(({ type, delta }) => (type === "TEXT_MESSAGE_CONTENT" ? delta : "")).join("") };
  };
}

let input = "";
for await (const piece of process.stdin.setEncoding("utf8")) input += piece;
const examine = judge === "ag-ui" ? await agUiJudge() : await uiJudge(judge);
const found = [];
for (const stream of JSON.parse(input)) {
  found.push(await examine(stream).catch((error) => ({ wrong: [String(error)], text: null })));
}
console.log(JSON.stringify(found));
