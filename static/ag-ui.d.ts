/** The types of ag-ui.js, written by hand. */

import { AbstractAgent } from '@ag-ui/client';
import type { AgentCapabilities, AgentConfig, BaseEvent, RunAgentInput } from '@ag-ui/client';
import type { Observable } from 'rxjs';

import type { CallOptions, ClientStorage, ReadOptions } from './seseragi.js';

export interface SeseragiAgentConfig extends AgentConfig, Pick<CallOptions, 'credential' | 'headers' | 'fetch'> {
  /** `/v1/ag-ui`, at the relay or behind your own path for it. */
  url?: string;
  /** Where the streams are, if not beside it. */
  streamsUrl?: string;
  /** What becomes of a run whose last reader has left: it goes on for so many seconds, 60, or as `on_disconnect` says. */
  onDisconnect?: 'continue' | 'cancel' | number;
  /** Keeps which run goes on, for `connectAgent` after a reload. */
  storage?: ClientStorage;
  /** How lost connections are replaced. */
  reading?: Pick<ReadOptions, 'maxAttempts' | 'maxWaitMs' | 'retryMs' | 'maxDelayMs' | 'stallMs'>;
}

/**
 * An agent of AG-UI over the relay. A connection that is lost is continued from the last event:
 * subscribers are not told, and are given each event once. While a run goes on, `runAgent` and
 * `connectAgent` come to its end instead of beginning another.
 */
export class SeseragiAgent extends AbstractAgent {
  constructor(config?: SeseragiAgentConfig);
  readonly url: string;
  /** What the relay can: `transport.resumable` among others. */
  getCapabilities(): Promise<AgentCapabilities>;
  run(input: RunAgentInput): Observable<BaseEvent>;
  protected connect(input: RunAgentInput): Observable<BaseEvent>;
  /** Stop the model; the run ends as cancelled, for all its readers. `detachActiveRun()` only leaves. */
  abortRun(): void;
  clone(): SeseragiAgent;
}
