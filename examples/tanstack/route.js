import { resumeServerSentEventsResponse, toServerSentEventsResponse } from '@tanstack/ai';

import { relayDurability } from './durability.js';

const relay = { url: process.env.RELAY_URL ?? 'http://127.0.0.1:8000', credential: process.env.RELAY_KEY };

export async function POST(request) {
  const adapter = relayDurability(request, relay);
  if (adapter.resumeFrom() !== null) return resumeServerSentEventsResponse({ adapter });
  try {
    return toServerSentEventsResponse(await adapter.start(await request.json()), { durability: { adapter, batch: 1 } });
  } catch ({ code, message, status }) {
    return Response.json({ code, message }, { status: status || 502 });
  }
}

export async function GET(request) {
  return resumeServerSentEventsResponse({ adapter: relayDurability(request, relay) });
}
