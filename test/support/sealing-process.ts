// An audit sealer by itself, for tests that kill it: node test/support/sealing-process.ts DATABASE_URL
import { createAuditSealer } from '../../activities/seal-audit.ts';
import { createPool } from '../../shared/db/pool.ts';
import { createLogger } from '../../shared/log.ts';

const pool = createPool({ url: process.argv[2]!, application: 'sealing-process' });
createAuditSealer({ pool, logger: createLogger({ process: 'test', level: 'warn' }) }).start();
