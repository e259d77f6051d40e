/** Give who asks a secret of ten minutes: here each visitor, in your app who is signed in. */
export async function POST(request) {
  const known = /(?:^|; )visitor=([\w-]{36})(?:;|$)/.exec(request.headers.get('cookie') ?? '');
  const visitor = known?.[1] ?? crypto.randomUUID();
  const reply = await fetch(`${process.env.RELAY_URL}/v1/client_secrets`, {
    method: 'POST',
    cache: 'no-store',
    headers: { authorization: `Bearer ${process.env.RELAY_KEY}`, 'content-type': 'application/json' },
    body: JSON.stringify({ user: `visitor-${visitor}` }),
  });
  if (!reply.ok) return new Response(null, { status: 502 });
  const { value, expires_at } = await reply.json();
  const cookie = `visitor=${visitor}; Path=/; HttpOnly; SameSite=Lax; Max-Age=86400`;
  return Response.json({ value, expires_at }, { headers: { 'cache-control': 'no-store', 'set-cookie': cookie } });
}
