// Asks a relay through Anthropic's own client: anthropic.mjs BASE_URL REQUEST_JSON
// Prints what it made of the answer: the events' names, the message, and what failed.
import Anthropic from "@anthropic-ai/sdk";

const [baseURL, request] = process.argv.slice(2);
const client = new Anthropic({ apiKey: "k", baseURL, maxRetries: 0 });
const { beta, stream, ...body } = JSON.parse(request);
const messages = beta ? client.beta.messages : client.messages;

const seen = [];
try {
  if (stream) {
    const running = messages.stream(body);
    running.on("streamEvent", (event) => seen.push(event.type));
    running.on("error", () => {});
    const message = await running.finalMessage();
    print({ seen, message });
  } else {
    print({ seen, message: await messages.create(body) });
  }
} catch (error) {
  print({
    seen,
    failed: {
      name: error.constructor.name,
      status: error.status ?? null,
      type: error.type ?? error.error?.error?.type ?? null,
      message: error.message,
    },
  });
}

function print(value) {
  console.log(JSON.stringify(value));
}
