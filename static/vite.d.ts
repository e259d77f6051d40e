/** The types of vite.js, written by hand. */

export interface RelayProxy {
  target: string;
  configure(proxy: any): void;
}

/**
 * The entries of Vite's `server.proxy` for a relay.
 *
 * @param target its URL; without it that of the environment variable RELAY_URL, else http://127.0.0.1:8000
 */
export function relayProxy(target?: string): { '/v1': RelayProxy };
