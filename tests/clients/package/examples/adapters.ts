import type { ChatTransport, UIMessage } from 'ai';
import { SeseragiAgent } from 'seseragi/ag-ui';
import { SeseragiChatTransport } from 'seseragi/ai-sdk';

type Own = UIMessage<{ model: string }>;

export const transport: ChatTransport<Own> = new SeseragiChatTransport<Own>({
  api: 'https://relay.example/v1/ui/chat',
  body: () => ({ model: 'demo' }),
  credential: 'ek_1',
});
export const stop = (chat: string): Promise<void> => new SeseragiChatTransport().stop(chat);

export async function run(): Promise<unknown> {
  const agent = new SeseragiAgent({ url: '/v1/ag-ui', threadId: 't', storage: sessionStorage, onDisconnect: 'continue' });
  await agent.connectAgent();
  agent.addMessage({ id: 'u', role: 'user', content: 'Hi' });
  const { newMessages } = await agent.runAgent({ forwardedProps: { model: 'demo' } }, {
    onTextMessageContentEvent: ({ event }) => console.log(event.delta),
  });
  agent.clone().abortRun();
  return newMessages;
}
