import { DONE, FINISH, answer, head, hold, send, startRelay, text, type Script } from 'seseragi/testing';

const slow: Script = [head(), send(text('One')), { wait: 1 }, send(FINISH + DONE)];

export async function answerOf(model: string): Promise<string> {
  await using relay = await startRelay({ settings: { attempts: 1, cors_origins: ['https://page.example'] } });
  relay.upstream.script = slow;
  relay.upstream.choose = (call) => (call.json().stream ? answer('Hello') : [head(), hold()]);
  const reply = await fetch(`${relay.apiUrl}/chat`, { method: 'POST', body: JSON.stringify({ model }) });
  return reply.text();
}
