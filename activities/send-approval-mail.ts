import type { Clock } from '../shared/db/clock.ts';
import type { Pool } from '../shared/db/pool.ts';
import type { Logger } from '../shared/log.ts';

export interface SendApprovalMailDependencies {
  readonly pool: Pool;
  readonly clock: Clock;
  readonly logger: Logger;
}

export function createSendApprovalMail(_deps: SendApprovalMailDependencies) {
  return async function sendApprovalMail(_mail: {
    approvalId: string;
    approver: string;
  }): Promise<'sent' | 'unneeded'> {
    return 'unneeded';
  };
}
