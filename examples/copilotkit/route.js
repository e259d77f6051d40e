import { HttpAgent } from '@ag-ui/client';
import { CopilotRuntime, createCopilotRuntimeHandler } from '@copilotkit/runtime/v2';

import { RelayRunner } from './runner.js';

const relay = { url: process.env.RELAY_URL ?? 'http://127.0.0.1:8000', credential: process.env.RELAY_KEY };

export const threads = new Map();

/** The handler of requests to `/api/copilotkit` and below, for any server with `Request` and `Response`. */
export const createHandler = () => createCopilotRuntimeHandler({
  basePath: '/api/copilotkit',
  runtime: new CopilotRuntime({ agents: { default: new HttpAgent({ url: `${relay.url}/v1/ag-ui` }) }, runner: new RelayRunner({ ...relay, threads }) }),
});
