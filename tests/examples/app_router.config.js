/**
 * Serves the app directory of examples/next as Next.js does, without it: the page is drawn here
 * and hydrated in the browser, and a route is a function of Request and Response.
 *
 * Next.js itself would take CI half a minute of work: 230 MB to install and a compiler of its own.
 */

import { renderToString } from 'react-dom/server';

const ENTRY = `
  import { StrictMode, createElement as h } from 'react';
  import { hydrateRoot } from 'react-dom/client';
  import Layout from '/app/layout.jsx';
  import Page from '/app/page.jsx';

  export const tree = h(StrictMode, null, h(Layout, null, h(Page), h('script', { type: 'module', src: '/entry.js' })));
  if (globalThis.document) hydrateRoot(document, tree);
`;

/** @param {import('vite').ViteDevServer} server */
function configureServer(server) {
  server.middlewares.use(async (request, reply, next) => {
    const { pathname } = new URL(request.url, 'http://app.test');
    if (pathname === '/') {
      const { tree } = await server.ssrLoadModule('/entry.js');
      reply.setHeader('content-type', 'text/html; charset=utf-8');
      reply.end(`<!doctype html>${renderToString(tree)}`);
    } else if (pathname.startsWith('/api/')) {
      const route = await server.ssrLoadModule(`/app${pathname}/route.js`);
      const { method, headers } = request;
      const answer = await route[method](new Request(`http://${headers.host}${pathname}`, { method, headers }));
      reply.writeHead(answer.status, Object.fromEntries(answer.headers));
      reply.end(await answer.text());
    } else {
      next();
    }
  });
}

const entry = {
  name: 'entry',
  configureServer,
  resolveId: (id) => (id === '/entry.js' ? id : null),
  load: (id) => (id === '/entry.js' ? ENTRY : null),
  transform: (code) => code.replaceAll('process.env.NEXT_PUBLIC_RELAY_URL', JSON.stringify(process.env.RELAY_URL)),
};

export default {
  appType: 'custom',
  plugins: [entry],
  optimizeDeps: { include: ['react', 'react-dom/client', 'react/jsx-dev-runtime', 'seseragi/parts', 'seseragi/react'] },
};
