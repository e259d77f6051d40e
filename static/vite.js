/**
 * The relay behind Vite's development server: `server: { proxy: relayProxy() }` in vite.config.js.
 *
 * @module seseragi/vite
 */

/** @param {string} [target] the relay's URL */
export function relayProxy(target = process.env.RELAY_URL ?? 'http://127.0.0.1:8000') {
  /** @param {any} proxy */
  const configure = (proxy) => {
    // Vite would keep the page's connection open after the relay's has broken.
    proxy.on('proxyRes', (reply, _, answer) => reply.on('close', () => reply.complete || answer.destroy()));
  };
  return { '/v1': { target, configure } };
}
