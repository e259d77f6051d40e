import { SeseragiError, cancel, chat, listStreams, resume, resumeFrom, startAsync } from 'seseragi';
import type { ChatRequest, StreamEvent } from 'seseragi';
import { parsePartial } from 'seseragi/partial-json';
import { AnswerParts, assistantMessage } from 'seseragi/parts';
import type { AnswerPart } from 'seseragi/parts';
import { Smooth } from 'seseragi/smooth';
import { chatWithTools } from 'seseragi/tools';

const request: ChatRequest = { model: 'demo', messages: [{ role: 'user', content: 'Hi' }] };

export async function ask(paint: (text: string) => void): Promise<string | null> {
  const smooth = new Smooth(paint, { lagMs: 100 });
  const answer = new AnswerParts();
  const stream = chat(request, { credential: async () => ({ value: 'ek_1', expires_at: 1 }), idempotencyKey: 'k' });
  try {
    for await (const { id, event } of stream) {
      answer.receive(event);
      if (event.type === 'text.delta') smooth.push(event.text);
      if (event.type === 'stream.end') console.log(id, event.status, event.usage?.cost, describe(event));
    }
  } catch (error) {
    if (error instanceof SeseragiError && error.retryable) console.log(error.retryAfterS);
  }
  await smooth.end();
  const message = assistantMessage(answer.parts);
  if (message) request.messages.push(message);
  return stream.streamId;
}

function describe(event: StreamEvent): string {
  switch (event.type) {
    case 'tool_call.end': return event.arguments;
    case 'reasoning.delta': return event.text;
    default: return event.type;
  }
}

export function draw(part: AnswerPart): string {
  if (part.type === 'tool_call') return `${part.name} in ${parsePartial<{ city: string }>(part.arguments).value?.city}`;
  return 'text' in part ? part.text : part.type;
}

export async function act(): Promise<ChatRequest['messages']> {
  const loop = chatWithTools(request, { tools: { add: { parameters: { type: 'object' }, run: ({ a, b }: { a: number; b: number }) => a + b } } });
  for await (const { event } of loop) if (event.type === 'stream.end') console.log(event.status);
  return loop.messages;
}

export async function later(): Promise<void> {
  const { id } = await startAsync(request);
  await cancel(id);
  for await (const { data } of resumeFrom(sessionStorage) ?? []) console.log(data);
}

export async function elsewhere(): Promise<void> {
  const { data } = await listStreams({ status: 'running', metadata: 'topic:tea' });
  const [newest] = data;
  if (newest?.metadata?.topic) for await (const { event } of resume(newest.stream)) console.log(event.type);
}

// @ts-expect-error messages are required
chat({ model: 'demo' });
