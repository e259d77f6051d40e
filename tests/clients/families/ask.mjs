// A program: asks relays by some clients for answers that fail, and writes what that showed.
//
// `node ask.mjs CLIENT=URL... FAULT[+FAULT][@URL]...` asks by all clients at once, each at a relay
// of its own or at the one of the faults, for one fault after the other, for those with a "+" at
// once. It writes a line of JSON for each client and each fault, whose name is the model that it
// asks for: what was raised, the errors that were shown instead, else the text and how the client
// says that it ended.

const PROMPT = 'Hello';
const MESSAGES = [{ role: 'user', content: PROMPT }];

async function openai(url) {
  const { default: OpenAI } = await import('openai');
  return new OpenAI({ baseURL: `${url}/v1`, apiKey: 'unused', maxRetries: 0 });
}

async function openAIChat(url, model, say) {
  const sdk = await openai(url);
  let finish = null;
  for await (const chunk of await sdk.chat.completions.create({ model, messages: MESSAGES, stream: true })) {
    say(chunk.choices[0]?.delta.content ?? '');
    finish = chunk.choices[0]?.finish_reason ?? finish;
  }
  return finish;
}

async function openAIChatHelper(url, model, say) {
  const sdk = await openai(url);
  const stream = sdk.chat.completions.stream({ model, messages: MESSAGES });
  stream.on('content', say);
  return (await stream.finalChatCompletion()).choices[0].finish_reason;
}

async function openAIResponses(url, model, say) {
  const sdk = await openai(url);
  let finish = null;
  for await (const event of await sdk.responses.create({ model, input: PROMPT, stream: true })) {
    if (event.type === 'response.output_text.delta') say(event.delta);
    finish = event.response?.status ?? finish;
  }
  return finish;
}

async function openAIResponsesHelper(url, model, say) {
  const sdk = await openai(url);
  const stream = sdk.responses.stream({ model, input: PROMPT });
  stream.on('response.output_text.delta', ({ delta }) => say(delta));
  return (await stream.finalResponse()).status;
}

async function anthropic(url, model, say) {
  const { default: Anthropic } = await import('@anthropic-ai/sdk');
  const sdk = new Anthropic({ baseURL: url, apiKey: 'unused', maxRetries: 0 });
  const stream = sdk.messages.stream({ model, max_tokens: 100, messages: MESSAGES });
  stream.on('text', say);
  return (await stream.finalMessage()).stop_reason;
}

function langChain(make) {
  return async (url, model, say) => {
    const sdk = await make(url, model);
    let finish = null;
    for await (const chunk of await sdk.stream(PROMPT)) {
      say(chunk.text);
      const said = chunk.response_metadata ?? {};
      finish =
        said.finish_reason ?? said.status ?? said.stop_reason ?? chunk.additional_kwargs?.stop_reason ?? finish;
    }
    return finish;
  };
}

const langChainOpenAI = (useResponsesApi) =>
  langChain(async (url, model) => {
    const { ChatOpenAI } = await import('@langchain/openai');
    const configuration = { baseURL: `${url}/v1` };
    return new ChatOpenAI({ model, apiKey: 'unused', maxRetries: 0, configuration, useResponsesApi });
  });

const langChainAnthropic = langChain(async (url, model) => {
  const { ChatAnthropic } = await import('@langchain/anthropic');
  return new ChatAnthropic({ model, apiKey: 'unused', maxRetries: 0, anthropicApiUrl: url });
});

function agents(api) {
  return async (url, model, say) => {
    const sdk = await import('@openai/agents');
    sdk.setTracingDisabled(true);
    const Model = api === 'chat' ? sdk.OpenAIChatCompletionsModel : sdk.OpenAIResponsesModel;
    const agent = new sdk.Agent({ name: 'a', model: new Model(await openai(url), model) });
    const run = await sdk.run(agent, PROMPT, { stream: true });
    for await (const event of run) {
      if (event.type === 'raw_model_stream_event' && event.data.type === 'output_text_delta') say(event.data.delta);
    }
    await run.completed;
    return run.finalOutput === undefined ? null : 'complete';
  };
}

// What `streamText` of the AI SDK shows: a part of the type `error` or `abort`, and the reason.
function streamText(version, provider) {
  return async (url, model, say, show) => {
    const { streamText: stream } = await import(`ai${version}`);
    const result = stream({
      model: await provider(version, url, model),
      prompt: PROMPT,
      maxRetries: 0,
      onError: () => {},
    });
    let finish = null;
    for await (const part of result.fullStream) {
      if (part.type === 'text-delta') say(part.text);
      if (part.type === 'error') show(String(part.error?.message ?? JSON.stringify(part.error)));
      if (part.type === 'abort') show('abort');
      if (part.type === 'finish') finish = part.finishReason;
    }
    return finish;
  };
}

const from = (version, name) =>
  import(version === '' ? `@ai-sdk/${name}` : `ai${version}-${name}`);

const PROVIDERS = {
  async responses(version, url, model) {
    return (await from(version, 'openai')).createOpenAI({ baseURL: `${url}/v1`, apiKey: 'unused' })(model);
  },
  async chat(version, url, model) {
    return (await from(version, 'openai')).createOpenAI({ baseURL: `${url}/v1`, apiKey: 'unused' }).chat(model);
  },
  async anthropic(version, url, model) {
    return (await from(version, 'anthropic')).createAnthropic({ baseURL: `${url}/v1`, apiKey: 'unused' })(model);
  },
  async compatible(version, url, model) {
    const { createOpenAICompatible } = await from(version, 'openai-compatible');
    return createOpenAICompatible({ name: 'relay', baseURL: `${url}/v1`, apiKey: 'unused' })(model);
  },
};

// What `useChat` is given: the chunks of the transport, read into a message.
function uiStream(version) {
  return async (url, model, say, show) => {
    const { DefaultChatTransport, readUIMessageStream } = await import(`ai${version}`);
    const transport = new DefaultChatTransport({ api: `${url}/v1/ui/chat`, body: { model } });
    const messages = [{ id: 'm1', role: 'user', parts: [{ type: 'text', text: PROMPT }] }];
    const chat = crypto.randomUUID();
    const chunks = await transport.sendMessages({ chatId: chat, messages, trigger: 'submit-message' });
    let finish = null;
    const watched = chunks.pipeThrough(
      new TransformStream({
        transform(chunk, controller) {
          if (chunk.type === 'text-delta') say(chunk.delta);
          if (chunk.type === 'abort') show('abort');
          if (chunk.type === 'finish') finish = chunk.finishReason ?? 'finish';
          controller.enqueue(chunk);
        },
      }),
    );
    const onError = (error) => show(error.message);
    for await (const _ of readUIMessageStream({ stream: watched, onError }));
    return finish;
  };
}

async function agUi(url, model, say, show) {
  // The one of the root: beside this program is what CopilotKit needs.
  const { HttpAgent } = await import('../../../node_modules/@ag-ui/client/dist/index.mjs');
  const agent = new HttpAgent({ url: `${url}/v1/ag-ui` });
  agent.messages.push({ id: 'u1', role: 'user', content: PROMPT });
  let finish = null;
  await agent.runAgent(
    { forwardedProps: { model } },
    {
      onTextMessageContentEvent: ({ event }) => say(event.delta),
      onRunErrorEvent: ({ event }) => show(event.message),
      onRunFinishedEvent: ({ event }) => (finish = event.outcome.type),
    },
  );
  return finish;
}

async function copilotKit(url, model, say, show) {
  const { CopilotKitCore } = await import('@copilotkit/core');
  const { HttpAgent } = await import('@ag-ui/client');
  const agent = new HttpAgent({ agentId: 'default', url: `${url}/v1/ag-ui` });
  const core = new CopilotKitCore({ agents__unsafe_dev_only: { default: agent }, properties: { model } });
  core.subscribe({ onError: ({ error }) => show(error.message) });
  let finish = null;
  agent.subscribe({
    onTextMessageContentEvent: ({ event }) => say(event.delta),
    onRunFinishedEvent: ({ event }) => (finish = event.outcome.type),
  });
  agent.addMessage({ id: 'u1', role: 'user', content: PROMPT });
  await core.runAgent({ agent });
  return finish;
}

async function tanStack(url, model, say, show) {
  const { ChatClient, fetchServerSentEvents } = await import('@tanstack/ai-client');
  let finish = null;
  const client = new ChatClient({
    connection: fetchServerSentEvents(`${url}/v1/ag-ui`, { reconnect: { maxAttempts: 2, delayMs: 10 } }),
    forwardedProps: { model },
    onChunk: ({ type, delta, outcome }) => {
      if (type === 'TEXT_MESSAGE_CONTENT') say(delta);
      if (type === 'RUN_FINISHED') finish = outcome.type;
    },
    onError: (error) => show(error.message),
  });
  await client.sendMessage(PROMPT);
  return finish;
}

async function seseragi(url, model, say) {
  const { chat } = await import('../../../static/seseragi.js');
  const request = { messages: MESSAGES, model };
  let finish = null;
  const options = { url: `${url}/v1/chat`, maxAttempts: 2, retryMs: 10, maxDelayMs: 20 };
  for await (const { event } of chat(request, options)) {
    if (event.type === 'text.delta') say(event.text);
    if (event.type === 'stream.end') finish = event.status;
  }
  return finish;
}

const CLIENTS = {
  'ag-ui': agUi,
  copilotkit: copilotKit,
  tanstack: tanStack,
  seseragi,
  'openai-node-chat': openAIChat,
  'openai-node-chat-helper': openAIChatHelper,
  'openai-node-responses': openAIResponses,
  'openai-node-responses-helper': openAIResponsesHelper,
  'anthropic-node': anthropic,
  'langchain-js-chat': langChainOpenAI(false),
  'langchain-js-responses': langChainOpenAI(true),
  'langchain-js-anthropic': langChainAnthropic,
  'openai-agents-js-chat': agents('chat'),
  'openai-agents-js-responses': agents('responses'),
  'ai-compatible': streamText('', PROVIDERS.compatible),
};
for (const [label, version] of [['5', '5'], ['6', '6'], ['7', '']]) {
  for (const name of ['responses', 'chat', 'anthropic']) {
    CLIENTS[`ai-${label}-${name}`] = streamText(version, PROVIDERS[name]);
  }
  CLIENTS[`ai-${label}-ui`] = uiStream(version);
}

async function askAll(client, url, faults) {
  for (const words of faults) {
    const [together, elsewhere = url] = words.split('@');
    await Promise.all(together.split('+').map((fault) => askOne(client, elsewhere, fault)));
  }
}

async function askOne(client, url, fault) {
  let text = '';
  const errors = [];
  const found = { client, fault };
  try {
    found.finish = await CLIENTS[client](
      url,
      fault,
      (piece) => (text += piece ?? ''),
      (error) => errors.push(error),
    );
  } catch (error) {
    found.raised = `${error?.constructor?.name}: ${error?.message ?? error}`.slice(0, 300);
  }
  console.log(JSON.stringify({ ...found, ...(errors.length ? { errors } : {}), text }));
}

const words = process.argv.slice(2);
const asked = words.filter((word) => word.includes('=')).map((word) => word.split('='));
const faults = words.filter((word) => !word.includes('='));
process.on('unhandledRejection', () => {}); // of promises of the clients that nobody asked for
await Promise.all(asked.map(([client, url]) => askAll(client, url, faults)));
process.exit(0);
